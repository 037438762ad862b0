"""What the processes of a run tell each other: sums, buffers, and what the first one decides."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from comixup.lab.training._stop import TrainingStopped

T = TypeVar("T")

_LOST = ("connection", "gloo", "nccl", "peer", "socket", "recv", "broken pipe")
"""Words in the errors of torch.distributed when another process has exited."""
_LATE = ("timed out", "timeout")
"""The same when another process does not respond."""


def summed(fabric: Fabric, values: Tensor) -> list[float]:
    """Returns the sums of values over all processes."""
    total = fabric.all_reduce(values.clone(), reduce_op="sum")
    numbers: list[float] = torch.as_tensor(total).tolist()
    return numbers


def share_buffers(fabric: Fabric, model: nn.Module) -> None:
    """Gives all processes the first one's buffers, as every training step does at its start."""
    if fabric.world_size > 1:
        for buffer in model.buffers():
            torch.distributed.broadcast(buffer, src=0)


def from_first_process(fabric: Fabric, make: Callable[[], T]) -> T:
    """Returns in every process what the first one makes; its error is raised in all of them."""
    outcome: tuple[T | None, Exception | None] = (None, None)
    if fabric.is_global_zero:
        try:
            outcome = (make(), None)
        except Exception as error:  # whatever it is, the other processes are waiting
            outcome = (None, error)
    made, failure = fabric.broadcast(outcome)
    if failure is not None:
        raise failure
    return made  # type: ignore[return-value]


@contextlib.contextmanager
def explaining_lost_processes(fabric: Fabric, minutes: float) -> Iterator[None]:
    """Turns the errors of torch.distributed for lost or stopped processes into error messages.

    Args:
        fabric: of the processes.
        minutes: how long they wait for each other.
    """
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
