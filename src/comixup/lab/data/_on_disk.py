"""Large data sets, read from disk in every epoch, optionally by worker processes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from comixup._checks import check_count, check_number, check_positive
from comixup.adapters.cell_numbers import CellNumbers
from comixup.adapters.origins import tracked
from comixup.lab._augmentation import DEFAULT_MIN_SCALE, Augmentation, training_view
from comixup.lab._image_files import read_image
from comixup.lab._pictures import CenterView
from comixup.lab._preprocess import resized_side
from comixup.lab._seeds import Purpose, seed_for
from comixup.lab.data._scan import NO_ROWS, Rows
from comixup.lab.data._split import Grid, Loader, Order, Split, file_sources

DEFAULT_SIZE = 224


@dataclass(frozen=True, eq=False)
class DiskSplit(Split):
    """A split whose images are files of any size.

    Attributes:
        files: (n,) paths as an array of bytes: reference counts would make workers copy a list.
        targets: see `Split`.
        mean: see `Split`.
        std: see `Split`.
        rows: see `Split`.
    """

    files: npt.NDArray[np.bytes_]
    targets: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rows: Rows = field(default_factory=lambda: NO_ROWS)

    @property
    def paths(self) -> list[Path]:
        """Returns the images' files; see `Split.paths`."""
        return [Path(os.fsdecode(file)) for file in self.files]

    def subset(self, indices: Tensor) -> DiskSplit:
        """Returns the split with these images only."""
        chosen = indices.numpy()
        rows = self.rows[chosen] if len(self.rows) else self.rows
        return replace(self, files=self.files[chosen], targets=self.targets[indices], rows=rows)

    def _content(self) -> Iterable[bytes]:
        contents = self.rows["content"] if len(self.rows) else None
        return file_sources(self.files.tolist(), contents)

    def resized_side(self, image_size: int | None = None) -> int:
        """Returns the shorter side that images are resized to before the crop."""
        return resized_side(DEFAULT_SIZE if image_size is None else image_size)

    @property
    def _loader(self) -> type[DiskLoader]:
        return DiskLoader


class DiskLoader(Loader):
    """Batches of a `DiskSplit`. Images are transferred as uint8 and normalized on the device."""

    def __init__(
        self,
        split: DiskSplit,
        order: Order,
        device: torch.device,
        workers: int,
        augment: Augmentation | None,
        image_size: int | None,
        min_scale: float | None,
    ) -> None:
        super().__init__(split, order, device, workers)
        self._files = split.files
        self._size = DEFAULT_SIZE if image_size is None else image_size
        scale = DEFAULT_MIN_SCALE if min_scale is None else min_scale
        check_count("image_size", self._size)
        check_number("min_scale", scale, high=1)
        check_positive("min_scale", scale)
        self._transform = training_view(augment or "none", self._size, scale)
        plain = isinstance(self._transform, CenterView)
        self._tracked = self._transform if plain else tracked(self._transform)

    def _views(
        self, chosen: Tensor, epoch: int, step: int, grid: Grid | None
    ) -> tuple[Tensor, Tensor | None]:
        count, side = len(chosen), self._size
        images = torch.empty(count, 3, side, side, dtype=torch.uint8)
        cells = None if grid is None else torch.empty(count, side, side, dtype=torch.uint8)
        # torchvision's transforms draw from torch's global generator: seed it, then restore it.
        with torch.random.fork_rng(devices=[]):
            for k, index in enumerate(chosen.tolist()):
                picture = read_image(Path(os.fsdecode(self._files[index])))
                if self._order.shuffled:
                    seed = seed_for(self._order.seed, epoch, index, Purpose.CROPS)
                    torch.default_generator.manual_seed(seed)
                if cells is None or grid is None:
                    images[k] = self._transform(picture)
                else:
                    numbers = CellNumbers.of((picture.height, picture.width), grid)
                    images[k], numbers = self._tracked(picture, numbers)
                    cells[k] = numbers.tensor()
        return images, cells
