"""How many processes a launcher such as torchrun or srun has started, as it tells them."""

from __future__ import annotations

import os
from typing import NamedTuple

from lightning_fabric.plugins.environments.lsf import LSFEnvironment
from lightning_fabric.plugins.environments.mpi import MPIEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment

_STEP = ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "SLURM_STEPID")
"""Set by srun. A job's script that srun did not start is one process, however many tasks it has."""
_FABRIC = ("ACCELERATOR", "STRATEGY", "DEVICES", "NUM_NODES", "PRECISION")
"""What Lightning Fabric would read from variables LT_..., whatever its caller asks for."""


class Launched(NamedTuple):
    """What a launcher has started.

    Attributes:
        launcher: its name, for people.
        world_size: processes on all machines.
        local_size: processes on this machine; None if it does not tell.
    """

    launcher: str
    world_size: int
    local_size: int | None


def launched() -> Launched | None:
    """Returns what the launcher of this process has started; None if there was none.

    In the order in which Lightning Fabric looks for launchers.
    """
    if TorchElasticEnvironment.detect():
        return Launched("torchrun", _count("WORLD_SIZE") or 1, _count("LOCAL_WORLD_SIZE"))
    if any(name in os.environ for name in _STEP) and SLURMEnvironment.detect():
        world, nodes = _count("SLURM_NTASKS") or 1, _count("SLURM_NNODES") or 1
        return Launched("srun", world, _count("SLURM_NTASKS_PER_NODE") or world // nodes)
    for name, environment in (("jsrun", LSFEnvironment), ("mpirun", MPIEnvironment)):
        if environment.detect():
            return Launched(name, environment().world_size(), None)
    if "WORLD_SIZE" in os.environ:  # Fabric's own children, too
        return Launched("its launcher", _count("WORLD_SIZE") or 1, _count("LOCAL_WORLD_SIZE"))
    return None


def process_counts(devices: int | None, num_nodes: int | None) -> tuple[int, int]:
    """Returns the processes per machine and the machines; what is None follows the launcher.

    Without a launcher both are 1. Counts that contradict it raise `ValueError`: each process would
    train alone, or wait for others that do not exist.
    """
    found = launched()
    if found is None:
        counts = devices or 1, num_nodes or 1
        _check_meeting_point(counts[1])
        return counts
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
    """Raises `ValueError` if a launcher has started several processes of a command for one."""
    found = launched()
    if found is not None and found.world_size > 1:
        raise ValueError(
            f"`{command}` must be one process, but {found.launcher} has started "
            f"{found.world_size}. Run it without."
        )


def check_fabric_variables(**wanted: object) -> None:
    """Raises `ValueError` if the environment would make Lightning Fabric do something else.

    Args:
        **wanted: what Fabric is asked for, by the names of its arguments.
    """
    for name in _FABRIC:
        given = os.environ.get(f"LT_{name}")
        asked = wanted[name.lower()]
        if given is not None and given != str(asked):
            raise ValueError(
                f"`{name.lower()}` must be what Lightning Fabric reads from the environment, "
                f"LT_{name}={given}, got {asked!r}. Unset LT_{name}, or use "
                f"--{name.lower().replace('_', '-')} {given}."
            )


def _check_meeting_point(num_nodes: int) -> None:
    """Raises `ValueError` if several machines have no way to find each other."""
    missing = [
        name for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK") if name not in os.environ
    ]
    if num_nodes > 1 and missing:
        raise ValueError(
            f"`num_nodes` must be 1 without a launcher, got {num_nodes}: how do the machines find "
            f"each other? Start the command with torchrun on each, or set {', '.join(missing)}."
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
