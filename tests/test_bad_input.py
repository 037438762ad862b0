"""Bad input gets an error that names the argument and the rule, never a crash or an answer."""

import re

import numpy as np
import torch

from cases import each_case
from comixup import Problem, objective, solve
from problems import generator, make
from rejections import INF, NAN, rejects

SALIENCY = torch.ones(3, 8, 8)


def saliency(place, value):
    values = SALIENCY.clone()
    values[place] = value
    return values


MAPS = {
    "numpy": ({"saliency": np.ones((3, 8, 8))}, TypeError, r"`saliency` must be a torch tensor"),
    "NaN": (
        {"saliency": saliency((1, 0, 0), NAN)},
        ValueError,
        r"`saliency` must be finite.* NaN .* input 1",
    ),
    "infinity": ({"saliency": saliency((2, 3, 3), INF)}, ValueError, r"`saliency` must .* input 2"),
    "too large": ({"saliency": SALIENCY * 2e38}, ValueError, r"`saliency` must be finite"),
    "a zero map": (
        {"saliency": saliency(1, 0.0)},
        ValueError,
        r"positive sum .* zero everywhere for input 1",
    ),
    "a negative map": (
        {"saliency": saliency(2, -1.0)},
        ValueError,
        r"must not be negative, got -1 for input 2",
    ),
    "a negative pixel": (
        {"saliency": saliency((0, 1, 1), -0.5)},
        ValueError,
        r"must not be negative, got -0\.5 for input 0",
    ),
    "no spatial side": (
        {"saliency": torch.ones(3)},
        ValueError,
        r"1 to 3 spatial dimensions .* \(3,\)",
    ),
    "4-d": ({"saliency": torch.ones(3, 1, 2, 3, 4)}, ValueError, r"1 to 3 spatial dimensions"),
    "no inputs": ({"saliency": torch.ones(0, 8, 8)}, ValueError, r"none empty, got \(0, 8, 8\)"),
    "empty": ({"saliency": torch.ones(3, 0, 8)}, ValueError, r"none empty, got \(3, 0, 8\)"),
    "grid 0": ({"grid": 0}, ValueError, r"`grid` must be a positive integer, .* got 0"),
    "grid True": ({"grid": (True, 2)}, ValueError, r"`grid` must be .* got \(True, 2\)"),
    "grid 1.5": ({"grid": (1.5, 2)}, ValueError, r"`grid` must be .* got \(1\.5, 2\)"),
    "grid 2.5": ({"grid": 2.5}, ValueError, r"`grid` must be .* got 2\.5"),
    "grid of one side": (
        {"grid": (4,)},
        ValueError,
        r"one per spatial side .* \(8, 8\), got \(4,\)",
    ),
    "omega above 1": (
        {"omega": 1.1},
        ValueError,
        r"`omega` must be a number from 0 to 1, got 1\.1",
    ),
    "omega below 0": ({"omega": -0.1}, ValueError, r"`omega` must be a number from 0 to 1"),
    "omega a word": ({"omega": "x"}, TypeError, r"`omega` must be a number from 0 to 1, got 'x'"),
    "alpha 0": ({"alpha": 0}, ValueError, r"`alpha` must be above 0, got 0\. Use None"),
    "alpha -1": ({"alpha": -1}, ValueError, r"`alpha` must be a number from 0"),
    "alpha NaN": ({"alpha": NAN}, ValueError, r"`alpha` must be a number from 0"),
    "matrix's shape": (
        {"compatibility": torch.eye(2)},
        ValueError,
        r"`compatibility` must have shape",
    ),
    "function's answer": (
        {"compatibility": lambda s: None},
        TypeError,
        r"`compatibility` .* NoneType",
    ),
    "outputs": ({"num_outputs": 0}, ValueError, r"`num_outputs` must be a positive integer"),
    "clip": ({"clip": "firm"}, ValueError, r"`clip` must be one of"),
}


@each_case(("change", "error", "message"), MAPS.values(), ids=MAPS.keys())
def test_from_saliency_rejects(change, error, message):
    arguments = {"saliency": SALIENCY} | change
    with rejects(error, message):
        Problem.from_saliency(arguments.pop("saliency"), **arguments)


COUNTS = [0, -1, True, 1.5, "2", NAN]
GOOD = make(3, (2, 2), 0)


@each_case("name", ["sweeps", "levels", "starts", "num_threads"])
@each_case("value", COUNTS, ids=str)
def test_counts_of_solve_must_be_positive_integers(name, value):
    with rejects(ValueError, rf"`{name}` must be a positive integer, got {re.escape(repr(value))}"):
        solve(GOOD, **{name: value})


SOLVES = {
    "17 levels": (GOOD, {"levels": 17}, ValueError, r"`levels` must be at most 16, got 17"),
    "absurd starts": (
        GOOD,
        {"starts": 10**9},
        ValueError,
        r"at most \d+ labels .* Use fewer starts",
    ),
    "absurd sweeps": (GOOD, {"sweeps": 10**12}, ValueError, r"`sweeps` must be at most"),
    "method": (
        GOOD,
        {"method": "magic"},
        ValueError,
        r'`method` must be "native" or "reference", got',
    ),
    "no problem": (
        None,
        {},
        TypeError,
        r"`problem` must be a Problem or a sequence of them, got NoneT",
    ),
    "a tensor": (
        torch.zeros(3, 4),
        {},
        TypeError,
        r"`problem` must be a Problem or a sequence .* Tensor",
    ),
    "a number": (3, {}, TypeError, r"`problem` must be a Problem or a sequence of them, got int"),
    "a list of numbers": ([GOOD, 3], {}, TypeError, r"`problem` must be a Problem or .* got int"),
    "an empty list": ([], {}, ValueError, r"`problem` must hold at least one problem"),
    "two grids": (
        [GOOD, make(3, (4,), 0)],
        {},
        ValueError,
        r"`problem` must have one grid .* \(4,\)",
    ),
}


@each_case(("problem", "change", "error", "message"), SOLVES.values(), ids=SOLVES.keys())
def test_solve_rejects(problem, change, error, message):
    with rejects(error, message):
        solve(problem, generator=generator(0), **change)


def test_objective_rejects_what_is_no_labelling():
    z = solve(GOOD, generator=generator(0))
    with rejects(TypeError, r"`labelling` must be a Labelling, got Tensor"):
        objective(GOOD, z.sources)
    with rejects(TypeError, r"`problem` must be a Problem or a sequence of them, got int"):
        objective(3, z)
    with rejects(TypeError, r"`problem` must be a Problem or a sequence of them, got str"):
        objective("ab", z)
