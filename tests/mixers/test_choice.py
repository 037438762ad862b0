"""A choice of methods: one of them for each batch, wherever a mixer can stand."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from torch.utils.data import DataLoader

from batches import CLASSES, batch, net
from cases import each_case
from comixup import (
    Choice,
    CoMixup,
    CutMix,
    InputMixup,
    ManifoldMixup,
    OnePass,
    OnePassCollate,
    Origin,
    PuzzleMix,
    SaliencyMemory,
    training_step,
)
from problems import generator
from rejections import NAN, rejects

EXAMPLES = 24
PLANS = ("Labelling", "Blend", "Boxes")


def methods(**settings):
    return [CoMixup(CLASSES, **settings), InputMixup(CLASSES), CutMix(CLASSES)]


def choice(weights=None, seed=0, **settings):
    return Choice(methods(), weights, generator=generator(seed), **settings)


class Counting(nn.Module):
    """A model that counts its calls."""

    def __init__(self):
        super().__init__()
        self.inner, self.calls = net(norm=False), 0

    def forward(self, x):
        self.calls += 1
        return self.inner(x)


def plan_of(mixer):
    return type(mixer.last.plan).__name__


def test_methods_come_in_proportion_to_their_weights():
    images, targets, saliency = batch(3, (4, 4))
    for weights, p in (((4, 3, 1), 0.8), (None, 1.0), ((0, 2, 0), 1.0), ((1e-9, 0, 1e9), 0.5)):
        mixer, times = choice(weights, p=p), 160
        counts = {None: 0, 0: 0, 1: 0, 2: 0}
        for _ in range(times):
            mixer(images, targets, saliency)
            chosen = mixer.last.chosen
            assert mixer.last.mixed == (chosen is not None)
            assert chosen is None or plan_of(mixer) == PLANS[chosen]
            counts[chosen] += 1
        total = sum(weights or (1, 1, 1))
        expected = [p * weight / total for weight in weights or (1, 1, 1)]
        for index, share in zip((None, 0, 1, 2), [1 - p, *expected], strict=True):
            margin = 4 * (share * (1 - share) / times) ** 0.5
            assert abs(counts[index] / times - share) <= margin + 1e-9


def test_a_batch_is_mixed_as_its_method_would_have():
    images, targets, saliency = batch(6)
    for index, method in enumerate(methods()):
        alone = copy.deepcopy(method)
        vars(alone)["generator"] = generator(5)
        mixer = choice([float(k == index) for k in range(3)], seed=5)
        assert_close(mixer(images, targets, saliency), alone(images, targets, saliency))
        assert mixer.last.chosen == index


def test_the_method_is_drawn_before_the_clean_pass():
    images, targets, _ = batch(4)
    mixer, model, seen = choice(p=0.8), Counting(), set()
    for _ in range(40):
        before = model.calls
        saliency = mixer.saliency(model, images, targets)
        assert model.calls - before == (saliency is not None)  # none in vain
        mixer(images, targets, saliency)
        name = plan_of(mixer) if mixer.last.mixed else "none"
        assert (saliency is not None) == (name == "Labelling")
        seen.add(name)
    assert seen == {"none", *PLANS}


def test_the_weights_of_the_losses_are_those_of_the_method():
    images, targets, _ = batch(6)
    mixer = Choice(
        [
            CoMixup(CLASSES, clean_weight=3.0, clean_reduction="mean"),
            CutMix(CLASSES, clean_weight=1.0),
            PuzzleMix(CLASSES, grid=4, keep_gradients=False),
            InputMixup(CLASSES),
        ],
        generator=generator(1),
    )
    clean_weights, mixed_weights = (0.75, 1.0, 0.0, 0.0), (0.25, 1.0, 1.0, 1.0)
    seen = set()
    for _ in range(24):
        model, plain = net(norm=False), net(norm=False)
        step = training_step(model, mixer, images, targets)
        chosen = mixer.last.chosen
        seen.add(chosen)
        assert mixer.mixed_weight == mixed_weights[chosen]
        assert_close(step.loss, mixed_weights[chosen] * step.mixed_loss)
        assert (step.clean_loss is None) == (chosen == 3)
        (clean_weights[chosen] * F.cross_entropy(plain(images), targets)).backward()
        for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
            kept = torch.zeros_like(mine) if mine.grad is None else mine.grad
            assert_close(kept, other.grad)
    assert seen == {0, 1, 2, 3}


def test_a_forgotten_pass_is_noticed_in_every_batch():
    images, targets, _ = batch(6)
    mixer = choice([1, 100, 100])
    for _ in range(5):
        with rejects(ValueError, r"`saliency` must be given to Choice, one of whose methods"):
            mixer(images, targets)
    mixer.enabled = False
    mixer(images, targets)
    mixer = Choice([CutMix(CLASSES, clean_weight=0.5), InputMixup(CLASSES, clean_weight=0.5)])
    for _ in range(5):
        with rejects(RuntimeError, r"`clean_weight` = 0\.5 must have a clean pass"):
            mixer(images, targets)


# --- one-pass mixing ------------------------------------------------------------------------------


class Maps(OnePass):
    """Counts how often maps are read."""

    reads = 0

    def maps_for(self, images, origin):
        self.reads += 1
        return super().maps_for(images, origin)


def one_pass(weights=None, seed=0, **options):
    return Maps(choice(weights, seed), SaliencyMemory(EXAMPLES, cells=4), **options)


def train(mixup, steps, first=0, model=None):
    """Trains for some steps, four to the epoch; returns the model, and what mixed each batch."""
    model = model or net(norm=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    chosen = []
    for step in range(first, first + steps):
        images, targets, _ = batch(seed=step % 5)
        optimizer.zero_grad()
        origin = Origin((torch.arange(8) + 7 * step) % EXAMPLES)
        training_step(model, mixup, images, targets, origin=origin).loss.backward()
        optimizer.step()
        chosen.append(mixup.last.chosen)
        assert mixup.last.mixed == (chosen[-1] is not None)
        if step % 4 == 3:
            mixup.end_epoch()
    return model, chosen


def test_batches_of_every_method_take_turns_with_clean_ones():
    mixup = one_pass()
    _, chosen = train(mixup, 40)
    assert [index is not None for index in chosen] == [False, True] * 20
    assert set(chosen) == {None, 0, 1, 2}
    assert mixup.reads == chosen.count(0)  # the others need no maps


@pytest.mark.parametrize("stop", [3, 6])
def test_a_resumed_choice_trains_to_the_same_weights(stop):
    whole, first = one_pass(), one_pass()
    whole.fraction = first.fraction = 0.8
    unbroken, expected = train(whole, 12)
    model, before = train(first, stop)
    saved = copy.deepcopy((model.state_dict(), first.state_dict()))
    again, second = net(norm=False, seed=9), one_pass(seed=9)
    again.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    resumed, after = train(second, 12 - stop, stop, again)
    assert before + after == expected
    assert_close(resumed.state_dict(), unbroken.state_dict(), rtol=0, atol=0)


def triples():
    images, targets, _ = batch(EXAMPLES)
    return [
        (image, int(target), index)
        for index, (image, target) in enumerate(zip(images, targets, strict=True))
    ]


def collated(workers):
    mixup = OnePass(choice(), SaliencyMemory(EXAMPLES, cells=4), rate=0.7)
    loader = DataLoader(triples(), 4, collate_fn=OnePassCollate(mixup, seed=2), num_workers=workers)
    made = []
    for _ in range(3):
        for images, targets, origin in loader:
            tracked = mixup.track(images, origin)
            if origin is not None:
                tracked.square().sum().backward()
            made.append((images.clone(), targets.clone(), origin is None))
        mixup.end_epoch()
    return made


def test_workers_draw_the_same_methods():
    alone, shared = collated(0), collated(2)
    assert_close([pair[:2] for pair in shared], [pair[:2] for pair in alone], rtol=0, atol=0)
    assert 6 <= sum(mixed for _, _, mixed in alone) <= 17
    # Some are blends, no pixel of which is that of an image, and some boxes, all of whose are.
    every = torch.stack([image for image, _, _ in triples()])
    kept = [
        (images.unsqueeze(1) == every).any(1).float().mean() for images, _, mixed in alone if mixed
    ]
    assert min(kept) < 0.5  # but for images that are their own partners
    assert max(kept) == 1


# --- state and arguments --------------------------------------------------------------------------


def test_all_generators_are_part_of_the_state():
    def make(seed):
        own = [
            CoMixup(CLASSES, generator=generator(seed + 10)),
            CutMix(CLASSES),
            InputMixup(CLASSES),
        ]
        return Choice(own, p=0.9, generator=generator(seed))

    images, targets, saliency = batch(6)
    first, second = make(0), make(1)
    assert len(first.generators) == 2
    assert first.mixers[1].generator is first.mixers[2].generator is first.generator
    first(images, targets, saliency)
    first.fraction = 0.75
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert second.fraction == 0.75
    for _ in range(8):
        assert_close(
            first(images, targets, saliency), second(images, targets, saliency), rtol=0, atol=0
        )
        assert first.last.chosen == second.last.chosen
    with rejects(ValueError, r"`state` must be of a mixer with as many generators of its own, 2"):
        second.load_state_dict(choice().state_dict())
    with rejects(ValueError, r"`state` must be what a mixer's state_dict"):
        second.load_state_dict({"generators": []})


def test_repr_can_be_typed_back():
    text = repr(Choice([CutMix(3), InputMixup(3, alpha=0.2)], [2, 1], p=0.5))
    assert text == (
        "Choice(mixers=(CutMix(num_classes=3), InputMixup(num_classes=3, alpha=0.2)), "
        "weights=(2.0, 1.0), p=0.5)"
    )
    assert repr(eval(text)) == text


def memory():
    return SaliencyMemory(EXAMPLES)


def one(**settings):
    return [CutMix(3, **settings)]


V, T = ValueError, TypeError
TWO = [*one(), *one()]
BAD = [
    (lambda: Choice([]), V, r"`mixers` must be a list of methods, at least one"),
    (lambda: Choice([CutMix]), T, r"`mixers` must be methods that mix images"),
    (lambda: Choice([ManifoldMixup(3)]), T, r"`mixers` .*got ManifoldMixup.*inside the model"),
    (lambda: Choice([OnePass(CoMixup(3), memory())]), T, r"got OnePass.*OnePass\(Choice\("),
    (lambda: Choice([Choice(one())]), T, r"got Choice.*list them here"),
    (lambda: Choice(one(p=0.5)), V, r"`mixers` must have p = 1.*CutMix of p = 0\.5"),
    (lambda: Choice([*one(), CutMix(4)]), V, r"the same `num_classes`, got 3 and 4"),
    (lambda: Choice(TWO, [1]), V, r"`weights` must have a number for each of the 2 mixers, got 1"),
    (lambda: Choice(one(), 1.0), T, r"`weights` must be a list of numbers"),
    (lambda: Choice(TWO, [2, -1]), V, r"`weights` .*got -1"),
    (lambda: Choice(one(), [NAN]), V, r"`weights` must be a number from 0.*nan"),
    (lambda: Choice(one(), ["x"]), T, r"`weights` must be a number from 0"),
    (lambda: Choice(TWO, [0, 0.0]), V, r"`weights` must sum to more than 0, got \[0, 0\.0\]"),
    (lambda: Choice(one(), generator=3), T, r"`generator` must be a torch"),
    (lambda: OnePass(Choice(TWO), memory()), T, r"`mixer` must be a method that needs saliency.*"),
    (
        lambda: OnePass(Choice([CoMixup(3), CutMix(3, clean_weight=1.0)]), memory()),
        V,
        r"`mixer` must do without a clean pass",
    ),
]


@each_case(("make", "error", "message"), BAD, ids=lambda case: case[2])
def test_rejects(make, error, message):
    with rejects(error, message):
        make()
