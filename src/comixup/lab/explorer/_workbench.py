"""What the page computes once and keeps: batches, networks, saliency, and files of visitors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from comixup.lab._image_files import read_image
from comixup.lab.explorer._explore import Result, explore
from comixup.lab.explorer._images import Batch, load_images, sample_images
from comixup.lab.explorer._limits import MAX_BYTES, MAX_FILES, MAX_PIXELS
from comixup.lab.explorer._settings import SPECTRAL, Settings
from comixup.lab.explorer._sources import Network, is_run, load_network, network_maps, spectral_maps

_Value = TypeVar("_Value")
_BATCHES, _NETWORKS, _RESULTS = 16, 3, 8
"""As many are kept."""


@dataclass(frozen=True)
class Upload:
    """Files of a visitor.

    Attributes:
        paths: those that can be read.
        problems: what is wrong with each of the others.
    """

    paths: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Workbench:
    """Batches and their saliency by settings, the last ones of which are kept.

    Args:
        runs: folders of runs that may be a source of saliency.
        any_run: whether a visitor may name other folders: not those of a public server.
    """

    def __init__(self, runs: Sequence[str] = (), *, any_run: bool = True) -> None:
        self.runs = tuple(runs)
        self.any_run = any_run
        self._lock = threading.RLock()
        self._batches: OrderedDict[Hashable, Batch] = OrderedDict()
        self._maps: OrderedDict[Hashable, Tensor] = OrderedDict()
        self._networks: OrderedDict[Hashable, Network] = OrderedDict()
        self._results: OrderedDict[Hashable, Result] = OrderedDict()

    def upload(self, paths: Sequence[str]) -> Upload:
        """Returns which of a visitor's files are images, and what is wrong with the others."""
        if len(paths) > MAX_FILES:
            message = f"There must be at most {MAX_FILES} images, got {len(paths)}. Choose some."
            return Upload(problems=(message,))
        readable, problems = [], []
        for path in map(Path, paths):
            try:
                if path.stat().st_size > MAX_BYTES:
                    raise ValueError(
                        f"{path} must have at most {MAX_BYTES // 2**20} MB, got "
                        f"{path.stat().st_size / 2**20:.0f}."
                    )
                read_image(path, max_pixels=MAX_PIXELS)
            except (ValueError, OSError) as error:
                problems.append(str(error).replace(str(path), path.name))
            else:
                readable.append(str(path))
        return Upload(tuple(readable), tuple(problems))

    def batch(self, settings: Settings, files: Sequence[str] = ()) -> Batch:
        """Returns the batch that settings, or files in its place, name."""
        if files:
            key: Hashable = (tuple(files), settings.side)
            return self._kept(
                self._batches, key, _BATCHES, lambda: load_images(files, side=settings.side)
            )
        key = (settings.sample, settings.count, settings.draw, settings.side)
        return self._kept(
            self._batches,
            key,
            _BATCHES,
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
            return self._kept(self._maps, key, _BATCHES, lambda: spectral_maps(batch))
        if is_run(source) and not self.any_run and source not in self.runs:
            raise ValueError(
                "`saliency` must be a run that the explorer was started with, got another folder. "
                "Start it with: comixup explore RUN ..."
            )
        return self._kept(
            self._maps, key, _BATCHES, lambda: network_maps(batch, self._network(settings))
        )

    def result(self, settings: Settings, files: Sequence[str] = ()) -> Result:
        """Returns everything that is shown of a batch."""
        batch = self.batch(settings, files)
        maps = self.saliency(batch, settings)
        return self._kept(
            self._results, (batch, settings), _RESULTS, lambda: explore(batch, maps, settings)
        )

    def _network(self, settings: Settings) -> Network:
        key = (settings.saliency, settings.pretrained)
        return self._kept(
            self._networks,
            key,
            _NETWORKS,
            lambda: load_network(settings.saliency, pretrained=settings.pretrained),
        )

    def _kept(
        self,
        kept: OrderedDict[Hashable, _Value],
        key: Hashable,
        most: int,
        make: Callable[[], _Value],
    ) -> _Value:
        """Returns what was made before under a key, or makes it; the oldest ones are dropped."""
        with self._lock:  # one visitor at a time trains or downloads a network
            if key not in kept:
                kept[key] = make()
                while len(kept) > most:
                    kept.popitem(last=False)
            kept.move_to_end(key)
            return kept[key]
