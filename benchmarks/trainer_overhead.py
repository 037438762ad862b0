"""The trainer's own share of an epoch: all but forward, backward, mixing and optimizer.

The recipe cifar100-low-data, trained by the trainer itself. The calls that are not its own are
timed within it: `training_step` (forward passes, saliency, mixing), backward passes, and the
optimizer's. Everything else of an epoch is overhead: reading and augmenting images, seeding, sums,
reporting, the checkpoint. Evaluation is left out of both. The first epoch, which draws the first
batch, and the ending, which draws curves, are told apart; medians are of the epochs between.
Needs CIFAR-100 in the folder that COMIXUP_DATA names.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.wrappers import _FabricOptimizer

from comixup.lab.training import RECIPES, Hardware, _trainer, train
from comixup.lab.training._trainer import Trainer
from common import has_images, options, table, target

WANTED = 0.05
METHODS = ("vanilla", "comixup")


class Clock:
    """Adds up the time of the outermost of the calls that it watches."""

    def __init__(self) -> None:
        self.total = 0.0
        self._depth = 0

    def watch(self, owner: Any, name: str) -> None:
        """Puts a timed call in the place of one."""
        call: Callable[..., object] = getattr(owner, name)

        def timed(*arguments: object, **settings: object) -> object:
            self._depth += 1
            begin = time.perf_counter()
            try:
                return call(*arguments, **settings)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.total += time.perf_counter() - begin

        setattr(owner, name, timed)

    def take(self) -> float:
        """Returns the time so far and begins anew."""
        total, self.total = self.total, 0.0
        return total


def watched() -> tuple[Clock, Clock, Clock]:
    """Returns clocks of what is not the trainer's own, of evaluations and of endings."""
    work, evaluation, ending = Clock(), Clock(), Clock()
    work.watch(_trainer, "training_step")
    work.watch(Fabric, "backward")
    work.watch(_FabricOptimizer, "step")
    work.watch(torch.optim.Optimizer, "zero_grad")
    evaluation.watch(Trainer, "_evaluate")
    ending.watch(Trainer, "finish")
    return work, evaluation, ending


def main() -> None:
    arguments = options(__doc__, epochs=6)
    if not has_images():
        sys.exit("COMIXUP_DATA must name a folder with CIFAR-100.")
    work, evaluation, ending = watched()
    epochs: list[tuple[float, float]] = []
    one_epoch = Trainer._epoch

    def timed_epoch(self: Trainer, stop: Any) -> None:
        work.take(), evaluation.take()
        begin = time.perf_counter()
        one_epoch(self, stop)
        epochs.append((time.perf_counter() - begin - evaluation.take(), work.take()))

    Trainer._epoch = timed_epoch  # type: ignore[method-assign]
    rows, worst = [], 0.0
    for method in METHODS:
        epochs.clear()
        with tempfile.TemporaryDirectory() as out:
            recipe = RECIPES["cifar100-low-data"].changed(epochs=arguments.epochs)
            train(recipe, method=method, out=Path(out), hardware=Hardware(accelerator="cpu"))
        shares = [1 - inside / whole for whole, inside in epochs]
        share = statistics.median(shares[1:])
        worst = max(worst, share)
        rows.append(
            [
                method,
                f"{statistics.median(whole for whole, _ in epochs[1:]):.2f}",
                f"{share:.2%}",
                f"{max(shares[1:]):.2%}",
                f"{shares[0]:.2%}",
                f"{ending.take():.2f}",
            ]
        )
    table(
        f"Epochs of 5,000 images, {arguments.epochs} of each method",
        ["", "seconds", "overhead", "worst epoch", "first epoch", "ending, s, once"],
        rows,
    )
    target(f"overhead at most {WANTED:.0%} of an epoch (got {worst:.2%})", worst <= WANTED)


if __name__ == "__main__":
    main()
