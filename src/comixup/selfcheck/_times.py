"""How long a training step takes on a device, by method."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from comixup import CoMixup, CutMix, Mixer, training_step
from comixup.selfcheck._scenes import CLASSES, make_batch, make_mixer, make_network

_BATCH = 100
_WIDTH = 32
_WARM_UP = 2


def step_times(device: torch.device, repeats: int = 5) -> dict[str, float]:
    """Returns the median milliseconds of a step, and of mixing alone, by what is timed.

    A batch of 100 images of 32 x 32 and a network of three convolutions: for a glance at what the
    parts cost, not for a comparison of devices.
    """
    images, targets, maps = (tensor.to(device) for tensor in make_batch(batch=_BATCH))
    model = make_network(width=_WIDTH).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(mixer: Mixer | None) -> Callable[[], None]:
        def run() -> None:
            optimizer.zero_grad()
            loss = training_step(model, mixer, images, targets).loss
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        return run

    alone = make_mixer("CoMixup")
    timed: dict[str, Callable[[], object]] = {
        "step without mixing": step(None),
        "step with CutMix": step(CutMix(CLASSES)),
        "step with CoMixup": step(CoMixup(CLASSES)),
        "step with CoMixup(keep_gradients=False)": step(CoMixup(CLASSES, keep_gradients=False)),
        "CoMixup alone, maps given": lambda: alone(images, targets, maps),
    }
    return {name: _median(call, device, repeats) for name, call in timed.items()}


def _median(call: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Returns the median time of a call in milliseconds, with the device's work done."""
    times = []
    for _ in range(_WARM_UP + repeats):
        _finish(device)
        begin = time.perf_counter()
        call()
        _finish(device)
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times[_WARM_UP:])


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
