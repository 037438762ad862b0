"""The checks: each returns what it measured, or raises `CheckError` or `NotRunError`.

Before them their helpers: a batch, a network, the methods, comparison of numbers.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from comixup import (
    CoMixup,
    CutMix,
    InputMixup,
    Mixer,
    OnePass,
    Origin,
    PuzzleMix,
    SaliencyMemory,
    saliency,
    training_step,
)

CLASSES = 10
BATCH = 24
SIZE = (32, 32)
_LEVELS = 256
"""Pixels and saliency are whole multiples of 1/256: sums are then exact in any order."""
_ROUNDING = 1e-6
_DEVICES_DIFFER = 1e-3
"""Tolerance for convolutions, which sum in a different order on each device."""
_A_BYTE = 1.5 / 255
"""Tolerance for maps in bytes: different rounding may change a value by one step."""
_HALF = {torch.float16: 2e-3, torch.bfloat16: 2e-2}
_AMP = 5e-2
"""Tolerance for half-precision gradients with and without loss scaling."""
_TRANSFERS = {"CoMixup": 1, "PuzzleMix": 2, "CutMix": 0, "InputMixup": 0}
"""Device-to-host copies per batch: the pooled maps, and Puzzle Mix's color differences."""
_PROCESSES, _BACKENDS = 2, {"cpu": "gloo", "cuda": "nccl"}
_WAIT = timedelta(minutes=2)
_SUMMED = 1e-3
"""Tolerance for gradients of two processes, summed in a different order."""


class CheckError(Exception):
    """A check measured wrong numbers."""


class NotRunError(Exception):
    """A check cannot run on this device or machine, for the reason in the message."""


MIXERS: dict[str, Callable[..., Mixer]] = {
    "CoMixup": CoMixup,
    "PuzzleMix": functools.partial(PuzzleMix, std=(1.0,)),
    "CutMix": CutMix,
    "InputMixup": InputMixup,
}


def make_mixer(name: str, seed: int = 0) -> Mixer:
    """Returns a mixer with its own generator."""
    return MIXERS[name](CLASSES, generator=torch.Generator().manual_seed(seed))


def make_batch(
    device: torch.device | str, seed: int = 0, batch: int = BATCH
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns images, class indices and saliency maps."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(_LEVELS, (batch, 3, *SIZE), generator=generator) / _LEVELS
    targets = torch.randint(CLASSES, (batch,), generator=generator)
    # Peaked, and not constant.
    maps = torch.randint(16, (batch, *SIZE), generator=generator) ** 2 / _LEVELS
    return images.to(device), targets.to(device), maps.to(device)


def make_network(device: torch.device | str, width: int = 16) -> nn.Sequential:
    """Returns a small classifier with the same random weights each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(
            *(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, CLASSES)),
        ).to(device)


def gradients(model: nn.Module) -> Tensor:
    """Returns all gradients of a model as one vector in host memory, float32."""
    found = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
    return torch.cat(found).float().cpu()


def step_gradients(model: Any, images: Tensor, targets: Tensor, seed: int = 0) -> Tensor:
    """Returns the gradients of a training step with Co-Mixup, in full precision."""
    with full_precision():
        step = training_step(model, make_mixer("CoMixup", seed), images, targets)
        step.loss.backward()  # type: ignore[no-untyped-call]
    return gradients(model)


def expect(what: str, found: Tensor, expected: Tensor, limit: float) -> float:
    """Returns the largest difference, relative to the largest expected value, if within a limit.

    Raises `CheckError` for a larger difference, NaN, or another shape.

    >>> expect("images", torch.ones(2), torch.ones(2), limit=0.0)
    0.0
    """
    found, expected = found.detach().cpu().double(), expected.detach().cpu().double()
    if found.shape != expected.shape:
        raise CheckError(
            f"the shape of {what} is {tuple(found.shape)}, not {tuple(expected.shape)}"
        )
    largest = float(expected.abs().max().clamp(min=torch.finfo(torch.float64).tiny))
    value = float((found - expected).abs().max()) / largest
    if not value <= limit:
        raise CheckError(f"{what} differ by {value:.2g}, more than {limit:.2g}")
    return value


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """Disables TF32, which CUDA uses by default for convolutions."""
    switches: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [switch.allow_tf32 for switch in switches]
    try:
        for switch in switches:
            switch.allow_tf32 = False
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.allow_tf32 = value


def mixing(device: torch.device) -> str:
    """Returns the largest difference of mixed images, masks and targets from the CPU's.

    Images in half precision are compared with the CPU's in float32.
    """
    images, targets, maps = make_batch("cpu")
    masks = (images[:, 0] * 20).long()
    worst = dict.fromkeys((torch.float32, *_HALF), 0.0)
    for name in MIXERS:
        on_host, there = make_mixer(name), make_mixer(name)
        expected = on_host(images, targets, maps)
        found = there(images.to(device), targets.to(device), maps.to(device))
        for what, one, other in zip(("images", "targets"), found, expected, strict=True):
            change = expect(f"{name}'s {what}", one, other, _ROUNDING)
            worst[torch.float32] = max(worst[torch.float32], change)
        mixed = there.last.plan.mix_masks(masks.to(device))
        expect(f"{name}'s masks", mixed, on_host.last.plan.mix_masks(masks), 0.0)
        for dtype, limit in _HALF.items():
            half = there.last.plan.mix_images(images.to(device, dtype))
            change = expect(f"{name}'s images in {dtype}", half, expected[0], limit)
            worst[dtype] = max(worst[dtype], change)
    limits = ", ".join(f"{value:.1g} in {_name_of(dtype)}" for dtype, value in worst.items())
    return f"{len(MIXERS)} methods differ by at most {limits}"


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def gradient_saliency(device: torch.device) -> str:
    """Returns the differences of gradient saliency and of the kept clean gradient."""
    host, there = make_network("cpu"), make_network(device)
    with full_precision():
        expected = saliency(host, *make_batch("cpu")[:2])
        found = saliency(there, *make_batch(device)[:2])
    maps = expect("saliency maps", found, expected, _DEVICES_DIFFER)
    kept = expect("kept gradients", gradients(there), gradients(host), _DEVICES_DIFFER)
    return f"maps differ by {maps:.1g}, kept gradients by {kept:.1g}"


def remembered_saliency(device: torch.device) -> str:
    """Returns the difference of one-pass mixing's remembered maps, on host and device."""
    with full_precision():
        expected = _remembered("cpu", "cpu")
        # Frameworks move indices to the device with the batch, but not the maps.
        found = [_remembered(device, kept) for kept in ("cpu", device)]
    worst = max(expect("maps", maps, expected, _A_BYTE) for maps in found)
    return f"maps kept on the host and on the device differ by {worst:.1g}"


def _remembered(device: torch.device | str, kept: torch.device | str) -> Tensor:
    """Returns the maps after an epoch of a clean batch and a mixed one."""
    model, (images, targets, _) = make_network(device), make_batch(device)
    memory = SaliencyMemory(len(images), device=kept)
    mixer = OnePass(make_mixer("CoMixup"), memory)
    origin = Origin(torch.arange(len(images)).flip(0).to(device))
    for _ in range(2):
        step = training_step(model, mixer, images, targets, origin=origin)
        step.loss.backward()  # type: ignore[no-untyped-call]
    mixer.end_epoch()
    return memory.read(origin, images.shape[2:])


def synchronization(device: torch.device) -> str:
    """Returns the number of host synchronizations in a call of each method."""
    if device.type != "cuda":
        raise NotRunError("CUDA alone reports when the host waits")
    images, targets, maps = make_batch(device)
    counts = {}
    for name, allowed in _TRANSFERS.items():
        mixer = make_mixer(name)
        mixer(images, targets, maps)  # warm-up
        counts[name] = _waits(functools.partial(mixer, images, targets, maps))
        if counts[name] > allowed:
            raise CheckError(f"{name} waits {counts[name]} times in a batch, not {allowed}")
    return ", ".join(f"{name} {count}" for name, count in counts.items()) + " per batch"


def _waits(call: Callable[[], object]) -> int:
    """Returns the number of synchronizing operations that CUDA warns about in a call."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    return sum("synchroniz" in str(warning.message) for warning in caught)


def mixed_precision(device: torch.device) -> str:
    """Returns the difference of a step's gradients with and without a GradScaler."""
    if device.type not in ("cpu", "cuda"):
        raise NotRunError(f"torch has no GradScaler for {device.type}")
    dtype = torch.float16 if device.type == "cuda" else torch.bfloat16
    images, targets, _ = make_batch(device)
    scaled = make_network(device)
    plain = step_gradients(make_network(device), images, targets)
    scaler = torch.amp.GradScaler(device.type, init_scale=2.0**10)
    optimizer = torch.optim.SGD(scaled.parameters(), lr=0.1)

    def backward(loss: Tensor) -> None:
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    # Use the same plan: half-precision saliency might lead to another.
    mixer = make_mixer("CoMixup")
    with torch.autocast(device.type, dtype):
        saliency(scaled, images, targets, backward=backward)
        with full_precision(), torch.autocast(device.type, enabled=False):
            maps = saliency(make_network(device), images, targets)
        mixed, soft = mixer(images, targets, maps)
        loss = torch.nn.functional.cross_entropy(scaled(mixed), soft)
    backward(loss)
    scaler.unscale_(optimizer)
    change = expect("gradients", gradients(scaled), plain, _AMP)
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() < 2.0**10:
        raise CheckError("the step was skipped: gradients were infinite or NaN")
    return f"{_name_of(dtype)} with a GradScaler: gradients differ by {change:.1g} from float32's"


def channels_last(device: torch.device) -> str:
    """Checks that mixing keeps channels_last, with the same results as without."""
    images, targets, maps = make_batch(device)
    for name in MIXERS:
        last = images.contiguous(memory_format=torch.channels_last)
        expected, _ = make_mixer(name)(images, targets, maps)
        found, _ = make_mixer(name)(last, targets, maps)
        expect(f"{name}'s images", found, expected, _ROUNDING)
        if not found.is_contiguous(memory_format=torch.channels_last):
            raise CheckError(f"{name} returns another memory format than it was given")
    return "kept, with the same numbers"


def compiled(device: torch.device) -> str:
    """Returns the difference of a compiled network's step from the eager one's."""
    images, targets, _ = make_batch(device)
    network = make_network(device)
    from torch._dynamo.utils import counters  # noqa: PLC0415 - takes a second

    try:
        torch.compile(copy.deepcopy(network))(images)
    except Exception as error:  # a broken compiler is no failure of this package
        reason = str(error).strip().split("\n", 1)[0][:100]
        raise NotRunError(f"torch.compile fails on a plain network here: {reason}") from None
    eager = step_gradients(make_network(device), images, targets)
    counters.clear()
    there = step_gradients(torch.compile(network), images, targets)
    graphs, breaks = counters["stats"]["unique_graphs"], counters["graph_break"]
    found = expect("gradients", there, eager, _DEVICES_DIFFER)
    return (
        f"gradients of a step differ by {found:.1g}; {graphs} graph(s) for the clean and the mixed "
        f"pass, {sum(breaks.values())} graph break(s)"
        + "".join(f": {reason}" for reason in list(breaks)[:1])
    )


def two_processes(device: torch.device) -> str:
    """Checks that two processes step by the mean of their clean and mixed gradients."""
    if device.type == "cuda" and torch.cuda.device_count() < _PROCESSES:
        raise NotRunError("there is one CUDA device")
    if device.type not in _BACKENDS:
        raise NotRunError(f"not written for {device.type}")
    if not distributed.is_available():
        raise NotRunError("this torch has no torch.distributed")
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder) / "meeting"
        spawn(_work, (device.type, meeting.as_uri()), nprocs=_PROCESSES)  # type: ignore[no-untyped-call]
    return (
        f"{_PROCESSES} processes over {_BACKENDS[device.type]} step by the mean of their gradients"
    )


def _work(rank: int, kind: str, meeting: str) -> None:
    """Compares, in one process, DistributedDataParallel's gradients with their mean."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    device = torch.device(kind, rank) if kind == "cuda" else torch.device(kind)
    distributed.init_process_group(
        _BACKENDS[kind],
        init_method=meeting,
        world_size=_PROCESSES,
        rank=rank,
        timeout=_WAIT,
    )
    try:
        images, targets, _ = make_batch(device, seed=rank)
        mean = step_gradients(make_network(device), images, targets, rank).to(device) / _PROCESSES
        distributed.all_reduce(mean)
        devices = [rank] if kind == "cuda" else None
        together = DistributedDataParallel(make_network(device), devices)
        expect("gradients", step_gradients(together, images, targets, rank), mean, _SUMMED)
    finally:
        distributed.destroy_process_group()


CHECKS: dict[str, Callable[[torch.device], str]] = {
    "mixing equals the CPU's": mixing,
    "saliency equals the CPU's": gradient_saliency,
    "one-pass maps equal the CPU's": remembered_saliency,
    "no hidden synchronization": synchronization,
    "mixed precision": mixed_precision,
    "channels_last": channels_last,
    "torch.compile": compiled,
    "two processes": two_processes,
}
"""What `comixup check` runs, by name, in this order."""
