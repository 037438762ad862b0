"""Batches as dictionaries: every entry is named, and what is named is mixed."""

import functools

import pytest
import torch
from torch.testing import assert_close

from batches import CLASSES, batch, one_hot
from comixup import CoMixup, CutMix, InputMixup, ManifoldMixup, PuzzleMix, mix, mix_dict
from problems import generator
from rejections import rejects

METHODS = {
    "co-mixup": CoMixup,
    "saliency targets": functools.partial(CoMixup, target_weight="saliency"),
    "puzzle mix": functools.partial(PuzzleMix, transport=False, eta=0.0),
    "cutmix": CutMix,
    "input mixup": InputMixup,
}


def sample(size=(8, 8), m=8):
    images, targets, saliency = batch(m, size)
    return saliency, {
        "image": images,
        "depth": torch.rand(m, 1, *size, generator=generator(2)),
        "mask": torch.randint(5, (m, *size), generator=generator(3)),
        "label": targets,
        "angle": torch.rand(m, 2, generator=generator(4)),
        "file": [f"{k}.png" for k in range(m)],
    }


ROLES = {"images": ("image", "depth"), "masks": "mask", "targets": ("label", "angle")}


@pytest.mark.parametrize("name", METHODS)
def test_is_what_the_mixer_and_its_plan_do(name):
    for size in [(16,), (8, 8), (4, 6, 8)]:
        saliency, entries = sample(size)
        mixed = mix_dict(
            METHODS[name](CLASSES, generator=generator(2)),
            entries,
            saliency,
            **ROLES,
            unmixed="file",
        )
        twin = METHODS[name](CLASSES, generator=generator(2))
        images, soft = twin(entries["image"], entries["label"], saliency)
        decided = twin.last
        assert list(mixed) == list(entries)
        assert_close(mixed["image"], images, rtol=0, atol=0)
        assert_close(mixed["label"], soft, rtol=0, atol=0)
        assert_close(mixed["depth"], decided.plan.mix_images(entries["depth"]), rtol=0, atol=0)
        assert_close(mixed["mask"], decided.plan.mix_masks(entries["mask"]), rtol=0, atol=0)
        ratio = decided.target_ratio
        _, angle = mix(entries["image"], entries["angle"], decided.plan, source_ratio=ratio)
        assert_close(mixed["angle"], angle, rtol=0, atol=0)
        assert mixed["file"] is entries["file"]
        for changed in ("image", "depth", "mask", "angle"):
            assert not torch.equal(mixed[changed], entries[changed])
            assert entries[changed]._version == 0
        assert not torch.equal(mixed["label"], one_hot(entries["label"]))


def test_masks_alone_need_neither_targets_nor_a_number_of_classes():
    _, entries = sample()
    entries = {name: entries[name] for name in ("image", "mask")}
    mixed = mix_dict(CutMix(generator=generator(0)), entries, images="image", masks="mask")
    assert not torch.equal(mixed["mask"], entries["mask"])


def test_a_batch_that_is_not_mixed_stays_as_it_is():
    _, entries = sample()
    mixed = mix_dict(CutMix(CLASSES, p=0.0), entries, **ROLES, unmixed="file")
    assert_close(mixed["mask"], entries["mask"], rtol=0, atol=0)
    assert_close(mixed["label"], one_hot(entries["label"]))


def test_an_ignored_class_is_the_callers():
    masks = torch.stack([torch.zeros(8, 8), torch.full((8, 8), 9)]).long()
    entries = {"image": torch.rand(2, 3, 8, 8), "mask": masks}
    mixer = InputMixup(alpha=1e6, generator=generator(0))  # halves, but for a thousandth
    mixed = mix_dict(mixer, entries, images="image", masks="mask", ignore_index=None)
    assert set(mixed["mask"].unique().tolist()) <= {0, 9}


class TestRejected:
    def call(self, extra=(), **roles):
        _, entries = sample()
        entries |= dict(extra)
        given = {**ROLES, "unmixed": "file"} | roles
        return mix_dict(CutMix(CLASSES), entries, **given)

    def test_entries_that_nobody_named(self):
        with rejects(ValueError, "got 'weather' in none of them. List entries to keep in"):
            self.call({"weather": torch.zeros(8)})

    def test_entries_that_are_named_twice(self):
        with rejects(ValueError, "got 'mask' in `images` and `masks`"):
            self.call(images=("image", "depth", "mask"))

    @pytest.mark.parametrize("name", ["boxes", "bbox", "gt_boxes", "keypoints", "key_points"])
    def test_boxes_and_key_points_even_if_named_as_unmixed(self, name):
        with rejects(ValueError, f"`{name}` must be left out .* have no mixture"):
            self.call({name: torch.rand(8, 4)}, unmixed=("file", name))

    def test_names_that_are_not_there(self):
        with rejects(ValueError, "`masks` must name entries of the batch, 'image', .* got 'msk'"):
            self.call(masks="msk")

    @pytest.mark.parametrize("mixer", [ManifoldMixup(CLASSES), None])
    def test_mixers_that_mix_no_images(self, mixer):
        with rejects(TypeError, "`mixer` must be one of comixup's methods that mix images"):
            mix_dict(mixer, sample()[1], **ROLES, unmixed="file")
