"""Against Narasimhan and Bilmes' procedure and random guesses, as in the paper's appendix D.

Both procedures use the same compiled inner step. n = 16, A = I, no clip, one-hot labels, uniform
costs normalized to sum 1 for each input.
"""

from __future__ import annotations

import statistics
import time

from comixup import objective, solve
from comixup.lab.paper.baseline_solvers import identity, narasimhan_bilmes, random_guess
from common import console, options, plain, progress, seeded, table, target, unit_maps

PAPER = {
    5: ("3.1 (1.7)", "269 (58)", "809 (22)", "0.02 / 0.06"),
    10: ("15 (6.6)", "1071 (174)", "7269 (92)", "0.04 / 0.09"),
    20: ("54 (15)", "4344 (701)", "60964 (413)", "0.11 / 0.27"),
    50: ("205 (26)", "24955 (4439)", "980973 (2462)", "0.54 / 1.27"),
    100: ("469 (31)", "85782 (14337)", "7925650 (10381)", "2.71 / 7.08"),
}
"""By m: value (standard deviation) of ours, Narasimhan, Random; seconds of ours / Narasimhan."""

CONVERGED = 10
"""Sweeps after which ours has settled; the rival too runs until nothing changes."""

WAYS = {
    "ours": lambda p, s: solve(p, levels=1, sweeps=CONVERGED, num_threads=1, generator=seeded(s)),
    "ours, 4 sweeps": lambda p, s: solve(p, levels=1, num_threads=1, generator=seeded(s)),
    "Narasimhan-Bilmes": lambda p, s: narasimhan_bilmes(p, generator=seeded(s)),
    "random (feasible)": lambda p, s: random_guess(p, generator=seeded(s)),
    "output j = input j": lambda p, s: identity(p),
}


def measure(m: int, seeds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Returns the values and times (ms) of every way."""
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in WAYS}
    for seed in progress(range(seeds), f"m = {m}"):
        problem = plain(-unit_maps(m, (4, 4), seed))  # costs, not saliency: positive
        for name, way in WAYS.items():
            begin = time.perf_counter()
            labelling = way(problem, seed)
            found[name][1].append((time.perf_counter() - begin) * 1e3)
            found[name][0].append(objective(problem, labelling).total)
    return found


def main() -> None:
    arguments = options(__doc__, seeds=100)
    results = {m: measure(m, arguments.seeds) for m in PAPER}
    values = [
        [
            name,
            *(
                f"{statistics.fmean(found[name][0]):.4g} ({statistics.stdev(found[name][0]):.2g})"
                for found in results.values()
            ),
        ]
        for name in WAYS
    ]
    columns = ["", *(f"m = {m}" for m in PAPER)]
    paper = [
        [f"paper: {name}", *(row[index] for row in PAPER.values())]
        for index, name in enumerate(["ours", "Narasimhan", "Random (infeasible)"])
    ]
    table("Objective: mean (standard deviation) over the seeds", columns, values + paper)
    times = [
        [name, *(f"{statistics.median(found[name][1]):.3g}" for found in results.values())]
        for name in list(WAYS)[:3]
    ]
    times.append(["paper, s: ours / Narasimhan", *(row[3] for row in PAPER.values())])
    table("Time in ms, medians", columns, times)
    console.print(
        "The paper's Random row draws each entry of each mask by itself, so that a location holds\n"
        "m / 2 inputs at once and its value grows with m^2 (m - 1); such masks are not feasible.\n"
        "Ours are. The scale of the paper's costs is not stated, so only the order compares."
    )
    pairs = [(found["ours"], found["Narasimhan-Bilmes"]) for found in results.values()]
    for what, index, measured in (
        ("lower mean", 0, statistics.fmean),
        ("smaller spread", 0, statistics.stdev),
        ("less time", 1, statistics.median),
    ):
        better = [measured(ours[index]) < measured(rival[index]) for ours, rival in pairs]
        target(f"{what} at every m (at {sum(better)} of {len(better)})", all(better))


if __name__ == "__main__":
    main()
