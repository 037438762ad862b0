"""Input that is odd but legal: the answer is feasible, finite and as good as it should be."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from cases import each_case
from comixup import Labelling, Problem, objective, solve
from problems import generator, identity, make, maps, psd, ratio

with_each = pytest.mark.parametrize("method", ["native", "reference"])


def scaled(factor, **fields):
    """A problem all of whose energies are multiplied by `factor`."""
    weights = {name: factor * fields.pop(name, 0.3) for name in ("beta", "gamma", "eta")}
    return Problem(-factor * maps(3, (2, 3), 1), identity(3), **weights, **fields)


ODD = {
    "equal costs": Problem(torch.zeros(4, 4, 4), torch.eye(4)),
    "equal costs, no clip": Problem(torch.full((4, 4, 4), -0.1), torch.eye(4), clip=None),
    "huge costs": scaled(1e28),
    "tiny costs": scaled(1e-30),
    "costs beyond float32": scaled(1e-300),
    "denormal costs": scaled(1e-310),
    "nothing but a tiny penalty": Problem(
        torch.zeros(3, 2, 2), identity(3), beta=0, gamma=1e-300, clip=None
    ),
    "tiny costs, large offset": Problem(
        1.0 + 1e-10 * maps(4, (3, 3), 0), identity(4), beta=1e-11, gamma=1e-11
    ),
    "positive costs": Problem(maps(4, (3, 3), 0), identity(4)),
    "mixed signs": Problem(torch.randn(4, 3, 3, generator=generator(0)), torch.eye(4)),
    "one hot cost": Problem(-1e6 * torch.eye(4).view(4, 2, 2), torch.eye(4)),
    "huge gamma": make(4, (4, 4), 2, gamma=1e6, clip=None),
    "huger gamma": make(4, (4, 4), 2, gamma=1e30, clip=None),
    "huge gamma, hard clip": make(4, (4, 4), 2, gamma=1e6, clip="hard"),
    "huge gamma and matrix": Problem(
        -maps(3, (2, 2), 0), 1e30 * identity(3), gamma=1e30, clip=None
    ),
    "huge beta": make(4, (4, 4), 3, beta=1e6),
    "huger beta": make(4, (4, 4), 3, beta=1e30, smoothness="official"),
    "huge eta": make(4, (4, 4), 3, eta=1e6, prior=ratio(4, 3)),
    "prior on one input": make(3, (4, 4), 3, eta=1.0, prior=torch.tensor([1.0, 0.0, 0.0])),
    "no beta": make(4, (4, 4), 4, beta=0),
    "no gamma": make(4, (4, 4), 4, gamma=0),
    "no tau": make(4, (4, 4), 4, tau=0),
    "nothing": make(4, (4, 4), 4, beta=0, gamma=0),
    "zero matrix": Problem(-maps(3, (3, 3), 5), torch.zeros(3, 3)),
    "all-ones matrix": Problem(-maps(3, (3, 3), 5), torch.ones(3, 3)),
    "one input": make(1, (4, 4), 6),
    "one output": make(5, (4, 4), 6, num_outputs=1),
    "two inputs, fifty outputs": make(2, (4, 4), 7, num_outputs=50),
    "fifty inputs, two outputs": make(50, (4, 4), 7, num_outputs=2, A=psd),
    "one location": make(5, (1, 1, 1), 8),
    "a long line": make(4, (300,), 9),
    "a wide square": make(3, (16, 16), 10, power=1),
    "a cube": make(3, (5, 5, 5), 11, power=1, smoothness="inner"),
}


@each_case("problem", ODD.values(), ids=ODD.keys())
@each_case("levels", [1, 2, 5])
def test_the_kernel_survives(problem, levels):
    z = solve(problem, levels=levels, starts=2, resolve=True, generator=generator(levels))
    assert_close(z.masks.sum(1), torch.ones(problem.num_outputs, *problem.grid))
    assert torch.isfinite(z.objective_values).all()
    total = objective(problem, z).total
    assert np.isfinite(total)
    size = max(abs(total), float(z.objective_values.abs().max()))
    assert float((z.objective_values - total).abs().min()) <= 1e-9 * size + 1e-322
    # Never worse than the best of the starts it had.
    draws = torch.randint(
        problem.num_inputs,
        (2, problem.num_outputs, problem.num_locations),
        generator=generator(levels),
        dtype=torch.int32,
    )
    start = Labelling(draws[0].long().view(-1, 1, *problem.grid), problem.num_inputs)
    if problem.clip is None:
        assert total <= objective(problem, start).total + 1e-6 * size


@each_case(
    "name",
    [name for name, problem in ODD.items() if problem.num_locations <= 16 and name[:2] != "fi"],
)
def test_the_reference_survives(name):
    problem = ODD[name]
    z = solve(problem, sweeps=2, method="reference", generator=generator(1))
    assert_close(z.masks.sum(1), torch.ones(problem.num_outputs, *problem.grid))
    assert torch.isfinite(z.objective_values).all()


@with_each
@each_case("exponent", [-900, -120, 90])
def test_a_power_of_two_changes_no_label(method, exponent):
    # Flat maps, on which no inner step is exact: fusion moves, and their tolerances, decide.
    factor = 2.0**exponent
    plain = make(12, (4, 4), 5, power=1, num_outputs=3, prior=ratio(12, 5))
    weights = {name: factor * getattr(plain, name) for name in ("beta", "gamma", "eta")}
    scaled = plain.replace(cost=factor * plain.cost, **weights)
    expected = solve(plain, sweeps=2, method=method, generator=generator(2))
    z = solve(scaled, sweeps=2, method=method, generator=generator(2))
    assert_close(z.sources, expected.sources)
    assert_close(z.objective_values, factor * expected.objective_values, rtol=1e-12, atol=0)
