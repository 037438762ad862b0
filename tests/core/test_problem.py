"""`Problem` and `from_saliency` on good input; what they reject: test_bad_input.py."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from comixup import CoMixup, Problem, objective, solve
from comixup._random import numpy_generator
from comixup.core.maps import location_distances, salient_locations
from comixup.core.problem import PRIOR_FLOOR
from comixup.core.tensors import on_host
from problems import generator, maps, ratio


def spot(size, *places):
    """A flat map with a bright 8 x 8 patch whose corner is at `places`."""
    saliency = torch.full(size, 0.01)
    for row, column in places:
        saliency[row : row + 8, column : column + 8] = 1
    return saliency


# ---- Fields ------------------------------------------------------------------------------------


def distances_of(saliency):
    places = on_host(salient_locations(saliency))
    return torch.from_numpy(location_distances(places)).float()


def test_defaults_are_the_papers():
    problem = Problem(-maps(3, (4, 4), 0), torch.eye(3))
    found = (problem.beta, problem.gamma, problem.tau, problem.eta)
    assert found == (0.32, 1.0, 0.83, 0.05)
    assert (problem.clip, problem.smoothness, problem.prior) == ("soft", "squared", None)
    assert (problem.num_inputs, problem.num_outputs) == (3, 3)
    assert (problem.grid, problem.num_locations) == ((4, 4), 16)


def test_clip_levels_are_relative_to_the_mean_load():
    problem = Problem(-maps(5, (2, 3), 0), torch.eye(5), num_outputs=4, tau=0.5)
    assert problem.clip_level == pytest.approx(2 * 0.5 * 6 * 4 / 5)
    assert problem.total_clip == pytest.approx(0.5 * 6**2 * 4**2 / 5)


def test_a_problem_cannot_be_changed():
    problem = Problem(-maps(2, (2,), 0), torch.eye(2))
    with pytest.raises(AttributeError, match="beta"):
        problem.beta = 1.0
    with pytest.raises(AttributeError, match="`grid` must not be changed"):
        del problem.grid
    with pytest.raises(AttributeError, match=r"`num_outputs` .* problem.replace\(num_outputs="):
        problem.num_outputs = 3


TENSORS = ["cost", "compatibility", "prior"]


def fields_of(dtype):
    prior = ratio(4, 0).to(dtype)
    return {"cost": -maps(4, (2, 3), 0).to(dtype), "compatibility": torch.eye(4).to(dtype)} | {
        "prior": prior / prior.sum()
    }


def spoil(tensor):
    """What a caller might do to a tensor: no value stays what it was."""
    tensor.fill_(float("nan"))
    tensor.view(-1)[0] = float("inf")


@pytest.mark.parametrize("method", ["native", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", TENSORS)
def test_a_problem_is_a_snapshot(name, dtype, method):
    fields = fields_of(dtype)
    problem = Problem(**fields)
    before = solve(problem, method=method, generator=generator(1))
    values = {n: getattr(problem, n) for n in TENSORS}
    spoil(fields[name])  # the caller's own
    spoil(getattr(problem, name))  # and what the problem gave out
    after = solve(problem, method=method, generator=generator(1))
    assert_close(after.sources, before.sources)
    assert_close(after.objective_values, before.objective_values, rtol=0, atol=0)
    assert_close({n: getattr(problem, n) for n in TENSORS}, values, rtol=0, atol=0)
    assert objective(problem, after) == objective(problem, before)


@pytest.mark.parametrize("name", TENSORS)
def test_the_arrays_that_the_solver_reads_cannot_be_written_to(name):
    problem = Problem(**fields_of(torch.float64))
    of_saliency = Problem.from_saliency(maps(4, (2, 3), 0))
    for array in (getattr(problem.host, name), getattr(of_saliency.host, name)):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = float("nan")


def test_a_problem_can_be_copied():
    problem = Problem(**fields_of(torch.float64), beta=0.1)
    expected = solve(problem, generator=generator(2))
    copies = [
        copy.copy(problem),
        copy.deepcopy(problem),
        pickle.loads(pickle.dumps(problem)),
        problem.replace(),
    ]
    for other in copies:
        spoil(other.cost)
        assert other.beta == 0.1
        assert_close(other.cost, problem.cost, rtol=0, atol=0)
        assert_close(solve(other, generator=generator(2)).sources, expected.sources)
    changed = problem.replace(cost=2 * problem.cost)
    assert_close(changed.cost, 2 * problem.cost, rtol=0, atol=0)
    assert_close(changed.prior, problem.prior, rtol=0, atol=0)


def test_a_matrix_that_is_semi_definite_but_not_dominant_passes_in_silence():
    Problem(-maps(3, (2,), 0), torch.ones(3, 3))  # eigenvalues 3, 0, 0; warnings are errors here


# ---- From saliency: costs ----------------------------------------------------------------------


@given(
    st.integers(1, 4),
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.integers(1, 5),
    st.integers(0, 2**32),
)
def test_costs_are_minus_saliency_that_sums_to_one(m, size, cells, seed):
    saliency = torch.rand(m, *size, generator=generator(seed)) + 1e-3
    problem = Problem.from_saliency(saliency, grid=cells, generator=generator(seed))
    assert problem.grid == tuple(min(cells, side) for side in size)
    assert (problem.cost < 0).all()
    assert_close(problem.cost.flatten(1).sum(1), -torch.ones(m))


def test_the_scale_of_a_map_does_not_matter():
    saliency = torch.rand(3, 8, 8, generator=generator(2))
    one = Problem.from_saliency(saliency, alpha=None)
    scaled = Problem.from_saliency(saliency * torch.tensor([1e-20, 1.0, 1e20]).view(3, 1, 1))
    assert_close(scaled.cost, one.cost)


# ---- From saliency: compatibility --------------------------------------------------------------


def test_distances_between_the_brightest_places_by_hand():
    # Corners at (0, 0), (0, 6) and (16, 2): l1 distances 6, 18 and 20, twice each: sum 88.
    size = (24, 24)
    saliency = torch.stack([spot(size, (0, 0)), spot(size, (0, 6)), spot(size, (16, 2))])
    expected = torch.tensor([[0.0, 6, 18], [6, 0, 20], [18, 20, 0]]) * 3 / 88
    assert_close(distances_of(saliency), expected)
    problem = Problem.from_saliency(saliency, omega=0.1)
    assert_close(problem.compatibility, 0.9 * torch.eye(3) + 0.1 * expected)


def test_the_users_own_matrix_or_function():
    saliency = torch.rand(3, 8, 8, generator=generator(6))
    matrix = torch.tensor([[2.0, 1, 0], [1, 2, 0], [0, 0, 1]])
    assert_close(Problem.from_saliency(saliency, compatibility=matrix).compatibility, matrix)
    seen = []

    def function(maps):
        seen.append(maps.shape)
        return matrix

    assert_close(Problem.from_saliency(saliency, compatibility=function).compatibility, matrix)
    assert seen == [(3, 8, 8)]


def test_a_large_omega_may_break_proposition_1_and_says_so():
    saliency = torch.rand(6, 32, 32, generator=generator(7))
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        Problem.from_saliency(saliency, omega=1.0)


# ---- From saliency: prior ----------------------------------------------------------------------


def test_without_a_generator_the_prior_follows_the_global_seed():
    saliency = torch.rand(5, 8, 8, generator=generator(8))
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = Problem.from_saliency(saliency).prior
        torch.manual_seed(3)
        assert_close(Problem.from_saliency(saliency).prior, first)


@pytest.mark.parametrize("alpha", [0.5, 50.0])
def test_the_prior_is_dirichlet(alpha):
    saliency = torch.ones(4, 4, 4)
    source = generator(9)
    draws = torch.stack(
        [Problem.from_saliency(saliency, alpha=alpha, generator=source).prior for _ in range(400)]
    )
    assert_close(draws.sum(1), torch.ones(400, dtype=draws.dtype))
    # Mean 1/m and variance (1/m)(1 - 1/m) / (m alpha + 1), up to four standard errors.
    variance = 0.25 * 0.75 / (4 * alpha + 1)
    mean = torch.full((4,), 0.25, dtype=draws.dtype)
    assert_close(draws.mean(0), mean, rtol=0, atol=4 * (variance / 400) ** 0.5)
    assert float(draws.var(0).mean()) == pytest.approx(variance, rel=0.25)


def test_no_alpha_no_prior_and_no_draw():
    source = generator(1)
    before = source.get_state()
    assert Problem.from_saliency(torch.ones(3, 4, 4), alpha=None, generator=source).prior is None
    assert_close(source.get_state(), before)


# ---- The partitions of a batch -------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(5, 5, 5), (6, 5, 5), (7, 6)])
def test_the_problems_of_a_batch_are_those_of_its_partitions(sizes):
    m = sum(sizes)
    saliency = maps(m, (16, 24), 3)
    mixup = CoMixup(num_classes=2, partition_size=max(sizes), alpha=None)
    mixup(torch.rand(m, 1, 16, 24), torch.zeros(m, dtype=torch.long), saliency)
    assert tuple(problem.num_inputs for problem in mixup.last.problems) == sizes
    for found, part in zip(mixup.last.problems, saliency.split(sizes), strict=True):
        alone = Problem.from_saliency(part.double(), alpha=None)
        assert_close(found.cost, alone.cost)
        assert_close(found.compatibility, alone.compatibility, rtol=0, atol=0)


def test_priors_of_partitions_are_drawn_one_after_the_other():
    mixup = CoMixup(num_classes=2, partition_size=6, generator=generator(4))
    mixup(torch.rand(16, 1, 8, 8), torch.zeros(16, dtype=torch.long), maps(16, (8, 8), 1))
    random = numpy_generator(generator(4))
    for problem in mixup.last.problems:
        drawn = random.dirichlet(np.full(problem.num_inputs, 2.0))
        np.testing.assert_array_equal(problem.host.prior, np.maximum(drawn, PRIOR_FLOOR))
