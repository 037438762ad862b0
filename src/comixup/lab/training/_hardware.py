"""Hardware options of a run; imports no torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from comixup._checks import check_boolean, check_choice, check_count, check_number, check_positive
from comixup.lab._limits import MAX_SEED, MAX_WORKERS
from comixup.lab.training._recipe import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric

WORKERS = min(4, os.cpu_count() or 1)
"""Default number of data loader workers."""
TIMEOUT_MINUTES = 30.0
"""Timeout of collectives: rank 0 alone writes the results, and one process reads or downloads the
data while the others wait."""
MAX_DEVICES = 16
"""Most processes on a machine with fewer cores and GPUs: more would only fill its memory."""
MAX_NODES = 10_000
MAX_MICRO_BATCHES = 10**6
MAX_MINUTES = 10**5
MAX_STEPS = 10**9
"""Largest accepted checkpoint interval in steps: no epoch has as many."""
_STRATEGIES = ("auto", "ddp")


@dataclass(frozen=True)
class Hardware:
    """Hardware options of a run. Not part of the recipe: a run may resume on other hardware.

    Attributes:
        accelerator: "auto", "cpu", "cuda" or "mps".
        devices: processes on this machine, each with a device and a share of every batch. None
            means as many as the launcher (torchrun, srun) started, or one without a launcher.
        num_nodes: number of machines; None as for `devices`.
        strategy: Lightning Fabric's strategy: "auto" or "ddp".
        precision: Lightning Fabric's precision: "32-true", "16-mixed", "bf16-mixed", ...
        accumulate: micro-batches per process and step (gradient accumulation). Each is mixed and
            batch-normalized separately, like the processes' shares.
        workers: data loader workers, for data sets read from disk.
        sync_batch_norm: compute batch-norm statistics over the images of all processes, by
            torch.nn.SyncBatchNorm, instead of over each process's own; GPUs only. No effect in a
            single process.
        timeout_minutes: a process that waits this long for another one ends with an error message.
            The run can resume from its last checkpoint.
    """

    accelerator: str = "auto"
    devices: int | None = None
    num_nodes: int | None = None
    strategy: str = "auto"
    precision: str = "32-true"
    accumulate: int = 1
    workers: int = WORKERS
    sync_batch_norm: bool = False
    timeout_minutes: float = TIMEOUT_MINUTES

    def __post_init__(self) -> None:
        most = max(MAX_DEVICES, os.cpu_count() or 1)
        for name, high in (("devices", most), ("num_nodes", MAX_NODES)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), high=high)
        check_count("accumulate", self.accumulate, high=MAX_MICRO_BATCHES)
        check_count("workers", self.workers, low=0, high=MAX_WORKERS)
        check_boolean("sync_batch_norm", self.sync_batch_norm)
        check_positive("timeout_minutes", self.timeout_minutes)
        check_number("timeout_minutes", self.timeout_minutes, high=MAX_MINUTES)
        # No sharded strategies: the recipes' networks have at most 26 million weights, a fraction
        # of each device's memory.
        check_choice("strategy", self.strategy, _STRATEGIES)

    def resolved(self) -> Hardware:
        """Returns these options with the launcher's numbers of processes and machines."""
        from comixup.lab.training._processes import process_counts  # noqa: PLC0415 - needs torch

        devices, num_nodes = process_counts(self.devices, self.num_nodes)
        return replace(self, devices=devices, num_nodes=num_nodes)

    def launch(self) -> Fabric:
        """Launches the processes and returns their Fabric; all of them return from this call."""
        from comixup.lab.training._processes import launch  # noqa: PLC0415 - needs torch

        return launch(self.resolved())


def check_run_options(
    seeds: Sequence[int],
    hardware: Hardware,
    checkpoint_steps: int | None = None,
    recipe: Recipe | None = None,
) -> None:
    """Raises `ValueError` for invalid options of `train`. None skips checks against a recipe."""
    for seed in seeds:
        check_count("seeds", seed, low=0, high=MAX_SEED)
    if not seeds or len(set(seeds)) < len(seeds):
        given = " ".join(map(str, seeds)) or "none"
        raise ValueError(f"`seeds` must be different integers, one at least, got {given}.")
    if checkpoint_steps is not None:
        check_count("checkpoint_steps", checkpoint_steps, high=MAX_STEPS)
    smallest = min(phase.batch_size for phase in recipe.phases) if recipe else hardware.accumulate
    if hardware.accumulate > smallest:
        raise ValueError(
            f"`accumulate` must be at most the batch size, {smallest}, got {hardware.accumulate}. "
            "A micro-batch has one image at least."
        )
