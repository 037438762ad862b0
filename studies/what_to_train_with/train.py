"""`comixup train` that keeps augmented images on disk, for the other runs of the same seed.

    COMIXUP_AUGMENTED=FOLDER python studies/what_to_train_with/train.py RECIPE --method ...

Runs with the same images, seed and augmentation see the same augmented images, whatever they mix
them by; drawing them takes a third of a run. The runs' results are those of `comixup train`, to
the last bit. An epoch is kept once it has been drawn whole: 4 kB per image of 32 x 32.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from comixup.cli import main
from comixup.lab.data._in_memory import MemoryLoader

KEPT = Path(os.environ["COMIXUP_AUGMENTED"])


class Kept:
    """An array that is drawn step by step and kept by epoch: images, or their cell numbers."""

    def __init__(self, name: str) -> None:
        self._folder = KEPT / name
        self._epoch, self._steps, self._whole = -1, list[Any](), None

    def read(self, epoch: int, begin: int, end: int) -> Tensor | None:
        """Returns what was kept of an epoch, from image `begin` to `end` of its order, or None."""
        if epoch != self._epoch:
            path = self._folder / f"{epoch}.npy"
            self._epoch, self._steps = epoch, []
            self._whole = np.load(path) if path.exists() else None
        return None if self._whole is None else torch.from_numpy(self._whole[begin:end])

    def write(self, drawn: Tensor, begin: int, count: int) -> None:
        """Adds a step, and writes the epoch if that is its last one."""
        if begin != sum(map(len, self._steps)):  # resumed within an epoch
            return
        self._steps.append(drawn.numpy().copy())
        if begin + len(drawn) == count:
            self._folder.mkdir(parents=True, exist_ok=True)
            partial = self._folder / f".{self._epoch}-{os.getpid()}.npy"
            np.save(partial, np.concatenate(self._steps))
            partial.replace(self._folder / f"{self._epoch}.npy")


_augment = MemoryLoader._augmented
_kept: dict[str, Kept] = {}


def _augmented(
    self: MemoryLoader, images: Tensor, cells: Tensor | None, epoch: int, step: int
) -> tuple[Tensor, Tensor | None]:
    if self._drawn is None:
        return _augment(self, images, cells, epoch, step)
    order = self._order
    if not hasattr(self, "_kept_as"):
        what = (self._split.digest(), self._split.pad, self._split.flip, self._drawn, order)
        self._kept_as = hashlib.sha256(repr(what).encode()).hexdigest()[:16]  # type: ignore[attr-defined]
    names = [self._kept_as]
    if cells is not None:
        names.append(f"{self._kept_as}-{hashlib.sha256(cells[0].numpy()).hexdigest()[:8]}")
    stores = [_kept.setdefault(name, Kept(name)) for name in names]
    share = order.share(step)
    found = [store.read(epoch, share.start, share.stop) for store in stores]
    if any(kept is None for kept in found):
        drawn = _augment(self, images, cells, epoch, step)
        for store, kept, made in zip(stores, found, drawn, strict=False):
            if kept is None and made is not None:
                store.write(made, share.start, order.count)
        return drawn
    return found[0], found[1] if cells is not None else None  # type: ignore[return-value]


if __name__ == "__main__":
    MemoryLoader._augmented = _augmented  # type: ignore[method-assign]
    sys.argv.insert(1, "train")
    main()
