"""Each metric against a computation by hand, with other means than the library's."""

import math

import numpy as np
import pytest
import torch
from torchmetrics.classification import MulticlassCalibrationError

from cases import each_case
from comixup.lab._calibration import calibration_error, reliability_bins
from comixup.lab.evaluation._metrics import (
    Bin,
    measure,
    predict,
    wilson_interval,
)


def scores_of(shares):
    """Returns scores whose softmax is these shares."""
    return torch.tensor(shares, dtype=torch.float64).log().float()


def predicted(scores, targets):
    return predict(torch.nn.Identity(), [(torch.as_tensor(scores), torch.tensor(targets))])


def error_by_hand(confidences, right, bins=10):
    """Returns the calibration error by a plain loop: [k/10, (k+1)/10), and 1 in the last."""
    members = {}
    for confidence, hit in zip(confidences, right, strict=True):
        members.setdefault(min(math.floor(confidence * bins), bins - 1), []).append(
            (confidence, hit)
        )
    gaps = [
        len(part) * abs(math.fsum(c for c, _ in part) - sum(h for _, h in part)) / len(part)
        for part in members.values()
    ]
    return math.fsum(gaps) / len(confidences)


# ---- Expected calibration error -----------------------------------------------------------------


@each_case(
    ("confidences", "right", "error"),
    [
        ([0.95, 0.95, 0.95, 0.95], [1, 1, 1, 0], 0.2),
        ([0.95, 0.55], [1, 0], (0.05 + 0.55) / 2),
        # Too sure in one bin and too unsure in another do not make up for each other.
        ([0.75, 0.75, 0.25, 0.25], [1, 1, 0, 0], 0.25),
        # In one bin they do.
        ([0.71, 0.79, 0.75, 0.75], [0, 1, 1, 1], 0.0),
        # 0.5 belongs to the bin above it: apart from 0.45, so the gaps do not cancel.
        ([0.5, 0.45], [1, 0], (0.5 + 0.45) / 2),
        # Together with 0.55, where they do.
        ([0.5, 0.55], [1, 0], 0.025),
        # 1 belongs to the last bin: together with 0.9 the gaps cancel.
        ([1.0, 0.95], [0, 1], 0.475),
        ([1.0, 1.0], [1, 1], 0.0),
        ([1.0, 1.0], [0, 0], 1.0),
        # 0 has a bin too.
        ([0.0, 0.05], [0, 1], 0.475),
    ],
)
def test_calibration_error_by_hand(confidences, right, error):
    found = calibration_error(torch.tensor(confidences), torch.tensor(right, dtype=torch.bool))
    assert found == pytest.approx(error, abs=1e-7)


def test_many_sure_predictions_lose_no_digits():
    # In single precision, sums beyond 32768 would round each of these to 1.
    confidences = torch.full((60_000,), 0.9985)
    right = torch.ones(60_000, dtype=torch.bool)
    assert calibration_error(confidences, right) == pytest.approx(0.0015, rel=1e-4)


def test_it_is_the_multi_class_metric_of_torchmetrics():
    generator = torch.Generator().manual_seed(1)
    scores = 2 * torch.randn(800, 7, generator=generator)
    targets = torch.randint(7, (800,), generator=generator)
    metric = MulticlassCalibrationError(7, n_bins=10, norm="l1")
    found = measure(predicted(scores, targets.tolist()))
    assert found.ece == pytest.approx(100 * float(metric(scores.softmax(1), targets)), rel=1e-4)


def test_reliability_bins():
    confidences = torch.tensor([0.05, 0.92, 0.94, 1.0, 0.5], dtype=torch.float64)
    found = reliability_bins(confidences, torch.tensor([False, True, False, True, True]))
    assert [part.count for part in found] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 3]
    assert found[0] == Bin(1, 0.05, 0.0)
    assert math.isnan(found[1].confidence)
    assert math.isnan(found[1].accuracy)
    assert found[9].confidence == pytest.approx((0.92 + 0.94 + 1.0) / 3)
    assert found[9].accuracy == pytest.approx(2 / 3)


# ---- Errors, likelihood, Brier score ------------------------------------------------------------


def test_figures_of_three_images_by_hand():
    shares = [[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.25, 0.25, 0.5]]
    found = measure(predicted(scores_of(shares), [0, 2, 1]))
    assert found.images == 3
    assert found.error == pytest.approx(100 * 2 / 3)
    assert found.top5_error == 0.0  # there are three classes
    assert found.nll == pytest.approx(-(math.log(0.7) + math.log(0.4) + math.log(0.25)) / 3)
    first = 0.3**2 + 0.2**2 + 0.1**2
    second = 0.1**2 + 0.5**2 + 0.6**2
    third = 0.25**2 + 0.75**2 + 0.5**2
    assert found.brier == pytest.approx((first + second + third) / 3)
    assert found.confidence == pytest.approx(100 * (0.7 + 0.5 + 0.5) / 3)
    # Bins: 0.7 right; 0.5 and 0.5 both wrong.
    assert found.ece == pytest.approx(100 * (0.3 + 2 * 0.5) / 3, rel=1e-5)


@each_case(("place", "error"), [(0, 0.0), (4, 0.0), (5, 100.0), (9, 100.0)])
def test_top5_has_five_places(place, error):
    scores = [[float(-number) for number in range(10)]]
    found = measure(predicted(scores, [place]))
    assert found.top5_error == error
    assert found.error == (0.0 if place == 0 else 100.0)


def test_of_equal_scores_the_lower_classes_come_first():
    scores = torch.zeros(10, 10)  # every image, every class the same
    found = measure(predicted(scores, list(range(10))))
    assert (found.error, found.top5_error) == (90.0, 50.0)
    tied = [[1.0, 3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 0.0]]
    assert measure(predicted(tied, [5])).top5_error == 0.0  # 1, 2, 3, 4, then 5
    assert measure(predicted(tied, [6])).top5_error == 100.0


def test_figures_of_many_images_by_numpy():
    generator = np.random.default_rng(3)
    scores = generator.normal(size=(400, 20)).astype(np.float32)
    targets = generator.integers(20, size=400)
    order = np.argsort(-scores, axis=1)
    shares = np.exp(scores.astype(np.float64))
    shares /= shares.sum(1, keepdims=True)
    found = measure(predicted(scores, targets.tolist()))
    assert found.error == pytest.approx(100 * (order[:, 0] != targets).mean())
    assert found.top5_error == pytest.approx(100 * (order[:, :5] != targets[:, None]).all(1).mean())
    assert found.nll == pytest.approx(-np.log(shares[np.arange(400), targets]).mean(), rel=1e-6)
    distances = ((shares - np.eye(20)[targets]) ** 2).sum(1)
    assert found.brier == pytest.approx(distances.mean(), rel=1e-6)
    hits = (order[:, 0] == targets).tolist()
    by_hand = error_by_hand(shares.max(1).tolist(), hits)
    assert found.ece == pytest.approx(100 * by_hand, rel=1e-5)


# ---- Intervals ----------------------------------------------------------------------------------


def test_an_interval_solves_its_equation():
    # Its ends are the shares from which what was seen is 1.96 standard errors away.
    for hits, count in ((3, 10), (9, 10), (37, 250)):
        for end in wilson_interval(hits, count):
            distance = abs(hits / count - end) / math.sqrt(end * (1 - end) / count)
            assert distance == pytest.approx(1.959964, abs=1e-5)


def test_intervals_at_the_ends():
    assert wilson_interval(0, 50)[0] == 0.0
    assert wilson_interval(50, 50)[1] == 1.0
    assert 0 < wilson_interval(0, 50)[1] < 0.1
    low, high = measure(predicted([[1.0, 0.0]], [0])).error_interval
    assert low == 0.0
    assert 75 < high < 85  # one image says little


# ---- Bad input ----------------------------------------------------------------------------------


@each_case(
    ("confidences", "right", "message"),
    [
        ([0.5], [True, False], r"must have one shape \(n,\).*\(1,\) and \(2,\)"),
        ([], [], "with n of at least 1"),
        ([1.5], [True], "`confidences` must be from 0 to 1, got 1.5 to 1.5"),
        ([math.nan], [True], "`confidences` must be from 0 to 1, got nan"),
    ],
)
@each_case("function", [calibration_error, reliability_bins])
def test_bad_confidences_get_an_error_message(function, confidences, right, message):
    with pytest.raises(ValueError, match=message):
        function(torch.tensor(confidences), torch.tensor(right, dtype=torch.bool))


def test_diagrams_and_calibration_error_share_their_bins_at_every_edge():
    for tenth in range(10):
        edge = tenth / 10
        for confidence, bin_ in ((edge, tenth), (math.nextafter(edge, 0.0), max(tenth - 1, 0))):
            one = torch.tensor([confidence], dtype=torch.float64)
            found = reliability_bins(one, torch.tensor([True]))
            assert [row.count for row in found] == [int(k == bin_) for k in range(10)], confidence
            # With a sure hit in the same bin, their gaps cancel; in another bin they would not.
            inside = torch.tensor([confidence, tenth / 10 + 0.05], dtype=torch.float64)
            mean = float(inside.mean())
            error = calibration_error(inside, torch.tensor([True, False]))
            together = abs(mean - 0.5)
            apart = (1 - confidence + float(inside[1])) / 2
            assert error == pytest.approx(together if bin_ == tenth else apart)
    whole = reliability_bins(torch.tensor([1.0]), torch.tensor([True]))
    assert whole[9].count == 1
