"""A trained network, from a run's folder or a file of weights, and the data to measure it on."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from comixup._checks import reason_of
from comixup.lab import data as data_sets
from comixup.lab import models
from comixup.lab._preprocess import Shape
from comixup.lab._weights_file import damaged_header
from comixup.lab.data import DataSet
from comixup.lab.evaluation._boxes import find_boxes
from comixup.lab.models import Classifier, Preprocessing
from comixup.lab.training._folder import RunFolder
from comixup.lab.training._recipes import FOLDER
from comixup.lab.training._setup import preprocessing_of


@dataclass(frozen=True, eq=False)
class Trained(Classifier):
    """A trained network, with what its run tells of it beside what its file says.

    Attributes:
        method: how it was trained; None if a file of weights alone does not say.
        seed: of its run; None likewise.
        recipe: of its run, as `Recipe.as_dict` has it; None likewise.
    """

    method: str | None = None
    seed: int | None = None
    recipe: Mapping[str, Any] | None = None

    @property
    def title(self) -> str:
        """A name for people: the method and the seed, or the file's name."""
        return self.path.name if self.method is None else f"{self.method}, seed {self.seed}"

    def image_size(self, data: DataSet, given: int | None = None) -> int | None:
        """Returns the pixels per side that its training ended with, for `Split.loader`.

        None means the data set's own. Another size that is given, or data that are prepared
        otherwise, raise `ValueError`.
        """
        wanted, known = self.stated_preprocessing, _final_size(self.stated_preprocessing)
        if wanted is None:
            return given
        if given not in (None, known):
            sides = " x ".join(map(str, self.shape[1:])) if known is None else str(known)
            raise ValueError(
                f"`image_size` must be {sides}, the pixels per side that the training of "
                f"{self.path} ended with, got {given}. Leave it out."
            )
        size = None if data.test.resized_side() is None else known
        found = preprocessing_of(data, size)
        for name in ("shape", "mean", "std", "resize", "interpolation"):
            ours, theirs = getattr(wanted, name), getattr(found, name)
            if ours != theirs:
                raise ValueError(
                    f"`data` must be prepared as for the training of {self.path}, with {name} "
                    f"{ours}, but {data.name} has {theirs}. Load them by "
                    "trained_on(path).load_data()."
                )
        return size

    def check_data(self, data: DataSet) -> None:
        """Raises `ValueError` unless a data set has the classes of the network."""
        if data.multi_label:
            raise ValueError(
                f"`data` must have one class for each image, got {data.name}, where an image may "
                "have several: error and calibration here are of classes that exclude each other. "
                "The run's result.json and classes.csv have its label error and mean average "
                "precision."
            )
        if self.num_classes != data.num_classes:
            raise ValueError(
                f"`data` must have {self.num_classes} classes, as many as the network of "
                f"{self.path} tells apart, got {data.name} with {data.num_classes}. Evaluate on "
                f"{self.data or 'the data set it was trained on'}."
            )
        for index, (ours, theirs) in enumerate(zip(self.classes, data.classes, strict=False)):
            if ours != theirs:
                raise ValueError(
                    f"`data` must have the classes of the network of {self.path} in their order, "
                    f"but class {index} is {theirs!r} in {data.name} and {ours!r} there. Evaluate "
                    "on the data set it was trained on."
                )


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
    metadata = _run_metadata(Path(path))
    found = models.load(path, model=model, num_classes=num_classes, shape=shape)
    return Trained(**vars(found) | {name: metadata.get(name) for name in _KINDS})


@dataclass(frozen=True)
class TrainedOn:
    """The data that a network was trained on, or that it is to be measured on; see `trained_on`.

    Attributes:
        data: name of the data set; None if its file and its run's folder do not say.
        root: the folder that it lies in, as for `comixup.lab.data.load`; None likewise, or if
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

    def load_data(self, *, skip_bad: bool = False) -> DataSet:
        """Returns the data set, without classes that the network does not know.

        Images are normalized as in its training. Where some have come or gone since, other ones are
        held out for the test, among them some that it was trained on: this raises `ValueError`,
        unless those that cannot be read are to be left out.
        """
        if self.data is None:
            raise ValueError(
                "`data` must be the name of a data set, got None: the network does not say what "
                "it was trained on."
            )
        load = functools.partial(
            data_sets.load,
            self.data,
            self.root,
            skip_bad=skip_bad or self.skip_bad,
            test_fraction=self.test_fraction,
        )
        data = load()
        known = set(self.classes)
        if known and known < set(data.classes):
            data = load(classes=self.classes)
        if not skip_bad and self.test_digest not in (None, data.test.digest()):
            raise ValueError(
                "`data` must have the test images of the run, but those of "
                f"{self.root or self.data} have changed since: some may have been trained on. Put "
                "the images back as they were, or name a folder of others by `root` (--data)."
            )
        stated = self.preprocessing
        if stated is None or stated.shape[0] != data.shape[0]:  # which `models.load` rejects
            return data
        return data.with_normalization(stated.mean, stated.std)

    def load_test_data(
        self, boxes: Path | None = None, *, skip_bad: bool = False
    ) -> tuple[DataSet, Tensor | None, list[str]]:
        """Returns a data set, its test images' boxes (see `find_boxes`), and what is left out."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            data = self.load_data(skip_bad=skip_bad)
            found = find_boxes(data, boxes, self.image_size)
        notes = [str(warning.message) for warning in caught] + [data.missing_note or ""]
        return data, found, [note for note in dict.fromkeys(notes) if note]


def trained_on(
    path: Path, data: str | None = None, root: Path | None = None, image_size: int | None = None
) -> TrainedOn:
    """Returns what a network was trained on, as it says itself, or other data to measure it on.

    Its weights are not read.

    Args:
        path: a run's folder, or a file of weights.
        data: name of another data set; None for the one that it was trained on.
        root: the folder that it lies in, whatever it has now; None for the one that it lay in.
        image_size: pixels per side, for weights that do not say.
    """
    header, metadata = models.read_header(path), _run_metadata(Path(path))
    lay, recipe, digest = metadata.get(_ROOT), metadata.get("recipe") or {}, metadata.get(_TEST)
    fraction, name = recipe.get("test_fraction"), data or header.data
    as_trained = root is None and name == header.data
    if as_trained and isinstance(lay, str) and Path(lay).exists():
        root = Path(lay)
    return TrainedOn(
        name,
        root,
        header.classes,
        # A size that contradicts the run's is rejected by `evaluate`, which names both.
        _final_size(header.preprocessing) or image_size,
        fraction if isinstance(fraction, float) and name == FOLDER else None,
        digest if isinstance(digest, str) and as_trained else None,
        header.preprocessing,
        as_trained and recipe.get("skip_bad") is True,
    )


def _final_size(preprocessing: Preprocessing | None) -> int | None:
    """Returns the pixels per side that a training ended with; None if unknown or not square."""
    if preprocessing is None:
        return None
    _, height, width = preprocessing.shape
    return height if height == width else None


_KINDS = {"method": str, "seed": int, "recipe": dict}
_ROOT, _TEST = "data_root", "test_digest"


def _run_metadata(path: Path) -> dict[str, Any]:
    """Returns what the `run.json` of a run's folder, or beside its weights, tells."""
    folder = RunFolder(path if path.is_dir() else path.parent)
    file = folder.metadata
    if not file.is_file() or path not in (folder.path, folder.weights):
        return {}  # weights of another name are not the run's
    try:
        metadata = json.loads(file.read_text())
        found = {name: metadata[name] for name in _KINDS} | {
            key: metadata.get(key) for key in (_ROOT, _TEST)
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
