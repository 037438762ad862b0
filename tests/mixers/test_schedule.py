"""How many batches are mixed, epoch by epoch: schedules, and the fraction that they set."""

import copy
import dataclasses

import pytest
import torch

from batches import CLASSES, METHODS, batch, over, run
from cases import each_case
from comixup import CoMixup, InputMixup, OnePass, Origin, SaliencyMemory, Schedule
from problems import generator
from rejections import NAN, rejects


def fractions(*args, **settings):
    schedule = Schedule(*args, **settings)
    return [schedule(epoch) for epoch in range(schedule.epochs)]


def test_constant_with_a_warm_up_and_an_end():
    assert fractions(4) == [1.0] * 4
    assert fractions(5, first_epoch=2) == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert fractions(5, off_epoch=3) == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert fractions(5, off_epoch=5) == [1.0] * 5
    assert fractions(5, first_epoch=1, off_epoch=2) == [0.0, 1.0, 0.0, 0.0, 0.0]


@each_case("epochs", [100, 60, 37, 3, 1])
def test_annealed_is_that_of_mixup_without_hesitation(epochs):
    found = fractions(epochs, annealed=True)
    for epoch, fraction in enumerate(found):
        if epoch < 0.6 * epochs:
            expected = 1.0
        elif epoch < 0.9 * epochs:
            expected = 1.0 if epoch % 2 == 0 else 0.0
        else:
            expected = (epochs - epoch) / (epochs - 0.9 * epochs)
        assert fraction == pytest.approx(expected)
    limited = fractions(100, first_epoch=3, off_epoch=95, annealed=True)
    assert limited == [0.0] * 3 + fractions(100, annealed=True)[3:95] + [0.0] * 5


BAD = {
    "no epochs": ((0,), {}, r"`epochs` must be a positive integer, got 0"),
    "half an epoch": ((1.5,), {}, r"`epochs` must be a positive integer"),
    "beyond the end": (
        (5,),
        {"off_epoch": 6},
        r"`off_epoch` must be an integer from 0 to 5, got 6",
    ),
    "negative end": ((5,), {"off_epoch": -1}, r"`off_epoch` must be an integer of at least 0"),
    "negative start": ((5,), {"first_epoch": -1}, r"`first_epoch` must be an integer of at least"),
    "nothing mixed": (
        (9,),
        {"first_epoch": 4, "off_epoch": 4},
        r"`first_epoch` must be below 4, where mixing ends, got 4.*NoMix",
    ),
    "too late": ((9,), {"first_epoch": 9}, r"`first_epoch` must be below 9"),
}


@each_case(("args", "settings", "message"), BAD.values(), ids=BAD)
def test_rejects(args, settings, message):
    with rejects(ValueError, message):
        Schedule(*args, **settings)


def test_is_a_value_and_knows_its_epochs():
    schedule = Schedule(5, off_epoch=3)
    assert schedule == Schedule(5, off_epoch=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        schedule.epochs = 4
    for epoch in (-1, 5, 1.5):
        with rejects(ValueError, r"`epoch` must be an integer"):
            schedule(epoch)
    with pytest.raises(TypeError):
        Schedule(5, 3)  # an epoch without a name tells nothing


# --- the fraction ---------------------------------------------------------------------------------


@over(METHODS)
def test_batches_are_mixed_with_probability_p_times_the_fraction(method):
    images, targets, saliency = batch(3, (4, 4))
    p = 0.8
    mixer = method(CLASSES, p=p, generator=generator(1))
    for fraction in (0.5, 0.0):
        mixer.fraction = fraction
        assert mixer.enabled is (fraction > 0)
        mixed, times = 0, 40
        for _ in range(times):
            run(mixer, images, targets, saliency)
            mixed += mixer.last.mixed
        rate = p * fraction
        assert abs(mixed / times - rate) <= 4 * (rate * (1 - rate) / times) ** 0.5


def one_pass(rate=0.5, **options):
    mixer = CoMixup(CLASSES, generator=generator(0))
    return OnePass(mixer, SaliencyMemory(24, cells=4), rate=rate, **options)


@each_case("make", [lambda: InputMixup(CLASSES), one_pass], ids=["mixer", "one-pass"])
def test_enabled_is_a_view_of_the_fraction(make):
    mixer = make()
    assert (mixer.fraction, mixer.enabled) == (1.0, True)
    mixer.enabled = False
    assert (mixer.fraction, mixer.enabled) == (0.0, False)
    mixer.fraction = 0.3
    assert mixer.enabled is True
    mixer.enabled = True
    assert mixer.fraction == 1.0
    for value, error in (
        (-0.1, ValueError),
        (1.1, ValueError),
        (NAN, ValueError),
        ("1", TypeError),
    ):
        with rejects(error, r"`fraction` must be a number from 0 to 1"):
            mixer.fraction = value
    mixer.fraction = 0.25
    other = make()
    other.load_state_dict(copy.deepcopy(mixer.state_dict()))
    assert other.fraction == 0.25


@each_case(("rate", "fraction"), [(0.5, 1.0), (0.5, 0.5), (0.8, 0.35), (1.0, 0.1), (0.5, 0.0)])
def test_one_pass_spreads_rate_times_fraction_evenly(rate, fraction):
    mixup = one_pass(rate)
    mixup.fraction = fraction
    assert mixup.fraction == fraction
    turns = [mixup.mixes(step) for step in range(200)]
    for length in range(10, 200, 10):
        assert abs(sum(turns[:length]) - length * rate * fraction) < 1 + 1e-9
    images, targets, _ = batch()
    mixed = []
    for _ in range(9):
        mixup(images, targets, Origin(torch.arange(8)))
        mixed.append(mixup.last.mixed)
    assert mixed == turns[:9]
