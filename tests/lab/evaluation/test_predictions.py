"""What a network makes of images, batch by batch."""

import io

import pytest
import torch
from rich.console import Console
from torch import nn

from comixup.lab._progress import progress_bar
from comixup.lab.evaluation._metrics import predict


class Scores(nn.Module):
    """Takes the first row of an image's pixels for its scores, and notes how it is called."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Dropout()
        self.modes, self.gradients = [], []

    def forward(self, images):
        self.modes.append(self.inner.training)
        self.gradients.append(torch.is_grad_enabled())
        return images[:, 0, 0]


def batches(sizes, classes=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(size, 1, 2, classes, generator=generator),
            torch.randint(classes, (size,), generator=generator),
        )
        for size in sizes
    ]


FIELDS = ("targets", "predicted", "ranks", "confidences", "losses", "briers")


def test_batches_come_together_in_their_order():
    given = batches([4, 4, 3])
    found = predict(Scores(), given)
    images, targets = (torch.cat(parts) for parts in zip(*given, strict=True))
    scores = images[:, 0, 0]
    assert len(found) == 11
    assert found.num_classes == 6
    torch.testing.assert_close(found.targets, targets)
    torch.testing.assert_close(found.predicted, scores.max(1).indices)
    order = scores.sort(1, descending=True).indices.tolist()
    ranks = [row.index(target) for row, target in zip(order, targets.tolist(), strict=True)]
    assert found.ranks.tolist() == ranks
    shares = scores.double().exp() / scores.double().exp().sum(1, keepdim=True)
    torch.testing.assert_close(found.confidences, shares.max(1).values, rtol=1e-6, atol=0)
    own = shares[torch.arange(11), targets]
    torch.testing.assert_close(found.losses, -own.log(), rtol=1e-5, atol=1e-7)


def test_batch_sizes_change_nothing():
    images, targets = batches([12])[0]
    whole = predict(Scores(), [(images, targets)])
    parts = predict(Scores(), zip(images.split(5), targets.split(5), strict=True))
    for name in FIELDS:
        torch.testing.assert_close(getattr(whole, name), getattr(parts, name), rtol=0, atol=0)


def test_empty_shares_of_a_batch_are_passed_over():
    given = batches([3, 0, 2])
    assert len(predict(Scores(), given)) == 5


def test_the_network_evaluates_and_comes_back_as_it_was():
    model = Scores()
    model.train()
    model.inner.eval()
    predict(model, batches([2]))
    assert model.modes == [False]
    assert model.gradients == [False]
    assert model.training
    assert not model.inner.training
    model.inner.train()
    with pytest.raises(ValueError, match="got none"):
        predict(model, [])
    assert model.inner.training


def test_nothing_but_the_figures_is_kept():
    found = predict(Scores(), batches([50] * 4, classes=1000))
    sizes = [getattr(found, name).untyped_storage().nbytes() for name in FIELDS]
    # Three rows may share a storage; an image's 1000 scores would be 4000 bytes.
    assert max(sizes) <= 200 * 3 * 8


def test_half_precision_scores_are_taken_in_single():
    model = nn.Sequential(Scores(), nn.Identity())
    images, targets = batches([4])[0]
    found = predict(model, [(images.half(), targets)])
    exact = images.half().double()[:, 0, 0].softmax(1).amax(1)
    torch.testing.assert_close(found.confidences, exact, rtol=1e-6, atol=0)


def test_a_bar_is_for_terminals():
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=80, legacy_windows=False)
    with progress_bar(terminal, "vanilla [0]", 11) as after:
        predict(Scores(), batches([4, 4, 3]), after=after)
    assert "vanilla [0]" in shown.getvalue()
    assert "11/11" in shown.getvalue()
    quiet = io.StringIO()
    with progress_bar(Console(file=quiet), "vanilla", 11) as after:
        after(11)
    with progress_bar(None, "vanilla", 11) as after:
        after(11)
    assert quiet.getvalue() == ""


# ---- Bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [-1, 6])
def test_classes_that_have_no_score(target):
    images = batches([2])[0][0]
    with pytest.raises(ValueError, match=f"classes from 0 to 5.*got {target}"):
        predict(Scores(), [(images, torch.tensor([0, target]))])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_scores_that_are_no_numbers(value):
    images, targets = batches([3])[0]
    images[1, 0, 0, 2] = value
    with pytest.raises(ValueError, match="those of 1 of 3 images are infinite or not a number"):
        predict(Scores(), [(images, targets)])


@pytest.mark.parametrize("model", [nn.Identity(), nn.Flatten(0)])
def test_networks_that_do_not_classify(model):
    with pytest.raises(ValueError, match=r"logits of shape \(2, classes\) for 2 images, got \("):
        predict(model, batches([2]))


def test_scores_that_change_in_number():
    with pytest.raises(ValueError, match="got 6 and then 5"):
        predict(Scores(), [*batches([2]), *batches([2], classes=5)])
