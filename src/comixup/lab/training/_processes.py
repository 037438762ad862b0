"""The processes of a run: launch, communication, memory allocation."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from torch import Tensor, nn

from comixup._lightning import delay_kill, set_timeout
from comixup.lab.data import DataSet
from comixup.lab.data._on_disk import DiskSplit
from comixup.lab.training._hardware import Hardware
from comixup.lab.training._stop import TrainingStopped

_STEP = ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "SLURM_STEPID")
"""Set by srun. A job script not started by srun is one process, whatever its number of tasks."""


class Launched(NamedTuple):
    """The processes that a launcher started.

    Attributes:
        launcher: its display name.
        world_size: number of processes on all machines.
        local_size: number of processes on this machine; None if unknown.
    """

    launcher: str
    world_size: int
    local_size: int | None


def launched() -> Launched | None:
    """Returns the processes of this process's launcher; None without a launcher.

    Launchers are detected in the same order as by Lightning Fabric.
    """
    if TorchElasticEnvironment.detect():
        return Launched("torchrun", _count("WORLD_SIZE") or 1, _count("LOCAL_WORLD_SIZE"))
    if any(name in os.environ for name in _STEP) and SLURMEnvironment.detect():
        world, nodes = _count("SLURM_NTASKS") or 1, _count("SLURM_NNODES") or 1
        return Launched("srun", world, _count("SLURM_NTASKS_PER_NODE") or world // nodes)
    if "WORLD_SIZE" in os.environ:  # also Fabric's own child processes
        return Launched("its launcher", _count("WORLD_SIZE") or 1, _count("LOCAL_WORLD_SIZE"))
    return None


def process_counts(devices: int | None, num_nodes: int | None) -> tuple[int, int]:
    """Returns the processes per machine and the machines; None means the launcher's number.

    Without a launcher both are 1. Counts that contradict it raise `ValueError`: each process would
    train alone, or wait for processes that do not exist.
    """
    found = launched()
    if found is None:
        address = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")
        missing = [name for name in address if name not in os.environ]
        if num_nodes is not None and num_nodes > 1 and missing:
            raise ValueError(
                f"`num_nodes` must be 1 without a launcher, got {num_nodes}: machines need a "
                "rendezvous. Start the command with torchrun on each, or set "
                f"{', '.join(missing)}."
            )
        return devices or 1, num_nodes or 1
    world, local = found.world_size, found.local_size
    if num_nodes is None:
        num_nodes = max(1, world // (local or world))
    if devices is None:
        devices = local or max(1, world // num_nodes)
    if devices * num_nodes != world or local not in (None, devices):
        here = "" if local is None else f", {local} of them on this machine"
        raise ValueError(
            f"`devices` times `num_nodes` must be {world}, the number of processes that "
            f"{found.launcher} has started{here}, got {devices} times {num_nodes}. Start as many "
            "on each machine, and leave --devices out."
        )
    return devices, num_nodes


def check_alone(command: str) -> None:
    """Raises `ValueError` if a launcher started several processes of a single-process command."""
    found = launched()
    if found is not None and found.world_size > 1:
        raise ValueError(
            f"`{command}` must be one process, but {found.launcher} has started "
            f"{found.world_size}. Run it without the launcher."
        )


def _count(name: str) -> int | None:
    text = os.environ.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < len("1000000000") and int(text)):
        raise ValueError(
            f"`{name}` must be a positive integer in the environment, where launchers set it, got "
            f"{text[:80]!r}. Unset it, or start the command with torchrun."
        )
    return int(text)


T = TypeVar("T")

_LOST = ("connection", "gloo", "nccl", "peer", "socket", "recv", "broken pipe")
"""Substrings of torch.distributed's errors after another process has exited."""
_LATE = ("timed out", "timeout")
"""Substrings of its errors if another process does not respond."""


def summed(fabric: Fabric, values: Tensor) -> list[float]:
    """Returns the sums of values over all processes."""
    total = fabric.all_reduce(values.clone(), reduce_op="sum")
    numbers: list[float] = torch.as_tensor(total).tolist()
    return numbers


def share_buffers(fabric: Fabric, model: nn.Module) -> None:
    """Broadcasts rank 0's buffers, as every training step does at its start."""
    if fabric.world_size > 1:
        for buffer in model.buffers():
            torch.distributed.broadcast(buffer, src=0)


def from_first_process(fabric: Fabric, make: Callable[[], T]) -> T:
    """Returns rank 0's result in every process; its error is raised in all of them."""
    outcome: tuple[T | None, Exception | None] = (None, None)
    if fabric.is_global_zero:
        try:
            outcome = (make(), None)
        except Exception as error:  # any error: the other processes are waiting
            outcome = (None, error)
    made, failure = fabric.broadcast(outcome)
    if failure is not None:
        raise failure
    return made  # type: ignore[return-value]


def load_once(fabric: Fabric, load: Callable[[], DataSet]) -> DataSet:
    """Returns a run's data in every process, of which the first one alone lists the files.

    The others are handed its list, with the digests. Images that are kept in memory they read
    themselves, after it: from the cache that it has filled, if they are decoded, and mapped, so
    that the processes of a machine share them.
    """
    first: list[DataSet] = []

    def list_files() -> DataSet | None:
        data = load()
        first.append(data)
        if not all(isinstance(split, DiskSplit) for split in data.splits.values()):
            return None
        data.digest()  # of sets whose files are not read it takes a `stat` for each
        return data

    if fabric.world_size == 1:
        return load()
    handed = from_first_process(fabric, list_files)
    return handed or next(iter(first), None) or load()


@contextlib.contextmanager
def explaining_lost_processes(fabric: Fabric, minutes: float) -> Iterator[None]:
    """Converts torch.distributed's errors for lost or stopped processes into clear messages."""
    try:
        yield
    except RuntimeError as error:
        text = str(error).lower()
        if fabric.world_size == 1 or isinstance(error, TrainingStopped):
            raise
        if any(word in text for word in _LATE):
            why = (
                f"Another process of this run has not answered for {minutes:g} minutes "
                "(--timeout-minutes): it is stopped, hangs or is far behind"
            )
        elif any(word in text for word in _LOST):
            why = "Another process of this run has gone"
        else:
            raise
        raise TrainingStopped(
            f"{why}, so process {fabric.global_rank} stops too. The same command resumes from the "
            "last checkpoint."
        ) from error


def launch(hardware: Hardware) -> Fabric:
    """Launches the processes and returns their Fabric; all of them return from this call."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    asked: dict[str, Any] = {
        "accelerator": hardware.accelerator,
        "devices": hardware.devices or 1,
        "num_nodes": hardware.num_nodes or 1,
        "strategy": hardware.strategy,
        "precision": hardware.precision,
    }
    for name, value in asked.items():
        # Lightning Fabric would prefer these variables to its arguments.
        variable = f"LT_{name.upper()}"
        given = os.environ.get(variable, str(value))
        if given != str(value):
            raise ValueError(
                f"`{name}` must be what Lightning Fabric reads from the environment, "
                f"{variable}={given}, got {value!r}. Unset {variable}, or use "
                f"--{name.replace('_', '-')} {given}."
            )
    fabric = Fabric(**asked)
    set_timeout(fabric, hardware.timeout_minutes)
    try:
        fabric.launch()
    except torch.distributed.DistError as error:
        raise TrainingStopped(
            f"Not all of the {fabric.world_size} processes of this run have met within "
            f"{hardware.timeout_minutes:g} minutes ({str(error).splitlines()[0][:200]}). Check "
            "the logs of the other ranks, and start all of them again."
        ) from error
    delay_kill()
    if fabric.device.type == "cpu":
        keep_freed_memory()
    return fabric


# ---- Memory --------------------------------------------------------------------------------------


_MALLOC_SETTINGS = {-3: 2**30, -1: 2**31 - 1, -2: 2**27}
"""Arguments of glibc's `mallopt`: blocks below M_MMAP_THRESHOLD use memory that the process keeps
(M_TRIM_THRESHOLD), which grows by M_TOP_PAD bytes more than needed."""
_OF_THE_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")


def keep_freed_memory() -> bool:
    """Makes this process keep freed memory; returns whether that was possible.

    glibc returns large blocks to the system when freed, and the system clears every page of a new
    block. On a CPU, every training step allocates the same activations: a small network on CIFAR
    spends a quarter of its time on that (`benchmarks/allocator.py`).

    Nothing is changed without glibc, or if the user configured it or another allocator.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _OF_THE_USER):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # musl has no mallopt
        return False
    return all([mallopt(name, value) == 1 for name, value in _MALLOC_SETTINGS.items()])
