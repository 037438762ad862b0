"""RecursiveMix: the last batch, as it was mixed, smaller, in a box of each image of this one."""

import copy
import gc
import math
import pickle
import weakref

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from batches import CLASSES, batch, net, one_hot
from cases import each_case
from comixup import Choice, CutMix, mix_dict, training_step
from comixup.mixers import RecursiveMix
from problems import generator
from redraws import uniform
from rejections import rejects
from test_resizemix import shrunk

SIZES = [(24,), (7, 9), (16, 16), (5, 6, 7), (1, 1)]


def recomputed(batches, seed, *, low=0.0, high=0.5, per_sample=False):
    """What each batch of (images, soft targets) becomes, from the description alone."""
    draw, before = generator(seed), None
    for images, soft in batches:
        m, size = len(images), images.shape[2:]
        if before is not None and len(before[0]) >= m:
            rows = m if per_sample else 1
            area = np.float32(low) + np.float32(high - low) * uniform(rows, 1, 1, generator=draw)
            root = torch.from_numpy(area) ** (1 / len(size))  # to the last bit of a float
            sides = (root * torch.tensor(size)).long()[:, 0].tolist()
            places = uniform(rows, 1, len(size), generator=draw)[:, 0]
            mixed, targets = images.copy(), soft.copy()
            for j in range(m):
                row = j if per_sample else 0
                box = sides[row]
                begin = [
                    int(place * (side - b + 1))
                    for place, side, b in zip(places[row], size, box, strict=True)
                ]
                if all(box):
                    inside = tuple(slice(b, b + s) for b, s in zip(begin, box, strict=True))
                    mixed[(j, slice(None), *inside)] = shrunk(before[0][j], box)
                u = math.prod(box) / math.prod(size)
                targets[j] = (1 - u) * soft[j] + u * before[1][j]
            before = mixed, targets
        else:
            before = images, soft
        yield before


def several(count, m, size, dtype=torch.float64):
    return [
        (batch(m, size, seed=k, dtype=dtype)[0], batch(m, size, seed=k)[1]) for k in range(count)
    ]


@each_case("per_sample", [False, True])
@each_case("size", SIZES, ids=str)
@each_case("m", [1, 5])
def test_is_what_numpy_computes_from_the_description(per_sample, size, m):
    given = several(1, m + 2, size) + several(4, m, size)  # of a larger batch the first images
    mixer = RecursiveMix(CLASSES, per_sample=per_sample, generator=generator(3))
    plain = [(images.numpy(), one_hot(targets).double().numpy()) for images, targets in given]
    expected = recomputed(plain, 3, per_sample=per_sample)
    for turn, ((images, targets), (mixed, soft)) in enumerate(zip(given, expected, strict=True)):
        copies, versions = [images.clone(), targets.clone()], [images._version, targets._version]
        answer, own = mixer(images, targets)
        assert mixer.last.mixed == (turn > 0)
        assert_close(answer, torch.from_numpy(mixed))
        assert_close(own.double(), torch.from_numpy(soft), rtol=1e-5, atol=1e-6)
        assert_close([images, targets], copies, rtol=0, atol=0)
        assert [images._version, targets._version] == versions


def test_the_first_images_of_a_larger_batch_are_taken_and_a_smaller_one_is_none():
    mixer = RecursiveMix(CLASSES, generator=generator(0))
    mixed = []
    for m in (6, 4, 6, 6):
        images, targets, _ = batch(m)
        mixer(images, targets)
        mixed.append(mixer.last.mixed)
    assert mixed == [False, True, False, True]
    mixer(*batch(6, (4, 4))[:2])  # of another size
    assert not mixer.last.mixed
    mixer.end_epoch()
    mixer(*batch(6, (4, 4))[:2])
    assert not mixer.last.mixed


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_state_resumes_to_the_last_bit(copied):
    given = several(6, 5, (8, 8), torch.float32)
    whole = RecursiveMix(CLASSES, p=0.8, generator=generator(1))
    expected = [whole(*one) for one in given]
    first = RecursiveMix(CLASSES, p=0.8, generator=generator(1))
    for one in given[:3]:
        first(*one)
    other = copied(first)
    resumed = RecursiveMix(CLASSES, p=0.8, generator=generator(7))
    resumed.load_state_dict(copy.deepcopy(first.state_dict()))
    for one, answer in zip(given[3:], expected[3:], strict=True):
        assert_close(resumed(*one), answer, rtol=0, atol=0)
        assert_close(other(*one), answer, rtol=0, atol=0)


def test_nothing_is_kept_longer_than_a_batch_and_no_graph():
    mixer, model = RecursiveMix(CLASSES, generator=generator(0)), net()
    kept = []
    gc.collect()
    gc.freeze()  # so that what other tests have left is not looked through every time
    for k in range(4):
        images, targets, _ = batch(8, seed=k)
        step = training_step(model, mixer, images.requires_grad_(), targets)
        step.loss.backward()
        assert set(mixer.previous) == {"images", "targets"}
        assert not any(one.requires_grad for one in mixer.previous.values())
        kept.append([weakref.ref(one) for one in mixer.previous.values()])
        del images, step
        gc.collect()
        alive = [[ref() is not None for ref in refs] for refs in kept]
        assert alive == [[False, False]] * k + [[True, True]]
    gc.unfreeze()


def test_what_the_caller_does_to_a_batch_does_not_reach_the_next():
    given = several(2, 4, (8, 8))
    changed, plain = (RecursiveMix(CLASSES, generator=generator(2)) for _ in range(2))
    for one in changed(*given[0]):
        one.zero_()
    plain(*given[0])
    assert_close(changed(*given[1]), plain(*given[1]), rtol=0, atol=0)


def test_dictionaries_and_masks_follow_their_images():
    def entries(k):
        labels = torch.arange(4).view(4, 1, 1).expand(4, 8, 8) + 10 * k  # tell who is seen
        return {
            "image": labels.unsqueeze(1).double(),
            "depth": torch.rand(4, 2, 8, 8, generator=generator(k)),
            "mask": labels,
            "angle": torch.full((4, 1), 100.0 * k),
        }

    roles = {"images": ("image", "depth"), "masks": "mask", "targets": "angle"}
    mixer = RecursiveMix(generator=generator(5))
    for k in range(3):
        mixed = mix_dict(mixer, entries(k), **roles)
        if k == 1:
            assert mixer.last.mixed
            # Each image and its mask are of one number, so that means are what they show.
            assert_close(mixed["image"][:, 0].long(), mixed["mask"])
            seen = (mixed["mask"] >= 10).float().mean((1, 2)) * 100
            assert_close(mixed["angle"][:, 0], seen, rtol=1e-5, atol=1e-4)
    with rejects(ValueError, r"must be in every batch.*got none in the last.*end_epoch"):
        more = {**entries(3), "new": entries(3)["mask"]}
        mix_dict(mixer, more, **roles | {"masks": ("mask", "new")})


def test_a_choice_recalls_the_last_batch_whoever_mixed_it():
    given = several(12, 4, (8, 8))
    mixup = Choice([RecursiveMix(CLASSES), CutMix(CLASSES)], generator=generator(0))
    assert mixup.recalls
    before, seen = None, set()
    for images, targets in given:
        mixed, _ = mixup(images, targets)
        last = mixup.last
        if before is not None and last.chosen == 0:
            assert last.mixed
            inputs = torch.cat([images, before])
            assert_close(last.plan.mix_images(inputs), mixed, rtol=0, atol=0)
        before, seen = mixed, seen | {last.chosen}
    assert seen == {0, 1}
    again = Choice([RecursiveMix(CLASSES), CutMix(CLASSES)], generator=generator(9))
    again.load_state_dict(mixup.state_dict())
    assert_close(again(*given[0]), mixup(*given[0]), rtol=0, atol=0)
