"""Runs all checks on a device; reports outcomes and times as text to paste into an issue."""

from __future__ import annotations

import math
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias

import torch

import comixup
from comixup import CoMixup, CutMix, Mixer, training_step
from comixup._did_you_mean import did_you_mean
from comixup.selfcheck._checks import (
    CHECKS,
    CLASSES,
    CheckError,
    NotRunError,
    make_batch,
    make_mixer,
    make_network,
)

Status: TypeAlias = Literal["passed", "FAILED", "not run"]
_BATCH, _WIDTH, _WARM_UP = 100, 32, 2
"""Of the timed steps: batch size, width of the network, warm-up steps."""
PLAIN_STEP = "step without mixing"
CUTMIX_STEP = "step with CutMix"
TIMES = "times per step"
"""The name of the measurement, which cannot fail."""


@dataclass(frozen=True)
class Outcome:
    """A check's status, and its measurement or why it failed or was not run."""

    name: str
    status: Status
    detail: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """The outcomes of all checks on a device.

    Attributes:
        machine: lines about versions and the device.
        outcomes: one for each requested check.
        times: milliseconds by name.
        memory: peak MiB by the same names, above the batch, the network and the optimizer; empty
            where nothing counts them.
    """

    machine: Sequence[str]
    outcomes: list[Outcome] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether a check has failed."""
        return any(outcome.status == "FAILED" for outcome in self.outcomes)

    def _costs(self) -> list[str]:
        """Returns a table of times, also relative to two of them, and of peak memory."""
        lines = [
            "costs (batch of 100, 32 x 32, three convolutions):",
            f"  {'':42} {'ms':>8} {'of plain':>9} {'of CutMix':>10} {'peak MiB':>9}",
        ]
        for name, value in self.times.items():
            ratios = [value / self.times.get(base, math.nan) for base in (PLAIN_STEP, CUTMIX_STEP)]
            peak = f"{self.memory[name]:9.1f}" if name in self.memory else f"{'-':>9}"
            lines.append(f"  {name:42} {value:8.2f} {ratios[0]:9.2f} {ratios[1]:10.2f} {peak}")
        if not self.memory:
            lines.append("  peak memory: not measured, CUDA alone counts it")
        return lines

    def text(self) -> str:
        """Returns the report as lines to paste into an issue."""
        lines = [*self.machine, ""]
        for outcome in self.outcomes:
            lines.append(f"{outcome.status:8} {outcome.name:30} {outcome.detail}")
        if self.times:
            lines += ["", *self._costs()]
        counts = [
            f"{sum(outcome.status == status for outcome in self.outcomes)} {status.lower()}"
            for status in ("passed", "FAILED", "not run")
        ]
        seconds = sum(outcome.seconds for outcome in self.outcomes)
        return "\n".join([*lines, "", f"{', '.join(counts)}, in {seconds:.0f} s"])


def check_device(
    device: torch.device,
    only: Sequence[str] = (),
    after: Callable[[int], None] | None = None,
) -> Report:
    """Returns the outcome of the package's own correctness checks on a device.

    Args:
        device: any that torch can compute on.
        only: names of checks to run, from `CHECKS` or "times per step"; empty means all.
        after: called after each check with the number of checks done.

    >>> report = check_device(torch.device("cpu"), only=["channels_last"])
    >>> report.failed, [outcome.status for outcome in report.outcomes]
    (False, ['passed'])
    """
    known = [*CHECKS, TIMES]
    for name in only:
        if name not in known:
            raise ValueError(
                f"`only` must name checks, {', '.join(map(repr, known))}, got {name!r}."
                f"{did_you_mean(name, known)}"
            )
    names = [name for name in known if name in (only or known)]
    report = Report(describe_machine(device))
    for done, name in enumerate(names, start=1):
        if name == TIMES:
            report.times.update(step_times(device))
            report.memory.update(peak_memory(device))
        else:
            report.outcomes.append(run_check(name, device))
        if after is not None:
            after(done)
    return report


def run_check(name: str, device: torch.device) -> Outcome:
    """Returns the result of a check; any exception is a failure."""
    begin = time.perf_counter()
    status: Status = "passed"
    try:
        detail = CHECKS[name](device)
    except NotRunError as why:
        status, detail = "not run", str(why)
    except CheckError as why:
        status, detail = "FAILED", str(why)
    except Exception as error:
        status, detail = "FAILED", f"{type(error).__name__}: {error}"
    return Outcome(name, status, detail, time.perf_counter() - begin)


def describe_machine(device: torch.device) -> list[str]:
    """Returns lines about this package, torch, Python and the device."""
    day = datetime.now(timezone.utc).date()
    lines = [
        f"comixup check, {day}",
        f"comixup {comixup.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}, {platform.platform()}",
    ]
    if device.type == "cuda":
        cudnn: Any = torch.backends.cudnn
        found = torch.cuda.get_device_properties(device)
        lines.append(
            f"device {device}: {found.name}, {found.total_memory / 2**30:.0f} GiB, compute "
            f"capability {found.major}.{found.minor}, CUDA {torch.version.cuda}, "
            f"cuDNN {cudnn.version()}, {torch.cuda.device_count()} device(s)"
        )
    else:
        lines.append(f"device {device}: {torch.get_num_threads()} thread(s), {platform.machine()}")
    return lines


def step_times(device: torch.device, repeats: int = 5) -> dict[str, float]:
    """Returns the median milliseconds of a step, and of mixing alone, by name.

    For a batch of 100 images of 32 x 32 and a network of three convolutions: a breakdown, no
    benchmark.
    """
    calls = _measured_calls(device)
    return {name: _median(call, device, repeats) for name, call in calls.items()}


def peak_memory(device: torch.device) -> dict[str, float]:
    """Returns the peak MiB of the same calls above what stays allocated; nothing but on CUDA."""
    peaks: dict[str, float] = {}
    if device.type == "cuda":
        for name, call in _measured_calls(device).items():
            call()  # the first allocates what stays
            _finish(device)
            before = torch.cuda.memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)
            call()
            _finish(device)
            peaks[name] = (torch.cuda.max_memory_allocated(device) - before) / 2**20
    return peaks


def _measured_calls(device: torch.device) -> dict[str, Callable[[], object]]:
    """Returns training steps, and what Co-Mixup does outside the network."""
    images, targets, maps = make_batch(device, batch=_BATCH)
    model = make_network(device, width=_WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(mixer: Mixer | None) -> Callable[[], None]:
        def run() -> None:
            optimizer.zero_grad()
            loss = training_step(model, mixer, images, targets).loss
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        return run

    alone = make_mixer("CoMixup")
    return {
        PLAIN_STEP: step(None),
        CUTMIX_STEP: step(CutMix(CLASSES)),
        "step with CoMixup": step(CoMixup(CLASSES)),
        "step with CoMixup(keep_gradients=False)": step(CoMixup(CLASSES, keep_gradients=False)),
        "CoMixup outside the network": lambda: alone(images, targets, maps),
    }


def _median(call: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Returns the median time of a call in milliseconds, device synchronized."""
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
