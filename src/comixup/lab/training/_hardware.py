"""What a run is trained on: devices, processes, precision; memory that is kept on CPUs."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from dataclasses import dataclass

import torch
from lightning_fabric import Fabric

from comixup._checks import check_choice, check_count, check_number, check_positive
from comixup._lightning import delay_kill, set_timeout
from comixup.lab.training._defaults import TIMEOUT_MINUTES, WORKERS
from comixup.lab.training._launcher import check_fabric_variables, process_counts
from comixup.lab.training._stop import TrainingStopped

MAX_DEVICES = 16
"""Processes on a machine that has fewer cores and GPUs: more would only fill its memory."""
MAX_NODES = 10_000
MAX_MICRO_BATCHES = 10**6
MAX_WORKERS = 1024
"""Most processes that read images."""
MAX_MINUTES = 10**5
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
            mixed and normalised by itself, like the shares of processes.
        workers: processes that read images, for data sets that stay on the disk.
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
    timeout_minutes: float = TIMEOUT_MINUTES

    def __post_init__(self) -> None:
        most = max(MAX_DEVICES, os.cpu_count() or 1, torch.cuda.device_count())
        for name, high in (("devices", most), ("num_nodes", MAX_NODES)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), high=high)
        check_count("accumulate", self.accumulate, high=MAX_MICRO_BATCHES)
        check_count("workers", self.workers, low=0, high=MAX_WORKERS)
        check_positive("timeout_minutes", self.timeout_minutes)
        check_number("timeout_minutes", self.timeout_minutes, high=MAX_MINUTES)
        # Sharded strategies divide a network's weights among devices. The networks of the recipes
        # have at most 26 million: each device holds them many times over.
        check_choice("strategy", self.strategy, _STRATEGIES)
        devices, num_nodes = process_counts(self.devices, self.num_nodes)
        object.__setattr__(self, "devices", devices)
        object.__setattr__(self, "num_nodes", num_nodes)

    def launch(self) -> Fabric:
        """Starts the processes and returns their Fabric: from here on all of them run."""
        logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
        devices, num_nodes = self.devices or 1, self.num_nodes or 1
        check_fabric_variables(
            accelerator=self.accelerator,
            devices=devices,
            num_nodes=num_nodes,
            strategy=self.strategy,
            precision=self.precision,
        )
        fabric = Fabric(
            accelerator=self.accelerator,
            devices=devices,
            num_nodes=num_nodes,
            strategy=self.strategy,
            precision=self.precision,  # type: ignore[arg-type]  # Fabric rejects other words
        )
        set_timeout(fabric, self.timeout_minutes)
        try:
            fabric.launch()
        except torch.distributed.DistError as error:
            raise TrainingStopped(
                f"Not all of the {fabric.world_size} processes of this run have met within "
                f"{self.timeout_minutes:g} minutes ({str(error).splitlines()[0][:200]}). Look what "
                "became of the others, and start all of them again."
            ) from error
        delay_kill()
        if fabric.device.type == "cpu":
            keep_freed_memory()
        return fabric


# ---- Memory --------------------------------------------------------------------------------------


_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
"""Parameters of glibc's `mallopt`."""
_NEVER = 2**31 - 1
_LARGE_BLOCK = 2**30
"""Blocks below this are taken from memory that stays with the process."""
_TOP_PAD = 2**27
"""Bytes that are asked for beyond what is needed."""
_OF_THE_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")


def keep_freed_memory() -> bool:
    """Lets this process keep memory that it has freed; returns whether that was possible.

    glibc gives large blocks back as soon as they are freed, and every page of a new block has to be
    cleared by the system before its first use. A training step on a CPU allocates the same
    activations as the one before: a small network on CIFAR spends a quarter of its time on that
    (`benchmarks/allocator.py`).

    Where the C library is not glibc, or the user has chosen its settings or another allocator,
    nothing is changed.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _OF_THE_USER):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # musl has none
        return False
    settings = {
        _M_MMAP_THRESHOLD: _LARGE_BLOCK,
        _M_TRIM_THRESHOLD: _NEVER,
        _M_TOP_PAD: _TOP_PAD,
    }
    return all([mallopt(name, value) == 1 for name, value in settings.items()])
