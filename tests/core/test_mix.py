"""Mixing a batch by a plan: images, targets, and what does not fit."""

import torch
from torch.testing import assert_close

from batches import batch
from cases import each_case
from comixup import InputMixup, Labelling, mix
from problems import generator
from rejections import rejects


def labelling(m=4, outputs=4, levels=2, grid=(2, 3), seed=0):
    draw = torch.randint(m, (outputs, levels, *grid), generator=generator(seed))
    return Labelling(draw, m)


@each_case("levels", [1, 2, 3])
@each_case("size", [(2, 3), (5, 7), (17, 32)], ids=str)
@each_case("outputs", [1, 4, 9])
def test_images_and_targets_have_the_same_shares(levels, size, outputs):
    """The mean pixel of images that are one class each is that class's share of the target."""
    z = labelling(outputs=outputs, levels=levels)
    images = torch.eye(4).view(4, 4, 1, 1).expand(4, 4, *size)
    mixed, targets = mix(images, torch.arange(4), z, num_classes=4)
    assert_close(mixed.mean((2, 3)), targets)
    assert_close(targets.sum(1), torch.ones(outputs))


def test_an_input_that_fills_three_quarters_weighs_three_quarters():
    # kornia#3077: lambda inverted.
    z = Labelling(torch.tensor([[[[1, 1], [1, 0]]], [[[0, 0], [0, 0]]]]), 2)
    images = torch.tensor([10.0, 20.0]).view(2, 1, 1, 1).expand(2, 1, 4, 4)
    mixed, targets = mix(images, torch.tensor([0, 2]), z, num_classes=3)
    assert int((mixed[0] == 20).sum()) == 12
    assert targets.tolist() == [[0.25, 0.0, 0.75], [1.0, 0.0, 0.0]]


@each_case("kind", ["levels", "input mixup"])
def test_class_indices_have_no_mean(kind):
    images, targets, _ = batch(4)
    mixer = InputMixup(7, generator=generator(0))
    mixer(images, targets)
    plan = labelling() if kind == "levels" else mixer.last.plan
    with rejects(TypeError, r"`images` must be floating point to be averaged.*`mix_masks`"):
        plan.mix_images(torch.ones(4, 1, 8, 8, dtype=torch.long))


BAD = {
    "another batch": ({"images": torch.rand(5, 3, 8, 8)}, r"`images` must have shape \(4, chan"),
    "1-d": ({"images": torch.rand(4, 3, 8)}, r"`size` must have one number per side of the grid"),
    "no channels": ({"images": torch.rand(4, 8)}, r"`images` must have shape \(batch, channels"),
    "empty": ({"images": torch.rand(4, 3, 0, 8)}, r"`images` must have shape .* none empty"),
    "smaller than the grid": ({"images": torch.rand(4, 3, 1, 8)}, r"`size` must be at least"),
    "no classes": ({"num_classes": None}, r"`num_classes` must be given"),
    "too few classes": ({"num_classes": 2}, r"`targets` must lie in 0\.\.1"),
}


@each_case(("change", "message"), BAD.values(), ids=BAD.keys())
def test_rejects(change, message):
    arguments = {"images": torch.rand(4, 3, 8, 8), "num_classes": 7} | change
    images = arguments.pop("images")
    with rejects(ValueError, message):
        mix(images, torch.arange(len(images)), labelling(), **arguments)
