"""`comixup evaluate`, `comixup compare`."""

from __future__ import annotations

import sys
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
    wanted = [evaluation.measured_on(run, data_set, data, image_size) for run in _checked(runs)]
    folders = evaluation.output_folders(runs, out)
    for folder in folders:  # what cannot be written is found out before anything is computed
        with locked(folder):
            evaluation.check_replaceable(folder)
    loaded: dict[TrainedOn, tuple[DataSet, Tensor | None]] = {}
    for run, chosen, folder in zip(runs, wanted, folders, strict=True):
        if chosen not in loaded:
            dataset, truth, notes = evaluation.load_test_data(chosen, boxes, skip_bad=skip_bad)
            loaded[chosen] = dataset, truth
            for note in notes:
                print_line(console, note)
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
        known = dict.fromkeys(run.method for run in read)
        given, reference = reference, method_name(reference, known)
        print_synonyms([given], [reference], "--reference")
    found = evaluation.compare(read, reference=reference)
    panels: dict[str, list[evaluation.RunRecord]] = {}
    for run in read:
        panels.setdefault(run.method, []).append(run)
    evaluation.write_comparison(found, out)
    evaluation.draw_reliability(panels, out / "reliability.png")
    console.print(evaluation.as_rich(found))
    print_line(console, f"Tables and reliability diagrams are in {out}.")


def _checked(runs: tuple[Path, ...]) -> tuple[Path, ...]:
    if not runs:
        raise ValueError("`runs` must be one folder or file at least, got none.")
    return runs


def _write(found: evaluation.Evaluation, folder: Path) -> None:
    """Writes an evaluation; prints it if it cannot be written, so that it is not lost."""
    try:
        evaluation.write_evaluation(found, folder)
    except OSError:
        sys.stdout.write(evaluation.evaluation_text(found))
        sys.stdout.flush()
        raise
