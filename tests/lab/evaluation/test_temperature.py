"""Temperature scaling against hand computations and an optimizer."""

import math

import pytest
import torch
import torch.nn.functional as F

from comixup.lab.evaluation._metrics import fit_temperature
from problems import generator


def drawn(scale, count=4000, classes=5, seed=0):
    """Returns logits whose true temperature is `scale`."""
    logits = torch.randn(count, classes, generator=generator(seed)).double() * 2
    targets = torch.multinomial(logits.softmax(1), 1, generator=generator(seed + 1))[:, 0]
    return scale * logits, targets


@pytest.mark.parametrize("seed", range(5))
def test_no_other_temperature_has_a_lower_nll(seed):
    logits, targets = drawn(3.0, count=50, seed=seed)
    best = fit_temperature(logits, targets)
    lowest = F.cross_entropy(logits / best, targets)
    for factor in (0.5, 0.9, 0.999, 1.001, 1.1, 2.0):
        assert lowest <= F.cross_entropy(logits / (best * factor), targets)


def test_two_classes_by_hand():
    # Of n images with logits (a, 0) the share q is of the first class: sigmoid(a / T) = q.
    logits, targets = torch.tensor([[2.0, 0.0]] * 10), torch.tensor([0] * 7 + [1] * 3)
    assert fit_temperature(logits, targets) == pytest.approx(2 / math.log(7 / 3), rel=1e-9)


def test_where_all_or_none_are_correct_the_bounds_hold():
    logits = torch.tensor([[3.0, 0.0], [5.0, 1.0]])
    assert fit_temperature(logits, torch.tensor([0, 0])) == 0.01
    assert fit_temperature(logits, torch.tensor([1, 1])) == 100
    assert fit_temperature(torch.zeros(3, 4), torch.tensor([0, 1, 2])) == 100


@pytest.mark.parametrize(
    ("logits", "targets", "message"),
    [
        (torch.zeros(3), torch.zeros(3).long(), "shape"),
        (torch.zeros(3, 2), torch.zeros(2).long(), "shape"),
        (torch.zeros(0, 2), torch.zeros(0).long(), "one image at least"),
        (torch.full((1, 2), torch.inf), torch.zeros(1).long(), "finite"),
    ],
)
def test_other_logits_are_rejected(logits, targets, message):
    with pytest.raises(ValueError, match=message):
        fit_temperature(logits, targets)
