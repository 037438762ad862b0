"""One-pass mixing within each batch: clean images and mixtures beside each other."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from batches import CLASSES, batch, net
from comixup import CoMixup, OnePass, OnePassCollate, Origin, PuzzleMix, SaliencyMemory, mix
from comixup import saliency as gradient_saliency
from problems import generator

EXAMPLES = 20


def within(kind=CoMixup, rate=0.5, **settings):
    mixer = kind(CLASSES, generator=generator(4), **settings)
    return OnePass(mixer, SaliencyMemory(EXAMPLES, cells=4), rate=rate, unit="image")


@pytest.mark.parametrize(
    ("m", "rate", "mixed"), [(8, 0.5, 4), (7, 0.5, 4), (9, 0.25, 2), (4, 1, 4)]
)
def test_the_first_images_are_clean_and_the_others_mixtures_of_all(m, rate, mixed):
    mixup = within(rate=rate)
    images, targets, saliency = batch(m)
    mixup.memory.write(Origin(torch.arange(m)), saliency)
    mixup.end_epoch()
    outputs, soft = mixup(images, targets, Origin(torch.arange(m)))
    assert (len(outputs), len(soft)) == (m, m)
    clean = m - mixed
    assert_close(outputs[:clean].detach(), images[:clean], rtol=0, atol=0)
    assert_close(soft[:clean], F.one_hot(targets[:clean], CLASSES).float())

    alone = CoMixup(CLASSES, num_outputs=mixed, generator=generator(4))
    expected = alone(images, targets, mixup.memory.read(Origin(torch.arange(m)), (8, 8)))
    assert_close((outputs[clean:].detach(), soft[clean:]), expected, rtol=0, atol=0)


@pytest.mark.parametrize("settings", [{}, {"target_weight": "saliency"}])
def test_the_plan_tells_what_was_done(settings):
    mixup = within(**settings)
    images, targets, saliency = batch(8)
    mixup.memory.write(Origin(torch.arange(8)), saliency)
    mixup.end_epoch()
    outputs, soft = mixup(images, targets, Origin(torch.arange(8)))
    last = mixup.last
    assert last.mixed
    again = mix(images, targets, last.plan, num_classes=CLASSES, source_ratio=last.target_ratio)
    assert_close((outputs.detach(), soft), again, rtol=0, atol=0)
    assert_close(last.plan.masks.flatten(2).mean(2), last.plan.source_ratio())
    assert_close(last.plan.source_ratio((8, 8)).sum(1), torch.ones(8))


@pytest.mark.parametrize("kind", [CoMixup, PuzzleMix])
def test_the_clean_images_alone_refresh_their_maps(kind):
    mixup, model = within(kind), net()
    images, targets, _ = batch(8)
    indices = torch.tensor([3, 9, 4, 19, 0, 11, 12, 13])
    outputs, soft = mixup(images, targets, Origin(indices))
    assert outputs.shape == images.shape
    F.cross_entropy(model(outputs), soft).backward()
    mixup.end_epoch()
    assert mixup.memory.known(indices).tolist() == [True] * 4 + [False] * 4
    # The mean over the batch scales a map, which keeps its proportions alone; without batch norm
    # an image's gradient depends on no other.
    mixup, model = within(kind), net(norm=False)
    outputs, soft = mixup(images, targets, Origin(indices))
    F.cross_entropy(model(outputs), soft).backward()
    mixup.end_epoch()
    expected = gradient_saliency(model, images[:4], targets[:4], keep_gradients=False)
    cells = expected.view(4, 4, 2, 4, 2).mean((2, 4))
    found = mixup.memory.read(Origin(indices[:4]), (4, 4))
    assert_close(found / 255, cells / cells.flatten(1).amax(1).view(-1, 1, 1), atol=0.003, rtol=0)


def test_nothing_to_mix_is_a_clean_batch():
    for mixup in (within(rate=0.0), within()):
        if mixup.rate:
            mixup.enabled = False
        images, targets, _ = batch(5)
        outputs, soft = mixup(images, targets, Origin(torch.arange(5)))
        assert_close(outputs.detach(), images)
        assert_close(soft, F.one_hot(targets, CLASSES).float())
        assert not mixup.last.mixed


def test_images_without_gradients_are_rejected():
    images = torch.randint(255, (6, 3, 8, 8), dtype=torch.uint8)
    mixup = within(levels=1)
    with pytest.raises(TypeError, match="`images` must be floating point to have a gradient"):
        mixup(images, torch.arange(6) % CLASSES, Origin(torch.arange(6)))


def test_what_does_not_go_together_is_rejected():
    memory = SaliencyMemory(EXAMPLES)
    for mixer, options in (
        (CoMixup(CLASSES), {"recycle": True}),
        (CoMixup(CLASSES, p=0.5), {}),
        (CoMixup(CLASSES, num_outputs=3), {}),
    ):
        with pytest.raises(ValueError, match='`unit` must be "batch"'):
            OnePass(mixer, memory, unit="image", **options)
    with pytest.raises(ValueError, match="`unit` must be one of"):
        OnePass(CoMixup(CLASSES), memory, unit="pixel")
    with pytest.raises(ValueError, match='`mixup` must have unit="batch" to mix in workers'):
        OnePassCollate(OnePass(CoMixup(CLASSES), memory, unit="image"))
