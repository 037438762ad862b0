"""Saliency maps remembered across epochs, for mixing without an extra pass."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from comixup import _native
from comixup._checks import SetOnce, check_count, check_number, warn_caller
from comixup.core.grid import MAX_DIMENSIONS, cell_numbers
from comixup.core.maps import check_grid
from comixup.core.saliency import channel_norm
from comixup.core.tensors import floating, thread_count, to_device

TOP = 255
"""The largest value of a map; a map of zeros has not been written yet."""

MAX_CELLS = 254
"""Most cells of a map: their numbers, from 1, and 0 for none have to fit into a byte."""


class Origin(NamedTuple):
    """Which examples, and which of their cells, the images of a batch show.

    Attributes:
        indices: (m,) integers: which example of the data set each image shows.
        cells: (m, *size) integers: which cell of that example each pixel shows, numbered from 1 in
            row-major order as in `SaliencyMemory.cell_numbers`; 0 where it shows none of them
            (padding). None if the images are not cropped, flipped, rotated or otherwise moved.
    """

    indices: Tensor
    cells: Tensor | None = None


class SaliencyMemory(SetOnce):
    """The last saliency map of every example of a data set, a few dozen bytes each.

    Maps are read as of the start of the epoch; writes take effect at `end_epoch`. So results do not
    depend on the order, the number of workers or the device that an epoch's batches are read and
    written by.

    Memory follows augmentation by *cell numbers*: the same geometric transforms are applied to a
    picture of the numbers of an example's cells as to its pixels (see `Origin`).

    Args:
        num_examples: number of examples in the data set.
        cells: cells per side of a map, or a number for each side.
        dimensions: spatial dimensions of the images, if `cells` is a single number.
        momentum: weight of an example's previous map when a new one is written; 0 replaces it.
        device: device of the maps, which take two bytes per cell and example.

    Attributes:
        skipped: how many maps were not written because they were zero, NaN or infinite, as a tensor
            on the device; the previous map is kept. Images that show nothing of their example (all
            cell numbers 0) write no map either, and are not counted.

    >>> memory = SaliencyMemory(num_examples=1000)
    >>> origin = Origin(torch.tensor([3, 5]))
    >>> memory.write(origin, torch.rand(2, 32, 32))
    >>> memory.end_epoch()
    >>> memory.read(origin, size=(32, 32)).shape
    torch.Size([2, 32, 32])
    """

    def __init__(
        self,
        num_examples: int,
        *,
        cells: int | Sequence[int] = 8,
        dimensions: int = 2,
        momentum: float = 0.0,
        device: torch.device | str = "cpu",
    ) -> None:
        check_count("num_examples", num_examples)
        check_count("dimensions", dimensions, high=MAX_DIMENSIONS)
        check_grid(cells)
        self.num_examples, self.cells, self.dimensions = num_examples, cells, dimensions
        self.grid = tuple(cells) if isinstance(cells, Iterable) else (cells,) * dimensions
        if math.prod(self.grid) > MAX_CELLS:
            raise ValueError(
                f"`cells` must give a map of at most {MAX_CELLS} cells, got {self.grid}. A few "
                "dozen are enough: mixing reads a coarser grid."
            )
        self.momentum = momentum
        shape = (num_examples, math.prod(self.grid))
        self._maps = torch.zeros(shape, dtype=torch.uint8, device=device)
        self._next = torch.zeros(shape, dtype=torch.uint8, device=device)
        self._epoch = torch.zeros((), dtype=torch.int64, device="cpu")
        self.skipped = torch.zeros((), dtype=torch.int64, device=device)

    def __repr__(self) -> str:
        return (
            f"SaliencyMemory({len(self)}, cells={self.grid}, momentum={self.momentum}, "
            f"device={str(self.device)!r})"
        )

    def __len__(self) -> int:
        return len(self._maps)

    @property
    def momentum(self) -> float:
        """The weight of an example's previous map when a new one is written."""
        return self._momentum

    @momentum.setter
    def momentum(self, value: float) -> None:
        check_number("momentum", value, high=1)
        self._momentum = value

    @property
    def device(self) -> torch.device:
        """The device of the maps."""
        return self._maps.device

    @property
    def epoch(self) -> int:
        """The number of calls of `end_epoch`."""
        return int(self._epoch)

    @property
    def written(self) -> bool:
        """Whether a map was written since the last `end_epoch`, in this process."""
        return bool(self._next.any())

    @property
    def nbytes(self) -> int:
        """The size of both buffers in bytes."""
        return self._maps.nbytes + self._next.nbytes

    @property
    def num_cells(self) -> int:
        """The number of cells of a map."""
        return self._maps.shape[1]

    def known(self, indices: Tensor) -> Tensor:
        """Returns which examples have a map, (m,) booleans."""
        return self._maps[self._rows(indices)].amax(1) > 0

    def cell_numbers(self, size: Sequence[int]) -> Tensor:
        """Returns the number of the cell that each pixel of an example lies in, (*size) uint8.

        Apply the same geometric transforms to it as to the pixels, with nearest-neighbor
        interpolation and a fill of 0: the defaults of v2 transforms for a `tv_tensors.Mask`.

        >>> SaliencyMemory(1, cells=2).cell_numbers((2, 4)).tolist()
        [[1, 1, 2, 2], [3, 3, 4, 4]]
        """
        if len(size) != len(self.grid):
            raise ValueError(
                f"`size` must have {len(self.grid)} sides, as the memory's cells {self.grid} have, "
                f"got {tuple(size)}."
            )
        return cell_numbers(size, self.grid, self._maps.device).to(torch.uint8)

    def read(self, origin: Origin | Tensor, size: Sequence[int] | None = None) -> Tensor:
        """Returns a saliency map for each image of a batch, (m, *size) float32.

        An example without a map yet is uniformly salient; padding has a saliency of 0.

        Args:
            origin: where the images come from; indices alone if they were not cropped or flipped.
            size: size of the images; required if `origin` has no cell numbers.
        """
        rows, numbers = self._locate(origin, size)
        if self._maps.device.type != "cpu" or not numbers.numel():
            return looked_up(self._maps.index_select(0, rows), numbers)
        saliency = torch.empty(numbers.shape, dtype=torch.float32, device="cpu")
        _native.read_maps(
            self._maps, rows.contiguous(), _as_bytes(numbers), saliency.view(len(rows), -1)
        )
        return saliency

    def write(self, origin: Origin | Tensor, saliency: Tensor) -> None:
        """Writes new maps of a batch's examples, readable from the next epoch.

        Only ratios within a map matter, not its scale. Cells that an image does not show keep their
        value relative to the others. An example written several times in an epoch keeps the larger
        value of each cell, so that the order does not matter.

        Args:
            origin: where the images come from; indices alone if they were not cropped or flipped.
            saliency: (m, *size), not negative, a map for each image.
        """
        if not isinstance(saliency, Tensor) or saliency.ndim != 1 + len(self.grid):
            got = tuple(saliency.shape) if isinstance(saliency, Tensor) else type(saliency).__name__
            raise ValueError(
                f"`saliency` must have shape (m, *size) with {len(self.grid)} spatial dimensions, "
                f"got {got}."
            )
        saliency = floating("saliency", saliency)
        rows, numbers = self._locate(origin, saliency.shape[1:])
        _check_pixels("saliency", numbers, saliency.shape)
        self.write_cells(rows, *cell_means(numbers, saliency, self.num_cells))

    def write_gradient(self, origin: Origin | Tensor, gradient: Tensor) -> None:
        """Writes new maps of a batch's examples: the channel norm of the images' gradient.

        The kernel reads gradients in host memory once; others are written by `write`.

        Args:
            origin: where the images come from; indices alone if they were not cropped or flipped.
            gradient: (m, C, *size) of a loss with respect to the images.
        """
        if gradient.ndim != 2 + len(self.grid):
            raise ValueError(
                f"`gradient` must have shape (m, C, *size) with {len(self.grid)} spatial "
                f"dimensions, got {tuple(gradient.shape)}."
            )
        if gradient.is_complex():
            raise TypeError(f"`gradient` must hold real numbers, got {gradient.dtype}.")
        layout = pixel_layout(gradient)
        if layout is None or self.device.type != "cpu":
            self.write(origin, channel_norm(gradient))
            return
        rows, numbers = self._locate(origin, gradient.shape[2:])
        _check_pixels("gradient", numbers, (len(gradient), *gradient.shape[2:]))
        skipped = _native.write_maps(
            layout[0],
            _as_bytes(numbers),
            layout[1],
            rows.contiguous(),
            self._maps,
            self.momentum,
            thread_count(None),
            self._next,
        )
        self.skipped.add_(skipped)

    def write_cells(self, rows: Tensor, means: Tensor, shown: Tensor) -> None:
        """Writes new values for some cells of examples.

        Args:
            rows: (m,) the examples' indices.
            means: (m, cells) values, on one scale.
            shown: (m, cells) which of them are known.
        """
        rows = self._rows(rows)
        seen = to_device(self._maps.index_select(0, rows), means.device)
        maps, usable = joined(means, shown, seen.float(), self.momentum)
        self.skipped.add_((~usable).sum().to(self.device))
        index = rows.unsqueeze(1).expand(-1, self._next.shape[1])
        self._next.scatter_reduce_(0, index, maps.to(self.device), "amax")

    def merge(self) -> None:
        """Merges this epoch's maps over all processes of torch.distributed.

        All processes must call it. `end_epoch` does; a checkpoint within an epoch needs it too.
        """
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            # NCCL accepts no host tensors, which the maps usually are.
            backends = torch.distributed.get_backend_config()
            exchanged = self._next.to(communicating_device(self.device, backends))
            torch.distributed.all_reduce(exchanged, torch.distributed.ReduceOp.MAX)
            self._next.copy_(exchanged)

    def end_epoch(self) -> None:
        """Makes this epoch's maps readable, in all processes.

        Call it at the end of every epoch, in every process. The maps change in place, so that
        worker processes that share them see the change.
        """
        self.merge()
        written = self._next.amax(1, keepdim=True) > 0
        torch.where(written, self._next, self._maps, out=self._maps)
        self._next.zero_()
        self._epoch += 1

    def share_memory_(self) -> SaliencyMemory:
        """Moves the maps to shared memory, so that worker processes read them; returns itself."""
        for shared in (self._maps, self._epoch):
            shared.share_memory_()  # type: ignore[no-untyped-call]
        return self

    def state_dict(self) -> dict[str, Any]:
        """Returns the maps and settings, for a checkpoint.

        With several processes, call `merge` first, in each of them.
        """
        return {
            "grid": list(self.grid),
            "momentum": self.momentum,
            "epoch": self.epoch,
            "maps": self._maps.clone(),
            "next": self._next.clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a `state_dict` of a memory of the same size."""
        if not isinstance(state, Mapping) or not {"grid", "maps", "next"} <= set(state):
            raise ValueError(
                "`state` must be what SaliencyMemory.state_dict() returned, got "
                f"{sorted(state) if isinstance(state, Mapping) else type(state).__name__}."
            )
        maps = (state["maps"], state["next"])
        if tuple(state["grid"]) != self.grid or any(
            not isinstance(new, Tensor) or new.shape != self._maps.shape or new.dtype != torch.uint8
            for new in maps
        ):
            shape = tuple(getattr(maps[0], "shape", ()))
            raise ValueError(
                f"`state` must be of a memory of {len(self)} examples with cells {self.grid}, got "
                f"maps {shape} with cells {tuple(state['grid'])}. Did the data set change? Then "
                "begin with a new memory."
            )
        self._epoch.fill_(int(state.get("epoch", 0)))
        self._maps.copy_(maps[0])
        self._next.copy_(maps[1])

    def _locate(self, origin: Origin | Tensor, size: Sequence[int] | None) -> tuple[Tensor, Tensor]:
        """Returns the examples' rows and the (m, *size) cell numbers, on the memory's device."""
        indices, cells = origin if isinstance(origin, tuple) else (origin, None)
        rows = self._rows(indices)
        if cells is None:
            if size is None:
                raise ValueError(
                    "`size` must be given where `origin` has no cell numbers: the spatial size of "
                    "the images."
                )
            numbers = self.cell_numbers(size).expand(len(rows), *size)
            return rows, numbers
        if (
            not isinstance(cells, Tensor)
            or cells.is_floating_point()
            or cells.ndim != 1 + len(self.grid)
            or len(cells) != len(rows)
        ):
            got = tuple(cells.shape) if isinstance(cells, Tensor) else type(cells).__name__
            raise ValueError(
                f"`origin.cells` must be integers of shape ({len(rows)}, *size) with "
                f"{len(self.grid)} spatial dimensions, got {got}. Put "
                "memory.cell_numbers(size) through the transforms of each image."
            )
        moved = to_device(cells, self.device)
        known = _on_host(cells, moved)
        if known is not None and known.numel():
            low, high = map(int, torch.aminmax(known))
            if low < 0 or high > self.num_cells:
                raise ValueError(
                    f"`origin.cells` must lie in 0..{self.num_cells}, the numbers of this "
                    f"memory's cells {self.grid} and 0 for none, got values from {low} to {high}. "
                    "Were they made by another memory, or interpolated?"
                )
        return rows, moved

    def _rows(self, indices: Tensor) -> Tensor:
        """Returns indices of examples, checked, on the memory's device."""
        if (
            not isinstance(indices, Tensor)
            or indices.ndim != 1
            or indices.is_floating_point()
            or indices.dtype == torch.bool
        ):
            got = (
                f"{indices.dtype} of shape {tuple(indices.shape)}"
                if isinstance(indices, Tensor)
                else type(indices).__name__
            )
            raise ValueError(
                f"`origin.indices` must be a tensor of integers, one per image, got {got}. Let the "
                "data set return each example's index beside its image and target."
            )
        moved = to_device(indices, self._maps.device, torch.int64)
        known = _on_host(indices, moved)
        if known is not None and len(known):
            low, high = map(int, torch.aminmax(known))
            if low < 0 or high >= len(self):
                raise IndexError(
                    f"`origin.indices` must lie in 0..{len(self) - 1}, the memory's "
                    f"{len(self)} examples, got values from {low} to {high}. Has the data set "
                    "grown? Then begin with a new memory."
                )
        return moved


def cell_means(numbers: Tensor, values: Tensor, cells: int) -> tuple[Tensor, Tensor]:
    """Returns each cell's mean over the pixels that show it, (m, cells), and which cells are shown.

    Args:
        numbers: (m, *size) the cell that each pixel of an input shows, from 1; 0 for none.
        values: (m, *size), not negative.
        cells: number of cells.
    """
    values = values.detach().flatten(1)
    numbers = to_device(numbers.flatten(1), values.device).long()
    zeros = values.new_zeros(len(numbers), cells + 1)
    sums = zeros.scatter_add(1, numbers, values)[:, 1:]
    counts = zeros.scatter_add(1, numbers, torch.ones_like(values))[:, 1:]
    return sums / counts.clamp(min=1), counts > 0


def looked_up(maps: Tensor, numbers: Tensor) -> Tensor:
    """Returns the value of the cell that each pixel shows, (m, *size) float32.

    An example without a map, all zero, is uniformly salient; pixels that show no cell are 0.
    """
    maps = torch.where(maps.amax(1, keepdim=True) > 0, maps, torch.ones_like(maps))
    table = torch.cat([maps.new_zeros(len(maps), 1), maps], 1)
    return table.gather(1, numbers.flatten(1).long()).view(numbers.shape).float()


def joined(means: Tensor, shown: Tensor, before: Tensor, momentum: float) -> tuple[Tensor, Tensor]:
    """Returns updated maps as bytes, (m, cells), and which gradients were usable.

    An image that shows no cell writes nothing, but counts as usable. `before` are the previous
    maps, (m, cells), all zero where there is none.
    """
    means = means.float().where(shown, 0)
    total = means.sum(1, keepdim=True)
    usable = (total > 0) & total.isfinite()
    known = before.amax(1, keepdim=True) > 0
    before = torch.where(known, before, torch.ones_like(before))
    # Both maps are scaled to a mean of one over the shown cells. A previous mean below 1, the step
    # of a byte, counts as 1: new values would be rounded away otherwise.
    count = shown.sum(1, keepdim=True)
    new = means * (count / total)
    old = before * (count / torch.maximum((before * shown).sum(1, keepdim=True), count))
    mixed = torch.where(known, torch.lerp(new, old, momentum), new)
    joined = torch.where(shown, mixed, old)
    usable = usable & joined.isfinite().all(1, keepdim=True)
    top = joined.amax(1, keepdim=True)
    scaled = (joined * (TOP / top)).round_()
    empty = count == 0
    return torch.where(usable & ~empty, scaled, 0).to(torch.uint8), (usable | empty).squeeze(1)


def pixel_layout(gradient: Tensor) -> tuple[Tensor, bool] | None:
    """Returns a gradient as (m, C, pixels), or as (m, pixels, C) and True if channels are last.

    None in any other layout, if empty, or if not float32 in host memory, as the kernel requires.
    """
    plain = gradient.detach()
    if plain.device.type != "cpu" or plain.dtype != torch.float32 or not plain.numel():
        return None
    if plain.is_contiguous():
        return plain.flatten(2), False
    moved = plain.movedim(1, -1)
    return (moved.flatten(1, -2), True) if moved.is_contiguous() else None


def _check_pixels(name: str, numbers: Tensor, shape: Sequence[int]) -> None:
    """Raises unless a tensor has the shape of the cell numbers."""
    if tuple(numbers.shape) != tuple(shape):
        raise ValueError(
            f"`{name}` must have a value for each of the pixels {tuple(numbers.shape)} that "
            f"`origin` describes, got {tuple(shape)}."
        )


def communicating_device(own: torch.device, backends: str) -> torch.device:
    """Returns the device for a collective: the tensor's own if a backend supports it.

    >>> communicating_device(torch.device("cpu"), "cpu:gloo,cuda:nccl").type
    'cpu'
    >>> communicating_device(torch.device("cpu"), "cuda:nccl").type
    'cuda'
    """
    kinds = [pair.split(":")[0] for pair in backends.split(",")]
    return own if own.type in kinds else torch.device(kinds[0])


def _on_host(given: Tensor, moved: Tensor) -> Tensor | None:
    """Returns whichever of two copies is on the host; None if neither is."""
    if given.device.type == "cpu":
        return given
    return moved if moved.device.type == "cpu" else None


def warn_of_skipped(memory: SaliencyMemory) -> None:
    """Warns that some maps were not written."""
    warn_caller(
        f"{int(memory.skipped)} saliency maps were zero, NaN or infinite and were not kept: their "
        "examples keep the previous maps. Half-precision gradients can vanish or overflow: see "
        "torch.amp.GradScaler."
    )


def _as_bytes(numbers: Tensor) -> Tensor:
    """Returns cell numbers for the kernel: (m, pixels) bytes, one row if all are alike."""
    if numbers.stride(0) == 0:  # the examples were not moved
        numbers = numbers[:1]
    return numbers.to(torch.uint8).flatten(1).contiguous()
