"""`comixup evaluate`, `comixup compare`."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from comixup.cli._device import find_device
from comixup.cli._method_names import method_name, print_synonyms
from comixup.cli._options import check_data_set, option_help, print_line
from comixup.lab import evaluation, training
from comixup.lab._locks import locked

if TYPE_CHECKING:
    from torch import Tensor

    from comixup.lab.data import DataSet
    from comixup.lab.evaluation import TrainedOn

_TINY = "tiny-imagenet"
_Runs = Annotated[tuple[Path, ...], tyro.conf.Positional, option_help("RUN ...")]


def evaluate(
    runs: _Runs,
    data: Annotated[
        Path | None,
        option_help("FOLDER", "(default: where they lay, else $COMIXUP_DATA, else ./data)"),
    ] = None,
    data_set: Annotated[
        str | None, option_help("NAME", "(default: what it was trained on)")
    ] = None,
    boxes: Annotated[Path | None, option_help("PATH", "(default: the data set's own)")] = None,
    model: Annotated[str | None, option_help("NAME", "(default: what the file says)")] = None,
    image_size: Annotated[int | None, option_help("N", "(default: what it was trained at)")] = None,
    maps: Annotated[Literal["cam", "grad-cam"], option_help("cam|grad-cam")] = "cam",
    layer: Annotated[str | None, option_help("NAME", "(default: found)")] = None,
    device: Annotated[str, option_help("NAME", "(default: cuda if there, else cpu)")] = "auto",
    workers: Annotated[int, option_help("N")] = training.WORKERS,
    seed: Annotated[int, option_help("N")] = 0,
    skip_bad: Annotated[bool, tyro.conf.FlagCreatePairsOff, option_help("", "")] = False,
    out: Annotated[Path | None, option_help("FOLDER", "(default: the run's own)")] = None,
) -> None:
    """Measure trained networks on the test images: error, calibration and, with boxes, more.

    Args:
        runs: folders of runs, or files of weights (.safetensors, .pt, .pth).
        data: folder of the data sets.
        data_set: name of the data set to measure on.
        boxes: a CSV file or a folder of XML files with boxes of the objects, for localisation and
            background corruption. Tiny-ImageNet brings its own.
        model: name of the network, for weights that do not say.
        image_size: pixels per side, for weights that do not say and data sets that are cropped.
        maps: how objects are found: cam or grad-cam.
        layer: the module of the network whose feature maps are used.
        device: cpu, cuda, mps, ...
        workers: processes that read images from the disk.
        seed: of the background corruption.
        skip_bad: leave out images that cannot be read, and say which.
        out: where the metrics and figures go; with several runs, a folder each in it.
    """
    training.check_alone("evaluate")
    check_data_set(data_set)
    evaluation.check_options(workers=workers, seed=seed, image_size=image_size)
    console, on = Console(), find_device(device)
    wanted = [_wanted(run, data_set, data, image_size) for run in _checked(runs)]
    folders = _folders(runs, out)
    for folder in folders:  # what cannot be written is found out before anything is computed
        with locked(folder):
            evaluation.check_replaceable(folder)
    loaded: dict[TrainedOn, tuple[DataSet, Tensor | None]] = {}
    for run, chosen, folder in zip(runs, wanted, folders, strict=True):
        if chosen not in loaded:
            loaded[chosen] = _loaded(chosen, boxes, skip_bad, console)
        dataset, truth = loaded[chosen]
        trained = evaluation.load_trained(
            run,
            model=model,
            num_classes=dataset.num_classes,
            shape=training.shape_of(dataset, chosen.image_size),
        )
        with locked(folder):
            found = evaluation.evaluate(
                trained,
                dataset,
                truth,
                device=on,
                image_size=image_size,
                workers=workers,
                maps=maps,
                layer=layer,
                seed=seed,
                console=console,
            )
            console.print(evaluation.evaluation_table(found))
            _write(found, folder)
            evaluation.draw_evaluation(
                found,
                dataset,
                truth,
                folder,
                maps=maps,
                layer=layer,
                image_size=image_size,
                seed=seed,
                device=on,
            )
        print_line(console, f"Metrics and figures are in {folder}.\n")


def compare(
    runs: _Runs,
    reference: Annotated[str | None, option_help("METHOD", "(default: comixup)")] = None,
    out: Annotated[Path, option_help("FOLDER")] = Path("comparison"),
) -> None:
    """Put evaluated runs side by side: means and spreads over seeds, tests, tables, one figure.

    Args:
        runs: folders that `comixup evaluate` has written into.
        reference: the method that others are tested against.
        out: where the tables (.txt, .md, .tex, .csv) and the reliability diagrams go.
    """
    training.check_alone("compare")
    console = Console()
    read = [evaluation.read_evaluation(run) for run in _checked(runs)]
    if reference is not None:
        known = dict.fromkeys(row.method for row, _ in read)
        given, reference = reference, method_name(reference, known)
        print_synonyms([given], [reference], "--reference")
    found = evaluation.compare([row for row, _ in read], reference=reference)
    panels: dict[str, list[evaluation.Metrics]] = {}
    for row, metrics in read:
        panels.setdefault(row.method, []).append(metrics)
    evaluation.write_comparison(found, out)
    evaluation.draw_reliability(panels, out / "reliability.png")
    console.print(evaluation.as_rich(found))
    print_line(console, f"Tables and reliability diagrams are in {out}.")


def _checked(runs: tuple[Path, ...]) -> tuple[Path, ...]:
    if not runs:
        raise ValueError("`runs` must be one folder or file at least, got none.")
    return runs


def _folders(runs: tuple[Path, ...], out: Path | None) -> list[Path]:
    """Returns where each run's metrics go: its own folder, or one of its name if asked for."""
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


def _wanted(run: Path, name: str | None, root: Path | None, image_size: int | None) -> TrainedOn:
    """Returns the data to measure a run on: what is given, or else what the run tells of itself."""
    origin = evaluation.trained_on(run)
    name = name or origin.data
    if name is None:
        raise ValueError(
            f"`data_set` must be given for {run}, which does not say what it was trained on. Name "
            "it with --data-set, for instance --data-set cifar100."
        )
    as_trained = root is None and name == origin.data
    if as_trained:
        root = origin.root
    # A size that contradicts the run's is rejected by `evaluate`, which names both.
    size = origin.image_size or image_size
    fraction = origin.test_fraction if name == training.FOLDER else None
    digest = origin.test_digest if as_trained else None
    return replace(
        origin, data=name, root=root, image_size=size, test_fraction=fraction, test_digest=digest
    )


def _write(found: evaluation.Evaluation, folder: Path) -> None:
    """Writes an evaluation; prints it if it cannot be written, so that it is not lost."""
    try:
        evaluation.write_evaluation(found, folder)
    except OSError:
        sys.stdout.write(evaluation.evaluation_text(found))
        sys.stdout.flush()
        raise


def _loaded(
    wanted: TrainedOn, boxes: Path | None, skip_bad: bool, console: Console
) -> tuple[DataSet, Tensor | None]:
    """Returns a data set and its boxes; what is left out of it is printed, once.

    Of a network that was trained on some of the set's classes, those alone are measured.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        data = wanted.load_data(skip_bad=skip_bad)
        found = data, _boxes(data, boxes, wanted, skip_bad)
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        print_line(console, message)
    note = data.missing_note
    if note is not None:
        print_line(console, note)
    return found


def _boxes(data: DataSet, source: Path | None, wanted: TrainedOn, skip_bad: bool) -> Tensor | None:
    """Returns the boxes of the test images: from a file or folder, or the data set's own."""
    if source is None:
        if wanted.data != _TINY:
            return None
        own = evaluation.read_tiny_imagenet_boxes(wanted.root, "test", skip_bad=skip_bad)
        return own if data.test_indices is None else own[data.test_indices]
    files = getattr(data.test, "files", None)
    if files is None:
        raise ValueError(
            f"`--boxes` must belong to images in files, but those of {data.name} are not: boxes go "
            "by the files' names."
        )
    return evaluation.read_boxes(source, files, wanted.image_size or max(data.shape[1:]))
