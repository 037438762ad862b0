"""A problem that makes no sense gets an error message that names the field and the rule."""

import numpy as np
import torch

from cases import each_case
from comixup import Problem
from problems import maps
from rejections import INF, NAN, rejects


def cost(m=3, grid=(2, 2), **entry):
    values = -maps(m, grid, 0)
    for place, value in entry.items():
        values.view(-1)[int(place[1:])] = value
    return values


def matrix(*rows):
    return torch.tensor(rows)


EYE = torch.eye(3)
WEIGHTS = ["beta", "gamma", "tau", "eta"]

PROBLEMS = {
    "numpy cost": (
        {"cost": np.zeros((3, 4))},
        TypeError,
        r"`cost` must be a torch tensor, got ndarray",
    ),
    "list cost": ({"cost": [[0.0]]}, TypeError, r"`cost` must be a torch tensor, got list"),
    "no cost": ({"cost": None}, TypeError, r"`cost` must be a torch tensor, got NoneType"),
    "complex cost": (
        {"cost": torch.zeros(3, 4, dtype=torch.complex64)},
        TypeError,
        r"`cost` .* real",
    ),
    "boolean cost": (
        {"cost": torch.zeros(3, 4, dtype=torch.bool)},
        TypeError,
        r"`cost` .* real num",
    ),
    "NaN cost": (
        {"cost": cost(_5=NAN)},
        ValueError,
        r"`cost` must be finite .* got nan for input 1",
    ),
    "infinite cost": (
        {"cost": cost(_8=INF)},
        ValueError,
        r"`cost` must be finite .* inf for input 2",
    ),
    "minus infinity": (
        {"cost": cost(_0=-INF)},
        ValueError,
        r"`cost` must be finite .* -inf for input 0",
    ),
    "cost beyond float32": (
        {"cost": cost(_0=1e39)},
        ValueError,
        r"`cost` must be .* at most 1e\+30",
    ),
    "cost beyond float64's root": (
        {"cost": cost(_0=1e300)},
        ValueError,
        r"`cost` must be .* at most 1e\+30",
    ),
    "cost that beta drowns": (
        {"cost": 1e-300 * cost()},
        ValueError,
        r"`cost` must be 0, or at least 1e-35 .* got \S+e-301 ",
    ),
    "cost that eta drowns": (
        {"cost": 1e-300 * cost(), "beta": 0.0, "prior": torch.ones(3) / 3},
        ValueError,
        r"`cost` must be 0, or at least 1e-35",
    ),
    "drowned beta": ({"beta": 1e-300}, ValueError, r"`beta` must be 0, or at least 1e-35"),
    "drowned gamma": ({"gamma": 1e-300}, ValueError, r"`gamma` must be 0, or at least 1e-35"),
    "drowned A": (
        {"compatibility": 1e-300 * EYE.double()},
        ValueError,
        r"`gamma` must be 0, or at least 1e-35",
    ),
    "drowned eta": (
        {"eta": 1e-300, "prior": torch.ones(3) / 3},
        ValueError,
        r"`eta` must be 0, or at least 1e-35",
    ),
    "no dimensions": (
        {"cost": torch.zeros(())},
        ValueError,
        r"`cost` must have shape \(inputs, \*grid\)",
    ),
    "no grid": ({"cost": torch.zeros(3)}, ValueError, r"`cost` must have shape .* got \(3,\)"),
    "4-d grid": ({"cost": torch.zeros(3, 1, 1, 1, 1)}, ValueError, r"grid of 1 to 3 dimensions"),
    "no inputs": ({"cost": torch.zeros(0, 4)}, ValueError, r"at least one input .* got \(0, 4\)"),
    "empty grid": ({"cost": torch.zeros(3, 4, 0)}, ValueError, r"`cost` must .* got \(3, 4, 0\)"),
    "numpy A": ({"compatibility": np.eye(3)}, TypeError, r"`compatibility` must be a torch tensor"),
    "A of another size": (
        {"compatibility": torch.eye(4)},
        ValueError,
        r"shape \(3, 3\).* got \(4, 4\)",
    ),
    "flat A": (
        {"compatibility": torch.ones(9)},
        ValueError,
        r"`compatibility` must have shape \(3, 3\)",
    ),
    "oblong A": (
        {"compatibility": torch.ones(3, 4)},
        ValueError,
        r"`compatibility` must have shape",
    ),
    "NaN in A": (
        {"compatibility": EYE * NAN},
        ValueError,
        r"`compatibility` must be finite .* nan",
    ),
    "infinity in A": (
        {"compatibility": EYE.clamp(0, 1) * 1e38 * 10},
        ValueError,
        r"must be finite",
    ),
    "huge A": (
        {"compatibility": EYE * 1e38},
        ValueError,
        r"`compatibility` must .* at most 1e\+30",
    ),
    "negative A": (
        {"compatibility": matrix([1.0, -0.5, 0], [-0.5, 1, 0], [0, 0, 1])},
        ValueError,
        r"`compatibility` must not be negative, got -0\.5",
    ),
    "asymmetric A": (
        {"compatibility": matrix([1.0, 0.5, 0], [0, 1, 0], [0, 0, 1])},
        ValueError,
        r"`compatibility` must be symmetric, got entries that differ by 0\.5",
    ),
    "unknown clip": (
        {"clip": "firm"},
        ValueError,
        r"`clip` must be one of \['soft', 'hard', None\], got",
    ),
    "clip 0": ({"clip": 0}, ValueError, r"`clip` must be one of .* got 0"),
    "unknown smoothness": (
        {"smoothness": "cubic"},
        ValueError,
        r"`smoothness` must be one of .* 'cubic'",
    ),
    "smoothness None": (
        {"smoothness": None},
        ValueError,
        r"`smoothness` must be one of .* got None",
    ),
    "0 outputs": (
        {"num_outputs": 0},
        ValueError,
        r"`num_outputs` must be a positive integer, got 0",
    ),
    "-1 outputs": (
        {"num_outputs": -1},
        ValueError,
        r"`num_outputs` must be a positive integer, got -1",
    ),
    "2.5 outputs": (
        {"num_outputs": 2.5},
        ValueError,
        r"`num_outputs` must be a positive integer, got 2\.5",
    ),
    "True outputs": ({"num_outputs": True}, ValueError, r"`num_outputs` must be .* got True"),
    "'3' outputs": ({"num_outputs": "3"}, ValueError, r"`num_outputs` must be .* got '3'"),
    "absurdly many": (
        {"num_outputs": 10**9},
        ValueError,
        r"at most .* 4 locations x 1000000000 outputs",
    ),
    "prior too long": (
        {"prior": torch.ones(4) / 4},
        ValueError,
        r"`prior` must have shape \(3,\).* \(4,\)",
    ),
    "negative prior": (
        {"prior": torch.tensor([1.5, -0.5, 0])},
        ValueError,
        r"`prior` must .* not negative",
    ),
    "NaN prior": ({"prior": torch.tensor([NAN, 0.5, 0.5])}, ValueError, r"`prior` must be finite"),
    "prior's sum": ({"prior": torch.ones(3)}, ValueError, r"`prior` must sum to 1, got 3"),
    "list prior": (
        {"prior": [0.2, 0.3, 0.5]},
        TypeError,
        r"`prior` must be a torch tensor, got list",
    ),
}


@each_case(("change", "error", "message"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_a_problem_rejects(change, error, message):
    with rejects(error, message):
        Problem(**{"cost": cost(), "compatibility": EYE} | change)


@each_case("name", WEIGHTS)
@each_case(
    ("value", "error"),
    [
        (-0.1, ValueError),
        (NAN, ValueError),
        (INF, ValueError),
        (1e31, ValueError),
        (10**400, ValueError),
        ("0.5", TypeError),
        (None, TypeError),
        (True, TypeError),
        (1j, TypeError),
        (torch.tensor(0.5), TypeError),
    ],
    ids=str,
)
def test_a_weight_must_be_a_number_that_is_not_negative(name, value, error):
    with rejects(error, rf"`{name}` must be a number from 0 to 1e\+30, got "):
        Problem(cost=cost(), compatibility=EYE, **{name: value})
