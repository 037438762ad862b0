"""A trained network, read from a run's folder or from a file of weights, and what its run tells."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from comixup._checks import reason_of
from comixup.lab import data as data_sets
from comixup.lab import models
from comixup.lab._preprocess import Shape
from comixup.lab._weights_file import damaged_header
from comixup.lab.data import DataSet
from comixup.lab.models import Preprocessing
from comixup.lab.training import RunFolder
from comixup.lab.training._setup import preprocessing_of


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network and what is known of it.

    Attributes:
        model: in evaluation mode, on the CPU.
        name: of the network, see `comixup.lab.models.build`.
        num_classes: number of classes.
        shape: (C, H, W) of the images that it was built for.
        path: the folder or file that it was read from.
        method: how it was trained; None if a file of weights alone does not say.
        seed: of its run; None likewise.
        recipe: of its run, as `Recipe.as_dict` has it; None likewise.
        data: name of the data set that it was trained on; None likewise.
        classes: the names of the classes; empty likewise.
        digest: of the file of weights: other weights have another.
        preprocessing: how pictures become its input; None if its file does not say.
    """

    model: nn.Module
    name: str
    num_classes: int
    shape: Shape
    path: Path
    method: str | None = None
    seed: int | None = None
    recipe: Mapping[str, Any] | None = None
    data: str | None = None
    classes: tuple[str, ...] = ()
    digest: str | None = None
    preprocessing: Preprocessing | None = None

    @property
    def title(self) -> str:
        """A name for people: the method and the seed, or the file's name."""
        return self.path.name if self.method is None else f"{self.method}, seed {self.seed}"

    def image_size(self, data: DataSet, given: int | None = None) -> int | None:
        """Returns the pixels per side that its training ended with, for `Split.loader`.

        None means the data set's own. Something else that is told, or data that are prepared
        otherwise, raise `ValueError`.

        Args:
            data: to evaluate on.
            given: what a user asks for; it has to be the same, if the size is known.
        """
        known = final_size(self.preprocessing)
        if self.preprocessing is None:
            return given
        if given not in (None, known):
            sides = " x ".join(map(str, self.shape[1:])) if known is None else str(known)
            raise ValueError(
                f"`image_size` must be {sides}, the pixels per side that the training of "
                f"{self.path} ended with, got {given}. Leave it out."
            )
        size = None if data.test.resized_side() is None else known
        _check_prepared(preprocessing_of(data, size), self.preprocessing, self.path, data.name)
        return size


def load_trained(
    path: Path,
    *,
    model: str | None = None,
    num_classes: int | None = None,
    shape: Shape | None = None,
) -> Trained:
    """Returns the network that a run's folder or a file of weights holds, ready to evaluate.

    Args:
        path: a run's folder, a .safetensors file, or a .pt or .pth file with a state dict.
        model: name of the network, where the file does not say; see `comixup.lab.models.build`.
        num_classes: of the data to evaluate on. A head of another size raises `ValueError`.
        shape: (C, H, W) of the images, where the file does not say.
    """
    path = Path(path)
    told = run_metadata(path)
    found = models.load(path, model=model, num_classes=num_classes, shape=shape)
    return Trained(
        found.model,
        found.name,
        found.num_classes,
        found.shape,
        path,
        data=found.data,
        classes=found.classes,
        digest=found.digest,
        preprocessing=found.stated_preprocessing,
        **{name: told.get(name) for name in _KINDS},
    )


@dataclass(frozen=True)
class TrainedOn:
    """What a network was trained on, as its file and its run's folder tell.

    Attributes:
        data: name of the data set; None if they do not say.
        root: the folder that it lay in, as for `comixup.lab.data.load`; None likewise, or if
            nothing is there any more.
        classes: the names of the classes; empty likewise.
        image_size: pixels per side that its training ended with; None likewise, or if they are
            not square.
        test_fraction: of a folder of images without test images, what was held out; None for the
            usual.
        test_digest: of its run's test images, see `Split.digest`; None if they do not say.
        preprocessing: how pictures become its input; None likewise.
        skip_bad: whether images that could not be read were left out.
    """

    data: str | None = None
    root: Path | None = None
    classes: tuple[str, ...] = ()
    image_size: int | None = None
    test_fraction: float | None = None
    test_digest: str | None = None
    preprocessing: Preprocessing | None = None
    skip_bad: bool = False

    def load_data(self, root: Path | None = None, *, skip_bad: bool = False) -> DataSet:
        """Returns the data set, without classes that the network does not know.

        Images are normalised as in its training. Where some have come or gone since, other ones are
        held out for the test, among them some that it was trained on: this raises `ValueError`.

        Args:
            root: the folder that it lies in, whatever it has now; None for the one that it lay in.
            skip_bad: leave out images that cannot be read.
        """
        if self.data is None:
            raise ValueError(
                "`data` must be the name of a data set, got None: the network does not say what "
                "it was trained on."
            )
        load = functools.partial(
            data_sets.load,
            self.data,
            self.root if root is None else root,
            skip_bad=skip_bad or self.skip_bad,
            test_fraction=self.test_fraction,
        )
        data = load()
        known = set(self.classes)
        if known and known < set(data.classes):
            data = load(classes=self.classes)
        of_run = self.test_digest if root is None and not skip_bad else None
        if of_run is not None and of_run != data.test.digest():
            raise ValueError(
                "`data` must have the test images of the run, but those of "
                f"{self.root or self.data} have changed since: some may have been trained on. Put "
                "the images back as they were, or name a folder of others by `root` (--data)."
            )
        stated = self.preprocessing
        if stated is None or stated.shape[0] != data.shape[0]:  # which `models.load` rejects
            return data
        return data.with_normalization(stated.mean, stated.std)


def trained_on(path: Path) -> TrainedOn:
    """Returns what a network was trained on; its weights are not read."""
    header, told = models.read_header(path), run_metadata(Path(path))
    root, recipe, digest = told.get(_ROOT), told.get("recipe"), told.get(_TEST)
    fraction = (recipe or {}).get("test_fraction")
    return TrainedOn(
        header.data,
        Path(root) if isinstance(root, str) and Path(root).exists() else None,
        header.classes,
        final_size(header.preprocessing),
        fraction if isinstance(fraction, float) else None,
        digest if isinstance(digest, str) else None,
        header.preprocessing,
        (recipe or {}).get("skip_bad") is True,
    )


def final_size(preprocessing: Preprocessing | None) -> int | None:
    """Returns the pixels per side that a training ended with; None if a file does not say.

    Nor have images a size per side that are not square: they are shown as they are.
    """
    if preprocessing is None:
        return None
    _, height, width = preprocessing.shape
    return height if height == width else None


def check_data(trained: Trained, data: DataSet) -> None:
    """Raises `ValueError` unless a data set has the classes of a trained network."""
    if data.multi_label:
        raise ValueError(
            f"`data` must have one class for each image, got {data.name}, where an image may have "
            "several: error and calibration here are of classes that exclude each other. The "
            "run's result.json and classes.csv have its label error and mean average precision."
        )
    if trained.num_classes != data.num_classes:
        raise ValueError(
            f"`data` must have {trained.num_classes} classes, as many as the network of "
            f"{trained.path} tells apart, got {data.name} with {data.num_classes}. Evaluate on "
            f"{trained.data or 'the data set it was trained on'}."
        )
    if trained.classes and trained.classes != data.classes:
        pairs = enumerate(zip(trained.classes, data.classes, strict=True))
        index, (ours, theirs) = next((k, pair) for k, pair in pairs if pair[0] != pair[1])
        raise ValueError(
            f"`data` must have the classes of the network of {trained.path} in their order, but "
            f"class {index} is {theirs!r} in {data.name} and {ours!r} there. Evaluate on the data "
            "set it was trained on."
        )


def _check_prepared(found: Preprocessing, wanted: Preprocessing, path: Path, data: str) -> None:
    """Raises `ValueError` if images of a data set are prepared otherwise than a network needs."""
    for name in ("shape", "mean", "std", "resize", "interpolation"):
        ours, theirs = getattr(wanted, name), getattr(found, name)
        if ours != theirs:
            raise ValueError(
                f"`data` must be prepared as for the training of {path}, with {name} {ours}, but "
                f"{data} has {theirs}. Load them by trained_on(path).load_data()."
            )


_KINDS = {"method": str, "seed": int, "recipe": dict}
_ROOT, _TEST = "data_root", "test_digest"


def run_metadata(path: Path) -> dict[str, Any]:
    """Returns what a run's `run.json` tells; nothing for weights that have none beside them.

    Args:
        path: a run's folder or its weights. Those of another name are not the run's.
    """
    folder = RunFolder(path if path.is_dir() else path.parent)
    file = folder.metadata
    if not file.is_file() or path not in (folder.path, folder.weights):
        return {}
    try:
        told = json.loads(file.read_text())
        found = {name: told[name] for name in _KINDS} | {
            key: told.get(key) for key in (_ROOT, _TEST)
        }
    except (*(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError),) as why:
        raise ValueError(
            f"`path` must be a run's folder, but its {file} is damaged ({reason_of(why)}). Put "
            "back a good copy, or move that file away and evaluate the weights alone."
        ) from None
    for name, kind in _KINDS.items():
        if not isinstance(found[name], kind):
            raise damaged_header(file, name, str(found[name]))
    return found
