"""What the page computes once and keeps: batches, networks, saliency, and files of visitors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from torch import Tensor

from comixup import spectral_residual
from comixup.lab.explorer._explore import Result, explore
from comixup.lab.explorer._images import Batch, files_batch, read_pixels, sample_images
from comixup.lab.explorer._settings import MAX_BYTES, MAX_FILES, SPECTRAL, Settings
from comixup.lab.explorer._sources import Network, is_run, load_network, network_maps

_Value = TypeVar("_Value")
_BATCHES, _FILES, _NETWORKS, _RESULTS = 16, 256, 3, 8
"""As many are kept."""


@dataclass(frozen=True, eq=False)
class Upload:
    """Files of a visitor.

    Attributes:
        paths: those that can be read.
        images: their centres.
        problems: what is wrong with each of the others.
    """

    paths: tuple[str, ...] = ()
    images: tuple[Tensor, ...] = ()
    problems: tuple[str, ...] = ()


_NO_FILES = Upload()


class Workbench:
    """Batches and their saliency by settings, the last ones of which are kept.

    Several threads may ask at once: those who want the same wait for the first of them, the others
    for nobody.

    Args:
        runs: folders of runs that may be a source of saliency.
        any_run: whether a visitor may name other folders: not those of a public server.
    """

    def __init__(self, runs: Sequence[str] = (), *, any_run: bool = True) -> None:
        self.runs = tuple(runs)
        self.any_run = any_run
        self._batches: _Kept[Batch] = _Kept(_BATCHES)
        self._files: _Kept[Tensor | str] = _Kept(_FILES)
        self._maps: _Kept[Tensor] = _Kept(_BATCHES)
        self._networks: _Kept[Network] = _Kept(_NETWORKS)
        self._results: _Kept[Result] = _Kept(_RESULTS)

    def upload(self, paths: Sequence[str], side: int) -> Upload:
        """Returns which of a visitor's files are images, and what is wrong with the others."""
        if len(paths) > MAX_FILES:
            message = f"There must be at most {MAX_FILES} images, got {len(paths)}. Choose some."
            return Upload(problems=(message,))
        read = [self._files.get((path, side), partial(_read, path, side)) for path in paths]
        return Upload(
            tuple(p for p, found in zip(paths, read, strict=True) if not isinstance(found, str)),
            tuple(found for found in read if not isinstance(found, str)),
            tuple(found for found in read if isinstance(found, str)),
        )

    def batch(self, settings: Settings, upload: Upload = _NO_FILES) -> Batch:
        """Returns the batch that settings, or files in its place, name."""
        if upload.paths:
            return self._batches.get(
                (upload.paths, settings.side),
                lambda: files_batch([*map(Path, upload.paths)], upload.images),
            )
        return self._batches.get(
            (settings.sample, settings.count, settings.draw, settings.side),
            lambda: sample_images(
                settings.sample, count=settings.count, draw=settings.draw, side=settings.side
            ),
        )

    def saliency(self, batch: Batch, settings: Settings) -> Tensor:
        """Returns a batch's saliency from the source that settings name."""
        source = settings.saliency
        # The batch itself is in the key, so that its identity is not given to another one.
        key = (batch, source, settings.pretrained)
        if source == SPECTRAL:
            return self._maps.get(key, lambda: spectral_residual(batch.images))
        if is_run(source) and not self.any_run and source not in self.runs:
            raise ValueError(
                "`saliency` must be a run that the explorer was started with, got another folder. "
                "Start it with: comixup explore RUN ..."
            )
        return self._maps.get(key, lambda: network_maps(batch, self._network(settings)))

    def result(self, settings: Settings, upload: Upload = _NO_FILES) -> Result:
        """Returns everything that is shown of a batch."""
        batch = self.batch(settings, upload)
        maps = self.saliency(batch, settings)
        return self._results.get((batch, settings), lambda: explore(batch, maps, settings))

    def _network(self, settings: Settings) -> Network:
        return self._networks.get(
            (settings.saliency, settings.pretrained),
            lambda: load_network(settings.saliency, pretrained=settings.pretrained),
        )


def _read(path: str, side: int) -> Tensor | str:
    """Returns the image of a visitor's file, or what is wrong with it."""
    file = Path(path)
    try:
        if (size := file.stat().st_size) > MAX_BYTES:
            bound = MAX_BYTES // 2**20
            return f"{file.name} must have at most {bound} MB, got {size / 2**20:.0f}."
        return read_pixels(file, side)
    except (ValueError, OSError) as error:
        return str(error).replace(path, file.name)


class _Kept(Generic[_Value]):
    """The last values that were asked for, by their keys, each made once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()  # of the dictionary: nothing is made while it is held
        self._values: OrderedDict[Hashable, Future[_Value]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """Returns the value of a key; the first thread to ask makes it, others wait for that."""
        with self._lock:
            is_new = key not in self._values
            value = self._values.setdefault(key, Future())
            self._values.move_to_end(key)
            if len(self._values) > self.most:
                self._values.popitem(last=False)
        if is_new:
            try:
                value.set_result(make())
            except BaseException as error:
                with self._lock:  # the next one may have more luck
                    self._values.pop(key, None)
                value.set_exception(error)
        return value.result()
