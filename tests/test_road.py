"""The road from batch to mix: the main class takes it, and takes no detours."""

import importlib.util
import operator
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import comixup
from batches import CLASSES, batch
from comixup import (
    CoMixup,
    CutMix,
    InputMixup,
    ManifoldMixup,
    NoMix,
    OnePass,
    Problem,
    PuzzleMix,
    SaliencyMemory,
    mix,
    solve,
)
from comixup.core.solve import solve_checked
from comixup.core.weights import Weights
from comixup.mixers import RecursiveMix, RMix, _comixup
from problems import generator

ROOT = Path(__file__).parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"

SPEC = importlib.util.spec_from_file_location("walk", ROOT / "benchmarks" / "walk.py")
walk = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(walk)

SETTINGS = {
    "the paper's": {},
    "one-hot": {"levels": 1},
    "other weights": {"beta": 0.1, "tau": 0.3, "gamma": 2.0, "eta": 0.2, "omega": 0.5},
    "hard clip": {"clip": "hard", "smoothness": "inner"},
    "no prior": {"alpha": None},
    "fewer outputs": {"num_outputs": 3},
    "grid": {"grid": (2, 5)},
    "own compatibility": {"compatibility": lambda maps: torch.eye(len(maps))},
}
OF_SOLVE = ("levels",)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_mixer_solves_the_problem_that_from_saliency_builds(settings, dtype, monkeypatch):
    images, targets, _ = batch(7, size=(16, 20))
    saliency = torch.rand(7, 16, 20, generator=generator(3), dtype=dtype).square()
    solved = []

    def recording_solve(problems, *settings):
        solved.extend(problems)
        return solve_checked(problems, *settings)

    monkeypatch.setattr(_comixup, "solve_checked", recording_solve)
    mixer = CoMixup(CLASSES, partition_size=None, generator=generator(5), **settings)
    mixed, soft = mixer(images, targets, saliency)

    same = generator(5)
    options = {name: settings[name] for name in OF_SOLVE if name in settings}
    weights = {name: value for name, value in settings.items() if name not in OF_SOLVE}
    problem = Problem.from_saliency(saliency, generator=same, **weights)
    (of_mixer,) = solved
    for mine, theirs in zip(problem.host, of_mixer.host, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for name in Weights.__dataclass_fields__:
        assert getattr(problem, name) == getattr(of_mixer, name) == getattr(mixer, name)
    assert (problem.grid, problem.num_outputs) == (of_mixer.grid, of_mixer.num_outputs)

    labelling = solve(problem, resolve=True, generator=same, **options)
    assert_close(labelling.sources, mixer.last.plan.sources, rtol=0, atol=0)
    expected = mix(images, targets, labelling, num_classes=CLASSES)
    assert_close((mixed, soft), expected, rtol=0, atol=0)


def blocks_of_contributing():
    """The two texts of CONTRIBUTING.md about the walk: its main steps, and all of its functions."""
    found = re.findall(r"```text\n(\s*mixers/_mixer\.py.*?)```", CONTRIBUTING.read_text(), re.S)
    assert len(found) == 2
    return found


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects have no qualified names")
def test_the_walk_of_a_batch_is_the_one_that_contributing_shows():
    main, every = blocks_of_contributing()
    steps = walk.walks()["`CoMixup()`"].steps
    shown = [line.strip().split("  ")[0] for line in main.strip().splitlines()]
    assert [step for step in dict.fromkeys(steps) if step in shown] == shown

    by_file = {}
    for step in dict.fromkeys(steps):
        file, name = step.replace(".<locals>.call", "").split(": ")
        by_file.setdefault(file, []).append(name.rpartition(".")[2])
    listed = {}
    for file, names in re.findall(r"(\S+\.py) +([^/]+?)(?=\n\s+\S+\.py|\s*$)", every):
        listed[file] = re.split(r",\s+", names.strip())
    assert listed == by_file
    assert list(listed) == list(by_file)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects have no qualified names")
def test_a_batch_takes_no_more_calls_than_contributing_says():
    text = CONTRIBUTING.read_text()
    for name, made in walk.walks().items():
        row = re.search(rf"\| {re.escape(name)} \| (\d+) \| (\d+) \| (\d+) \|", text)
        assert row is not None, name
        assert all(map(operator.le, made.counts, map(int, row.groups()))), name


@pytest.mark.parametrize(
    "mixer",
    [
        CoMixup(10),
        CoMixup(
            num_classes=10,
            partition_size=None,
            beta=0.25,
            clip="hard",
            grid=(2, 8),
            compatibility=None,
            alpha=None,
            clean_reduction="mean",
            generator=torch.Generator().manual_seed(3),
        ),
        PuzzleMix(10, grid=((2, 8),), std=(0.2, 0.3, 0.25), t_size=4),
        CutMix(10, p=0.5, num_inputs=3),
        InputMixup(alpha=0.2),
        ManifoldMixup(3, layers=["input", "0"]),
        NoMix(7),
        RecursiveMix(7, share=(0.1, 0.3)),
        RMix(7, alpha=0.2, grid=(2, 4)),
        OnePass(CoMixup(10, tau=0.5), SaliencyMemory(num_examples=30), rate=0.25),
    ],
    ids=lambda mixer: type(mixer).__name__,
)
def test_a_mixer_can_be_typed_back_from_its_repr(mixer):
    again = eval(repr(mixer), {**vars(comixup), **vars(comixup.mixers), "torch": torch})
    assert repr(again) == repr(mixer)
    assert type(again) is type(mixer)


def test_a_repr_names_what_is_not_at_its_default():
    assert repr(CoMixup(10, beta=0.5)) == "CoMixup(num_classes=10, beta=0.5)"
    assert repr(CutMix()) == "CutMix()"


def test_weights_too_small_to_count_are_told_before_the_first_batch():
    for weights in ({"beta": 1e-40}, {"gamma": 1e-40}, {"eta": 1e-40}):
        (name,) = weights
        with pytest.raises(ValueError, match=f"`{name}` must be 0, or at least"):
            CoMixup(CLASSES, **weights)
    mixup = CoMixup(CLASSES, eta=1e-40, alpha=None)  # without a prior it weighs nothing
    assert mixup(*batch(4))[0].shape == batch(4)[0].shape
