"""Properties of whatever `solve` returns, on problems that hypothesis makes up."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import oracle
from comixup import Problem, objective, solve
from problems import distances, generator, identity, make, psd, ratio


@st.composite
def problems(draw, grids=((1,), (6,), (2, 3), (4, 4), (2, 2, 3)), most=5):
    m, seed = draw(st.integers(1, most)), draw(st.integers(0, 2**32))
    return make(
        m,
        draw(st.sampled_from(grids)),
        seed,
        A=draw(st.sampled_from([identity, psd]))
        if m == 1
        else draw(st.sampled_from([identity, psd, distances])),
        power=draw(st.sampled_from([1, 3])),
        num_outputs=draw(st.integers(1, most)),
        beta=draw(st.sampled_from([0.0, 0.32, 2.0])),
        gamma=draw(st.sampled_from([0.0, 0.1, 1.0])),
        tau=draw(st.sampled_from([0.0, 0.5, 0.83])),
        prior=draw(st.sampled_from([None, ratio(m, seed)])),
        clip=draw(st.sampled_from(["soft", "hard", None])),
        smoothness=draw(st.sampled_from(["squared", "inner", "official"])),
    )


seeds = st.integers(0, 2**32)
methods = st.sampled_from(["native", "native", "reference"])


@settings(max_examples=40)
@given(problems(), st.integers(1, 4), methods, st.booleans(), seeds)
def test_masks_are_feasible_and_values_are_the_objective(problem, levels, method, resolve, seed):
    z = solve(
        problem, levels=levels, sweeps=3, method=method, resolve=resolve, generator=generator(seed)
    )
    masks = z.masks
    assert masks.shape == (problem.num_outputs, problem.num_inputs, *problem.grid)
    assert_close(masks.sum(1), torch.ones(problem.num_outputs, *problem.grid))
    assert_close(masks * levels, (masks * levels).round(), atol=1e-6, rtol=0)
    assert_close(z.source_ratio().sum(1), torch.ones(problem.num_outputs))
    total = objective(problem, z).total
    nearest = (z.objective_values[0] - total).abs().min()
    assert_close(nearest, torch.zeros_like(nearest), atol=1e-6, rtol=0)
    if not resolve:
        assert float(z.objective_values.min()) == pytest.approx(total, abs=1e-6)


@given(
    st.lists(problems(grids=[(2, 3)], most=4), min_size=1, max_size=5),
    st.integers(1, 3),
    st.integers(1, 3),
    seeds,
)
def test_partitions_use_their_own_inputs_and_threads_change_nothing(parts, levels, starts, seed):
    def run(num_threads):
        return solve(
            parts,
            levels=levels,
            starts=starts,
            resolve=True,
            num_threads=num_threads,
            generator=generator(seed),
        )

    z = run(1)
    row = column = 0
    for part in parts:
        block = z.sources[row : row + part.num_outputs]
        assert block.min() >= column
        assert block.max() < column + part.num_inputs
        row, column = row + part.num_outputs, column + part.num_inputs
    for num_threads in (2, 5):
        again = run(num_threads)
        assert_close(again.sources, z.sources)
        assert_close(again.objective_values, z.objective_values, rtol=0, atol=0)


@settings(max_examples=8)
@given(problems(grids=[(4,), (2, 2)], most=3), st.integers(1, 2), methods, seeds)
def test_a_constant_at_a_location_changes_no_optimum_and_no_answer(problem, levels, method, seed):
    shift = 3 * torch.randn(problem.grid, generator=generator(seed), dtype=torch.float64)
    shifted = problem.replace(cost=problem.cost + shift)
    offset = problem.num_outputs * float(shift.sum())
    best = oracle.joint_minimum(problem, levels)
    assert oracle.joint_minimum(shifted, levels) == pytest.approx(best + offset, abs=1e-9)
    run = {"levels": levels, "method": method, "starts": 8}
    total = objective(problem, solve(problem, generator=generator(seed), **run)).total
    moved = objective(shifted, solve(shifted, generator=generator(seed), **run)).total
    assert moved == pytest.approx(total + offset, abs=0.02 * (problem.gamma + abs(best)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("method", ["native", "reference"])
def test_costs_of_any_precision(dtype, method):
    cost = make(4, (4, 4), 0, power=1).cost.to(dtype)
    z = solve(Problem(cost, torch.eye(4, dtype=dtype)), method=method, generator=generator(0))
    same = Problem(cost.double(), torch.eye(4, dtype=torch.float64))
    exact = solve(same, method=method, generator=generator(0))
    assert objective(same, z).total == pytest.approx(objective(same, exact).total, abs=1e-5)


def test_strides_and_gradients_make_no_difference():
    plain = make(4, (3, 5), 1, power=1)
    strided = plain.cost.permute(2, 0, 1).contiguous().permute(1, 2, 0).requires_grad_()
    assert not strided.is_contiguous()
    A = torch.stack([plain.compatibility, torch.zeros(4, 4)], dim=-1)[..., 0].requires_grad_()
    z = solve(Problem(strided, A), generator=generator(2))
    expected = solve(Problem(plain.cost, plain.compatibility), generator=generator(2))
    assert_close(z.sources, expected.sources)
    assert strided.grad is None
