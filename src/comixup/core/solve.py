"""Algorithm 1: from a problem to a labelling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from comixup import _native
from comixup._checks import check_boolean, check_count
from comixup.core import reference
from comixup.core.labelling import Labelling
from comixup.core.problem import MAX_LABELS, Problem
from comixup.core.tensors import MAX_THREADS, thread_count, to_device
from comixup.core.weights import LEVELS, SWEEPS

MAX_LEVELS = 16
"""The number of mixed labels is quadratic in the levels; the paper uses 2, in a timing figure 3."""

MAX_SWEEPS = 10**6
"""A handful of sweeps is enough; the objective value of each one is stored."""

_Starts: TypeAlias = npt.NDArray[np.int32]


def solve(
    problem: Problem | Sequence[Problem],
    *,
    sweeps: int = SWEEPS,
    levels: int = LEVELS,
    starts: int = 1,
    resolve: bool = False,
    method: Literal["native", "reference"] = "native",
    num_threads: int | None = None,
    generator: torch.Generator | None = None,
) -> Labelling:
    """Returns a labelling that (nearly) minimizes Eq. (1), by Algorithm 1 of the paper.

    Starting from random one-hot labels, each sweep optimizes one output after the other with all
    others fixed. The first sweep uses one-hot labels only; later ones also mix the inputs that an
    output already uses. The best of all sweeps is returned.

    Args:
        problem: one problem, or a sequence of problems on the same grid (the partitions of a
            batch). A sequence returns one labelling of all inputs and outputs in order.
        sweeps: T, the passes over the outputs. Once a sweep changes nothing, the remaining ones
            start from perturbed labels (see docs/solver.md) and are kept only if better.
        levels: L; masks are multiples of 1/L. 1 gives one-hot masks.
        starts: number of random starts; the one with the lowest objective value is kept.
        resolve: before the last sweep, penalize outputs with identical supports for different
            inputs (a step of the official implementation). The sweep with the fewest duplicates is
            then returned, and of these the one with the lowest objective value. The labelling's
            `total` is one of `objective_values`, not necessarily the last or the lowest.
        method: "native", or "reference": the same algorithm in NumPy, slow, for reading.
        num_threads: threads that share problems and starts; None means torch's number, which is 1
            in a data loader's workers. The result does not depend on it; fewer are used if the
            system can start no more.
        generator: random generator for the starts; None means torch's global one.

    >>> problem = Problem.from_saliency(torch.rand(5, 16, 16))
    >>> solve(problem).masks.shape
    torch.Size([5, 5, 4, 4])
    """
    problems = _checked_problems(problem)
    check_settings(sweeps=sweeps, levels=levels, starts=starts, num_threads=num_threads)
    check_boolean("resolve", resolve)
    if method not in ("native", "reference"):
        raise ValueError(f'`method` must be "native" or "reference", got {method!r}.')
    run = _solve_native if method == "native" else _solve_reference
    return solve_checked(problems, sweeps, levels, resolve, num_threads, generator, starts, run)


def check_settings(
    *, sweeps: int = 1, levels: int = 1, starts: int = 1, num_threads: int | None = None
) -> None:
    """Raises for invalid settings of `solve`."""
    for name, value in (("sweeps", sweeps), ("levels", levels), ("starts", starts)):
        check_count(name, value)
    if levels > MAX_LEVELS:
        raise ValueError(f"`levels` must be at most {MAX_LEVELS}, got {levels}. The paper uses 2.")
    if sweeps > MAX_SWEEPS:
        raise ValueError(f"`sweeps` must be at most {MAX_SWEEPS}, got {sweeps}. The paper takes 4.")
    if num_threads is not None:
        check_count("num_threads", num_threads, high=MAX_THREADS)


def _solve_native(
    scaled: list[reference.ScaledProblem],
    begin: list[_Starts],
    sweeps: int,
    levels: int,
    resolve: bool,
    num_threads: int | None,
) -> tuple[reference.Ints, reference.Floats]:
    grid = scaled[0].grid
    sources = np.empty((sum([z.shape[1] for z in begin]), levels, *grid), dtype=np.int64)
    objective_values = np.empty((len(scaled), sweeps))
    _native.solve(
        [p.cost for p in scaled],
        [p.compatibility for p in scaled],
        [(p.beta, p.gamma, p.eta, p.clip or "none", p.clip_level, p.smoothness) for p in scaled],
        begin,
        list(grid),
        sweeps,
        levels,
        resolve,
        thread_count(num_threads),
        sources,
        objective_values,
    )
    return sources, objective_values


def _solve_reference(
    scaled: list[reference.ScaledProblem],
    begin: list[_Starts],
    sweeps: int,
    levels: int,
    resolve: bool,
    num_threads: int | None,
) -> tuple[reference.Ints, reference.Floats]:
    sources, objective_values, first = [], [], 0
    for p, starts in zip(scaled, begin, strict=True):
        runs = [
            reference.solve(p, start, sweeps=sweeps, levels=levels, resolve=resolve)
            for start in starts.astype(np.int64)
        ]
        z, sweep_values = runs[0]
        for run in runs[1:]:
            ranks = [reference.rank(p, labels, resolve) for labels in (run[0], z)]
            if reference.is_better(*ranks):
                z, sweep_values = run
        sources.append(z.transpose(0, 2, 1).reshape(len(z), levels, *p.grid) + first)
        objective_values.append(sweep_values)
        first += len(p.cost)
    return np.concatenate(sources), np.stack(objective_values)


def solve_checked(
    problems: list[Problem],
    sweeps: int,
    levels: int,
    resolve: bool,
    num_threads: int | None,
    generator: torch.Generator | None,
    starts: int = 1,
    run: Callable[..., tuple[reference.Ints, reference.Floats]] = _solve_native,
) -> Labelling:
    """Same as `solve`, for checked settings."""
    outputs = sum([p.num_outputs for p in problems])
    labels = starts * levels * outputs * problems[0].num_locations
    if labels > MAX_LABELS:
        raise ValueError(
            f"`problem` must have at most {MAX_LABELS} labels over all starts and levels, got "
            f"{labels}. Use fewer starts, outputs or locations."
        )
    begin = [random_labels(p, starts, generator) for p in problems]
    scaled = [scaled_problem(p) for p in problems]
    sources, objective_values = run(scaled, begin, sweeps, levels, resolve, num_threads)
    return Labelling(
        to_device(torch.from_numpy(sources), problems[0].device),
        sum([p.num_inputs for p in problems]),
        torch.from_numpy(objective_values),
    )


def scaled_problem(problem: Problem) -> reference.ScaledProblem:
    """Returns a problem as plain arrays, with weights per location and the prior in the costs."""
    n = problem.num_locations
    cost, compatibility, prior = problem.host
    eta = 0.0 if prior is None else problem.eta / n
    if prior is not None:
        cost = cost - eta * np.log(prior)[:, None]
    return reference.ScaledProblem(
        cost=cost,
        compatibility=compatibility,
        grid=problem.grid,
        beta=problem.beta / n,
        gamma=problem.gamma / n,
        eta=eta,
        clip=problem.clip,
        clip_level=problem.clip_level,
        smoothness=problem.smoothness,
    )


def random_labels(problem: Problem, starts: int, generator: torch.Generator | None) -> _Starts:
    """Returns i.i.d. uniform one-hot labels, (starts, m', n)."""
    shape = (starts, problem.num_outputs, problem.num_locations)
    device = generator.device if generator is not None else None
    draw = torch.randint(
        problem.num_inputs, shape, generator=generator, device=device, dtype=torch.int32
    )
    labels: _Starts = draw.cpu().numpy()
    return labels


def _checked_problems(problem: Problem | Sequence[Problem]) -> list[Problem]:
    if isinstance(problem, Problem):
        return [problem]
    problems = list(problem) if isinstance(problem, Iterable) else [problem]
    for p in problems:
        if not isinstance(p, Problem):
            raise TypeError(
                f"`problem` must be a Problem or a sequence of them, got {type(p).__name__}."
            )
    if not problems:
        raise ValueError("`problem` must hold at least one problem, got an empty sequence.")
    grids = {p.grid for p in problems}
    if len(grids) > 1:
        raise ValueError(f"`problem` must have one grid for all its problems, got {sorted(grids)}.")
    return problems
