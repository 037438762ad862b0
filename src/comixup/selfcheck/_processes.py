"""Two processes that train together: on two CUDA devices, or on the CPU."""

from __future__ import annotations

import os
import tempfile
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from comixup import training_step
from comixup.selfcheck._scenes import (
    NotRunError,
    difference,
    expect,
    full_precision,
    gradients,
    make_batch,
    make_mixer,
    make_network,
)

_PROCESSES = 2
_WAIT = timedelta(minutes=2)
_ROUNDING = 1e-3


def two_processes(device: torch.device) -> str:
    """Returns that two processes step by the mean of both their clean and mixed gradients."""
    if device.type == "cuda" and torch.cuda.device_count() < _PROCESSES:
        raise NotRunError("there is one CUDA device")
    if device.type not in ("cpu", "cuda"):
        raise NotRunError(f"not written for {device.type}")
    if not distributed.is_available():
        raise NotRunError("this torch has no torch.distributed")
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder) / "meeting"
        spawn(_work, (device.type, meeting.as_uri()), nprocs=_PROCESSES)  # type: ignore[no-untyped-call]
    backend = "nccl" if device.type == "cuda" else "gloo"
    return f"{_PROCESSES} processes over {backend} step by the mean of their gradients"


def _work(rank: int, kind: str, meeting: str) -> None:
    """Compares, in one process, DistributedDataParallel's gradients with the mean by hand."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    device = torch.device(kind, rank) if kind == "cuda" else torch.device(kind)
    distributed.init_process_group(
        "nccl" if kind == "cuda" else "gloo",
        init_method=meeting,
        world_size=_PROCESSES,
        rank=rank,
        timeout=_WAIT,
    )
    try:
        images, targets, _ = (tensor.to(device) for tensor in make_batch(seed=rank))
        alone, network = make_network().to(device), make_network().to(device)
        together = DistributedDataParallel(network, [rank] if kind == "cuda" else None)
        with full_precision():
            for model in (alone, together):
                step = training_step(model, make_mixer("CoMixup", seed=rank), images, targets)
                step.loss.backward()  # type: ignore[no-untyped-call]
        mean = gradients(alone).to(device) / _PROCESSES
        distributed.all_reduce(mean)
        expect("gradients", difference(gradients(network), mean), _ROUNDING)
    finally:
        distributed.destroy_process_group()
