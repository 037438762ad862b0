"""The data that trained networks are measured on: test images and boxes of their objects."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from comixup.lab.data import DataSet
from comixup.lab.evaluation._boxes import read_boxes, read_tiny_imagenet_boxes
from comixup.lab.evaluation._trained import TrainedOn, trained_on
from comixup.lab.training._recipes import FOLDER

_TINY = "tiny-imagenet"


def measured_on(
    run: Path,
    data: str | None = None,
    root: Path | None = None,
    image_size: int | None = None,
) -> TrainedOn:
    """Returns the data to measure a run on: what is given, or else what the run tells of itself.

    Args:
        run: its folder, or a file of weights.
        data: name of a data set.
        root: folder of the data sets.
        image_size: pixels per side, for weights that do not say.
    """
    origin = trained_on(run)
    name = data or origin.data
    if name is None:
        raise ValueError(
            f"`data_set` must be given for {run}, which does not say what it was trained on. Name "
            "it with --data-set, for instance --data-set cifar100."
        )
    as_trained = root is None and name == origin.data
    return replace(
        origin,
        data=name,
        root=origin.root if as_trained else root,
        # A size that contradicts the run's is rejected by `evaluate`, which names both.
        image_size=origin.image_size or image_size,
        test_fraction=origin.test_fraction if name == FOLDER else None,
        test_digest=origin.test_digest if as_trained else None,
        skip_bad=origin.skip_bad and as_trained,
    )


def load_test_data(
    wanted: TrainedOn, boxes: Path | None = None, *, skip_bad: bool = False
) -> tuple[DataSet, Tensor | None, list[str]]:
    """Returns a data set, the boxes of its test images, and notes about what is left out of it.

    Of a network that was trained on some of the set's classes, those alone are measured.

    Args:
        wanted: from `measured_on`.
        boxes: as `source` of `find_boxes`.
        skip_bad: leave out images that cannot be read.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        data = wanted.load_data(skip_bad=skip_bad)
        found = find_boxes(
            data, wanted.root, boxes, image_size=wanted.image_size, skip_bad=skip_bad
        )
    notes = [str(warning.message) for warning in caught] + [data.missing_note or ""]
    return data, found, [note for note in dict.fromkeys(notes) if note]


def find_boxes(
    data: DataSet,
    root: Path | None,
    source: Path | None = None,
    *,
    image_size: int | None = None,
    skip_bad: bool = False,
) -> Tensor | None:
    """Returns the boxes of a data set's test images; None if there are none.

    Args:
        data: the data set.
        root: its folder, as for `comixup.lab.data.load`.
        source: a CSV file or a folder of XML files with the boxes; None for the data set's own,
            which Tiny-ImageNet has.
        image_size: pixels per side of what the network is shown; None for the data set's own.
        skip_bad: as for `comixup.lab.data.load`.
    """
    if source is None:
        if data.name != _TINY:
            return None
        own = read_tiny_imagenet_boxes(root, "test", skip_bad=skip_bad)
        return own if data.test_indices is None else own[data.test_indices]
    files = getattr(data.test, "files", None)
    if files is None:
        raise ValueError(
            f"`--boxes` must belong to images in files, but those of {data.name} are not: boxes go "
            "by the files' names."
        )
    return read_boxes(source, files, image_size or max(data.shape[1:]))


def output_folders(runs: Sequence[Path], out: Path | None = None) -> list[Path]:
    """Returns where each run's metrics go: its own folder, or one of its name if asked for.

    Args:
        runs: folders of runs, or files of weights.
        out: a folder; with several runs, a folder in it for each.
    """
    folders = []
    for run in runs:
        own = run if run.is_dir() else run.parent / run.stem
        if out is not None:
            own = out if len(runs) == 1 else out.joinpath(*own.parts[-3:])
        folders.append(own)
    first: dict[Path, Path] = {}
    for run, folder in zip(runs, folders, strict=True):
        other = first.setdefault(folder.resolve(), run)
        if other is not run:
            raise ValueError(
                f"`runs` must have a folder each to write into, but {other} and {run} have the "
                f"same, {folder}. Evaluate them one by one, each with another --out."
            )
    return folders
