"""Mixing by remembered saliency: clean and mixed batches by turns, one pass each."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from batches import CLASSES, batch
from comixup import CoMixup, CutMix, OnePass, Origin, PuzzleMix, SaliencyMemory, training_step
from comixup import saliency as gradient_saliency
from problems import generator

EXAMPLES = 30


def small_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(384, CLASSES)
    )


def one_pass(kind=CoMixup, *, cells=4, seed=0, **options):
    settings = {"grid": 4} if kind is PuzzleMix else {}
    mixer = kind(CLASSES, generator=generator(seed), **settings)
    return OnePass(mixer, SaliencyMemory(EXAMPLES, cells=cells), **options)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(0.5, [0, 1, 0, 1, 0, 1]), (0.25, [0, 0, 0, 1, 0, 0]), (1.0, [1] * 6), (0.0, [0] * 6)],
)
def test_batches_take_turns(rate, expected):
    mixup = one_pass(rate=rate)
    images, targets, _ = batch()
    mixed = []
    for _ in expected:
        mixup(images, targets, Origin(torch.arange(8)))
        mixed.append(int(mixup.last.mixed))
    assert mixed == expected


def test_a_clean_batch_is_left_as_it_is_and_its_backward_pass_refreshes_the_maps():
    mixup, model = one_pass(cells=8), small_model()
    images, targets, _ = batch()
    indices = torch.tensor([3, 9, 4, 29, 0, 11, 12, 13])
    before = images.clone()
    inputs, soft = mixup(images, targets, Origin(indices))
    assert_close(inputs.detach(), before)
    assert_close(soft, F.one_hot(targets, CLASSES).float())
    assert not images.requires_grad
    F.cross_entropy(model(inputs), soft).backward()
    mixup.end_epoch()
    expected = gradient_saliency(model, images, targets, keep_gradients=False)
    found = mixup.memory.read(Origin(indices), (8, 8))
    scale = expected.flatten(1).amax(1).view(-1, 1, 1)
    assert_close(found / 255, expected / scale, atol=0.003, rtol=0)
    assert not mixup.memory.known(torch.tensor([1, 2])).any()


def test_loaders_may_reuse_the_tensors_of_an_origin_before_the_backward_pass():
    kept, reused = one_pass(rate=0.0), one_pass(rate=0.0)
    images, targets, _ = batch(8)
    for mixup, reuse in ((kept, False), (reused, True)):
        indices = torch.arange(8)
        cells = mixup.memory.cell_numbers(images.shape[2:]).repeat(8, 1, 1)
        mixed, soft = mixup(images, targets, Origin(indices, cells))
        if reuse:
            indices += 10
            cells.fill_(1)
        F.cross_entropy(small_model()(mixed), soft).backward()
        mixup.end_epoch()
    assert kept.memory.known(torch.arange(EXAMPLES)).any()
    assert_close(reused.memory.state_dict()["maps"], kept.memory.state_dict()["maps"])


@pytest.mark.parametrize("kind", [CoMixup, PuzzleMix])
def test_a_mixed_batch_is_what_the_mixer_makes_of_the_remembered_maps(kind):
    images, targets, maps = batch()
    mixup = one_pass(kind, rate=1.0)
    indices = torch.arange(8) + 5
    mixup.memory.write(Origin(indices), maps)
    mixup.end_epoch()
    mixed, soft = mixup(images, targets, Origin(indices))
    alone = copy.deepcopy(one_pass(kind).mixer)
    expected = alone(images, targets, mixup.memory.read(Origin(indices), (8, 8)))
    assert_close(mixed, expected[0])
    assert_close(soft, expected[1])
    assert mixup.last.mixed
    assert not torch.equal(mixed, images)
    assert not mixed.requires_grad


def test_maps_follow_flips_and_shifts():
    mixup, model = one_pass(cells=8, rate=0.5), small_model()
    images, targets, _ = batch()
    numbers = mixup.memory.cell_numbers((8, 8)).expand(8, 8, 8)
    flipped = Origin(torch.arange(8), numbers.flip(2))
    inputs, soft = mixup(images.flip(3), targets, flipped)
    F.cross_entropy(model(inputs), soft).backward()
    mixup.end_epoch()
    seen = gradient_saliency(model, images.flip(3), targets, keep_gradients=False)
    as_they_lie = mixup.memory.read(Origin(torch.arange(8)), (8, 8))
    scale = seen.flatten(1).amax(1).view(-1, 1, 1)
    assert_close(as_they_lie / 255, seen.flip(2) / scale, atol=0.003, rtol=0)


def test_overflowing_gradients_are_not_kept_and_are_warned_of_once():
    mixup, model = one_pass(rate=0.0), small_model()
    images, targets, _ = batch()
    for _ in range(2):
        inputs, soft = mixup(images, targets, Origin(torch.arange(8)))
        (F.cross_entropy(model(inputs), soft) * float("inf")).backward()
    with pytest.warns(UserWarning, match="16 saliency maps were zero, NaN or infinite"):
        mixup.end_epoch()
    mixup.end_epoch()
    assert not mixup.memory.known(torch.arange(8)).any()


def run_loop(mixup, steps, first=0):
    """Returns the weights after some steps of a plain loop, with an epoch of four steps."""
    model = small_model()
    return model, continue_loop(model, mixup, steps, first)


def continue_loop(model, mixup, steps, first=0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(first, first + steps):
        images, targets, _ = batch(seed=step % 4)
        optimizer.zero_grad()
        made = training_step(
            model, mixup, images, targets, origin=Origin(torch.arange(8) + step % 4)
        )
        made.loss.backward()
        optimizer.step()
        if step % 4 == 3:
            mixup.end_epoch()
    return [weight.detach().clone() for weight in model.parameters()]


@pytest.mark.parametrize("stop", [2, 4, 7])
def test_a_checkpoint_of_ones_own_resumes_exactly(stop):
    _, unbroken = run_loop(one_pass(), 12)
    first = one_pass()
    model, _ = run_loop(first, stop)
    saved = copy.deepcopy((model.state_dict(), first.state_dict()))
    again, second = small_model(seed=1), one_pass(seed=9)
    again.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    resumed = continue_loop(again, second, 12 - stop, stop)
    for one, other in zip(unbroken, resumed, strict=True):
        assert torch.equal(one, other)


def trained(mixup, *, epochs, batches=2, shuffle=True, backward=torch.Tensor.backward):
    """Trains for a few epochs of small batches; each `end_epoch` is up to the caller."""
    model = small_model()
    images, targets, _ = batch(8 * batches)
    for _ in range(epochs):
        order = torch.randperm(len(images)) if shuffle else torch.arange(len(images))
        for indices in order.chunk(batches):
            inputs, soft = mixup(images[indices], targets[indices], Origin(indices))
            backward(F.cross_entropy(model(inputs), soft))
        yield


def test_maps_that_come_to_no_use_are_warned_of(recwarn):
    once = "This warning is shown once"
    forgotten = one_pass()
    with pytest.warns(UserWarning, match=f"No epoch has ended after.*`end_epoch`.*{once}"):
        list(trained(forgotten, epochs=12))
    no_backward = one_pass()
    (_,) = trained(no_backward, epochs=1, backward=lambda loss: None)
    with pytest.warns(UserWarning, match=r"No saliency map was written.*torch.no_grad.*once"):
        no_backward.end_epoch()
    same_order = one_pass()
    told = pytest.warns(UserWarning, match=r"None of the 8 images.*Shuffle the data set")
    with told as warned:
        for _ in trained(same_order, epochs=6, shuffle=False):
            same_order.end_epoch()
    assert len(warned) == 1
    never_clean = one_pass(rate=1.0)
    for _ in trained(never_clean, epochs=3):
        never_clean.end_epoch()
    (_,) = trained(never_clean, epochs=1)
    with pytest.warns(UserWarning, match=r"no batch was clean.*`rate` below 1"):
        never_clean.end_epoch()
    recwarn.clear()
    sound = one_pass()
    for _ in trained(sound, epochs=12):
        sound.end_epoch()
    assert not recwarn


def test_wrong_use_is_told():
    memory = SaliencyMemory(EXAMPLES)
    images, targets, _ = batch()
    with pytest.raises(TypeError, match=r"`mixer` must be a method that needs saliency.*CutMix"):
        OnePass(CutMix(CLASSES), memory)
    with pytest.raises(TypeError, match="`memory` must be a SaliencyMemory"):
        OnePass(CoMixup(CLASSES), 100)
    mixup = OnePass(CoMixup(CLASSES), memory)
    with pytest.raises(ValueError, match="`origin` must say which examples"):
        mixup(images, targets, None)
    with pytest.raises(ValueError, match=r"`origin.indices` must have an index for each of the 8"):
        mixup(images, targets, Origin(torch.arange(7)))
    with pytest.raises(ValueError, match=r"`origin.cells` must have the images' size \(8, 8\)"):
        mixup(images, targets, Origin(torch.arange(8), torch.ones(8, 4, 4, dtype=torch.int64)))
    with pytest.raises(ValueError, match="`origin` must say which examples"):
        training_step(small_model(), mixup, images, targets)
    with pytest.raises(TypeError, match="`images` must be floating point"):
        mixup((images * 255).byte(), targets, Origin(torch.arange(8)))
    with pytest.raises(ValueError, match="`state` must be of a mixer with as many generators"):
        one_pass().load_state_dict(mixup.state_dict() | {"memory": one_pass().memory.state_dict()})
