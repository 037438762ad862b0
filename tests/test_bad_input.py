"""Bad input gets an error that names the argument and the rule, never a crash or an answer."""

import re

import numpy as np
import torch

from cases import each_case
from comixup import Problem, objective, solve
from problems import generator, make, maps
from rejections import INF, NAN, rejects

SALIENCY, COST, EYE = torch.ones(3, 8, 8), -maps(3, (2, 2), 0), torch.eye(3)
HALVES = torch.tensor([[1.0, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])


def changed(tensor, place, value):
    values = tensor.clone()
    values[place] = value
    return values


def cost_of(value):
    return {"cost": changed(COST, (1, 0, 1), value)}


PROBLEMS = [
    ({"cost": np.zeros((3, 4))}, TypeError, r"`cost` must be a torch tensor, got ndarray"),
    ({"cost": torch.zeros(3, 4, dtype=torch.complex64)}, TypeError, r"`cost` .* real"),
    (cost_of(NAN), ValueError, r"`cost` must be finite .* got nan for input 1"),
    (cost_of(-INF), ValueError, r"`cost` must be finite .* -inf for input 1"),
    (cost_of(1e39), ValueError, r"`cost` must be .* at most 1e\+30"),
    ({"cost": 1e-300 * COST}, ValueError, r"`cost` must be 0, or at least 1e-35 .* \S+e-301 "),
    ({"beta": 1e-300}, ValueError, r"`beta` must be 0, or at least 1e-35"),
    ({"gamma": 1e-300}, ValueError, r"`gamma` must be 0, or at least 1e-35"),
    ({"compatibility": 1e-300 * EYE.double()}, ValueError, r"`gamma` must be 0, or at least"),
    ({"eta": 1e-300, "prior": torch.ones(3) / 3}, ValueError, r"`eta` must be 0, or at least"),
    ({"cost": torch.zeros(3)}, ValueError, r"`cost` must have shape \(inputs, \*grid\).* \(3,\)"),
    ({"cost": torch.zeros(3, 1, 1, 1, 1)}, ValueError, r"grid of 1 to 3 dimensions"),
    ({"cost": torch.zeros(0, 4)}, ValueError, r"at least one input .* got \(0, 4\)"),
    ({"cost": torch.zeros(3, 4, 0)}, ValueError, r"`cost` must .* got \(3, 4, 0\)"),
    ({"compatibility": np.eye(3)}, TypeError, r"`compatibility` must be a torch tensor"),
    ({"compatibility": torch.eye(4)}, ValueError, r"shape \(3, 3\).* got \(4, 4\)"),
    ({"compatibility": EYE * NAN}, ValueError, r"`compatibility` must be finite .* nan"),
    ({"compatibility": EYE * 1e38}, ValueError, r"`compatibility` must .* at most 1e\+30"),
    ({"compatibility": EYE - HALVES}, ValueError, r"must not be negative, got -0\.5"),
    ({"compatibility": HALVES.triu()}, ValueError, r"symmetric, got entries that differ by 0\.5"),
    ({"clip": "firm"}, ValueError, r"`clip` must be one of \['soft', 'hard', None\], got"),
    ({"smoothness": None}, ValueError, r"`smoothness` must be one of .* got None"),
    ({"num_outputs": 0}, ValueError, r"`num_outputs` must be a positive integer, got 0"),
    ({"num_outputs": 2.5}, ValueError, r"`num_outputs` must be .* got 2\.5"),
    ({"num_outputs": True}, ValueError, r"`num_outputs` must be .* got True"),
    ({"num_outputs": 10**9}, ValueError, r"at most .* 4 locations x 1000000000 outputs"),
    ({"prior": torch.ones(4) / 4}, ValueError, r"`prior` must have shape \(3,\).* \(4,\)"),
    ({"prior": torch.tensor([1.5, -0.5, 0])}, ValueError, r"`prior` must .* not negative"),
    ({"prior": torch.tensor([NAN, 0.5, 0.5])}, ValueError, r"`prior` must be finite"),
    ({"prior": torch.ones(3)}, ValueError, r"`prior` must sum to 1, got 3"),
]


@each_case(("change", "error", "message"), PROBLEMS, ids=lambda case: case[2])
def test_a_problem_rejects(change, error, message):
    with rejects(error, message):
        Problem(**{"cost": COST, "compatibility": EYE} | change)


@each_case("name", ["beta", "gamma", "tau", "eta"])
@each_case(
    ("value", "error"),
    [
        *((value, ValueError) for value in (-0.1, NAN, INF, 1e31, 10**400)),
        *((value, TypeError) for value in ("0.5", None, True, 1j, torch.tensor(0.5))),
    ],
    ids=str,
)
def test_a_weight_must_be_a_number_that_is_not_negative(name, value, error):
    with rejects(error, rf"`{name}` must be a number from 0 to 1e\+30, got "):
        Problem(COST, EYE, **{name: value})


def map_of(place, value):
    return {"saliency": changed(SALIENCY, place, value)}


MAPS = [
    ({"saliency": np.ones((3, 8, 8))}, TypeError, r"`saliency` must be a torch tensor"),
    (map_of((1, 0, 0), NAN), ValueError, r"`saliency` must be finite.* NaN .* input 1"),
    (map_of((2, 3, 3), INF), ValueError, r"`saliency` must .* input 2"),
    ({"saliency": SALIENCY * 2e38}, ValueError, r"`saliency` must be finite"),
    (map_of(1, 0.0), ValueError, r"positive sum .* zero everywhere for input 1"),
    (map_of((0, 1, 1), -0.5), ValueError, r"must not be negative, got -0\.5 for input 0"),
    ({"saliency": torch.ones(3)}, ValueError, r"1 to 3 spatial dimensions .* \(3,\)"),
    ({"saliency": torch.ones(3, 1, 2, 3, 4)}, ValueError, r"1 to 3 spatial dimensions"),
    ({"saliency": torch.ones(3, 0, 8)}, ValueError, r"none empty, got \(3, 0, 8\)"),
    ({"grid": 0}, ValueError, r"`grid` must be a positive integer, .* got 0"),
    ({"grid": (True, 2)}, ValueError, r"`grid` must be .* got \(True, 2\)"),
    ({"grid": (4,)}, ValueError, r"one per spatial side .* \(8, 8\), got \(4,\)"),
    ({"omega": 1.1}, ValueError, r"`omega` must be a number from 0 to 1, got 1\.1"),
    ({"omega": "x"}, TypeError, r"`omega` must be a number from 0 to 1, got 'x'"),
    ({"alpha": 0}, ValueError, r"`alpha` must be above 0, got 0\. Use None"),
    ({"alpha": NAN}, ValueError, r"`alpha` must be a number from 0"),
    ({"compatibility": torch.eye(2)}, ValueError, r"`compatibility` must have shape"),
    ({"compatibility": lambda s: None}, TypeError, r"`compatibility` .* NoneType"),
]


@each_case(("change", "error", "message"), MAPS, ids=lambda case: case[2])
def test_from_saliency_rejects(change, error, message):
    arguments = {"saliency": SALIENCY} | change
    with rejects(error, message):
        Problem.from_saliency(arguments.pop("saliency"), **arguments)


GOOD = make(3, (2, 2), 0)


@each_case("name", ["sweeps", "levels", "starts", "num_threads"])
@each_case("value", [0, -1, True, 1.5, "2", NAN], ids=str)
def test_counts_of_solve_must_be_positive_integers(name, value):
    with rejects(ValueError, rf"`{name}` must be a positive integer, got {re.escape(repr(value))}"):
        solve(GOOD, **{name: value})


NO_PROBLEM = r"`problem` must be a Problem or a sequence of them, got "
SOLVES = [
    (GOOD, {"levels": 17}, ValueError, r"`levels` must be at most 16, got 17"),
    (GOOD, {"starts": 10**9}, ValueError, r"at most \d+ labels .* Use fewer starts"),
    (GOOD, {"sweeps": 10**12}, ValueError, r"`sweeps` must be at most"),
    (GOOD, {"method": "magic"}, ValueError, r'`method` must be "native" or "reference", got'),
    (None, {}, TypeError, NO_PROBLEM + "NoneT"),
    (torch.zeros(3, 4), {}, TypeError, NO_PROBLEM + "Tensor"),
    ([GOOD, 3], {}, TypeError, NO_PROBLEM + "int"),
    ([], {}, ValueError, r"`problem` must hold at least one problem"),
    ([GOOD, make(3, (4,), 0)], {}, ValueError, r"`problem` must have one grid .* \(4,\)"),
]


@each_case(("problem", "change", "error", "message"), SOLVES, ids=lambda case: case[3])
def test_solve_rejects(problem, change, error, message):
    with rejects(error, message):
        solve(problem, generator=generator(0), **change)


def test_objective_rejects_what_is_no_labelling():
    z = solve(GOOD, generator=generator(0))
    with rejects(TypeError, r"`labelling` must be a Labelling, got Tensor"):
        objective(GOOD, z.sources)
    for problem, name in ((3, "int"), ("ab", "str")):
        with rejects(TypeError, NO_PROBLEM + name):
            objective(problem, z)
