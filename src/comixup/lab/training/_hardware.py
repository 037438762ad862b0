"""What a run is trained on, as its options: known without torch."""

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
"""Processes that read images, where nothing else is asked for."""
TIMEOUT_MINUTES = 30.0
"""The longest that a process may keep the others waiting: the first one writes the results alone,
and any may be the one that reads or downloads the data."""
MAX_DEVICES = 16
"""Processes on a machine that has fewer cores and GPUs: more would only fill its memory."""
MAX_NODES = 10_000
MAX_MICRO_BATCHES = 10**6
MAX_MINUTES = 10**5
MAX_STEPS = 10**9
"""From one checkpoint to the next: no epoch has as many."""
_STRATEGIES = ("auto", "ddp")


@dataclass(frozen=True)
class Hardware:
    """What a run is trained on. None of it belongs to the recipe: a run may be resumed elsewhere.

    Attributes:
        accelerator: "auto", "cpu", "cuda" or "mps".
        devices: processes on this machine, each with a device and a share of every batch. None
            means as many as the launcher (torchrun, srun) has started, or one without a launcher.
        num_nodes: machines; None likewise.
        strategy: how processes train together, in Lightning Fabric's words: "auto" or "ddp".
        precision: "32-true", "16-mixed", "bf16-mixed", ... in Lightning Fabric's words.
        accumulate: micro-batches of each process and step, computed one after the other. Each is
            mixed and normalized by itself, like the shares of processes.
        workers: processes that read images, for data sets that stay on the disk.
        sync_batch_norm: compute the statistics of batch norm over the images of all processes, by
            torch.nn.SyncBatchNorm, instead of each over its own; on GPUs. It changes nothing in one
            process.
        timeout_minutes: a process that has waited for another so long, for one that is stopped or
            hangs, ends with an error message. The run resumes from its last checkpoint.
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
        # Sharded strategies divide a network's weights among devices. The networks of the recipes
        # have at most 26 million: each device holds them many times over.
        check_choice("strategy", self.strategy, _STRATEGIES)

    def resolved(self) -> Hardware:
        """Returns this with the processes and machines that the launcher has started."""
        from comixup.lab.training._processes import process_counts  # noqa: PLC0415 - needs torch

        devices, num_nodes = process_counts(self.devices, self.num_nodes)
        return replace(self, devices=devices, num_nodes=num_nodes)

    def launch(self) -> Fabric:
        """Starts the processes and returns their Fabric: from here on all of them run."""
        from comixup.lab.training._processes import launch  # noqa: PLC0415 - needs torch

        return launch(self.resolved())


def check_run_options(
    seeds: Sequence[int],
    hardware: Hardware,
    checkpoint_steps: int | None = None,
    recipe: Recipe | None = None,
) -> None:
    """Raises `ValueError` for what no run can have; see `train`. None leaves the recipe open."""
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
