"""`comixup evaluate`, `compare`, `predict` and `export`: commands on trained networks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from comixup.cli._options import (
    Device,
    Flag,
    Folder,
    check_data_set,
    check_exists,
    check_writable,
    find_device,
    option_help,
)
from comixup.lab import evaluation
from comixup.lab._limits import check_numbers
from comixup.lab._locks import locked
from comixup.lab._progress import print_line
from comixup.lab.training._hardware import WORKERS

if TYPE_CHECKING:
    from torch import Tensor

    from comixup.lab.data import DataSet
    from comixup.lab.evaluation._trained import TrainedOn

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
    maps: Literal["cam", "grad-cam"] = "cam",
    layer: Annotated[str | None, option_help("NAME", "(default: found)")] = None,
    device: Device = "auto",
    workers: int = WORKERS,
    seed: int = 0,
    skip_bad: Flag = False,
    out: Annotated[Path | None, option_help("FOLDER", "(default: the run's own)")] = None,
) -> None:
    """Measure trained networks on the test images: error, calibration and, with boxes, more.

    Args:
        runs: folders of runs, or files of weights (.safetensors, .pt, .pth).
        data: folder of the data sets.
        data_set: name of the data set to measure on.
        boxes: a CSV file or a folder of XML files with boxes of the objects, for localization and
            background corruption. Tiny-ImageNet brings its own.
        model: name of the network, for weights that do not say.
        image_size: pixels per side, for weights that do not say and data sets that are cropped.
        maps: how objects are found: cam or grad-cam.
        layer: the module of the network whose feature maps are used.
        device: cpu, cuda, mps, ...
        workers: processes that read images from the disk.
        seed: of the background corruption.
        skip_bad: leave out images that cannot be read, and say which.
        out: where the metrics and figures of a single run go.
    """
    check_data_set(data_set)
    check_exists("runs", *runs)
    if boxes is not None:
        check_exists("--boxes", boxes)
    check_numbers(workers=workers, seed=seed, image_size=image_size)
    if out is not None:
        check_writable("--out", out)
    # Here, so that --help does not wait for torch.
    from comixup.lab.evaluation._evaluate import (  # noqa: PLC0415
        output_folders,
        write_evaluation,
    )
    from comixup.lab.training._processes import check_alone  # noqa: PLC0415
    from comixup.lab.training._setup import shape_of  # noqa: PLC0415

    check_alone("evaluate")
    console, on = Console(), find_device(device)
    wanted = [evaluation.trained_on(run, data_set, data, image_size) for run in runs]
    for run, chosen in zip(runs, wanted, strict=True):
        if chosen.data is None:
            raise ValueError(
                f"`data_set` must be given for {run}, which does not say what it was trained on. "
                "Name it with --data-set, for instance --data-set cifar100."
            )
    folders = output_folders(runs, out)
    loaded: dict[TrainedOn, tuple[DataSet, Tensor | None]] = {}
    for run, chosen, folder in zip(runs, wanted, folders, strict=True):
        if chosen not in loaded:
            dataset, truth, notes = chosen.load_test_data(boxes, skip_bad=skip_bad)
            loaded[chosen] = dataset, truth
            for note in notes:
                print_line(console, note)
        dataset, truth = loaded[chosen]
        trained = evaluation.load_trained(
            run,
            model=model,
            num_classes=dataset.num_classes,
            shape=shape_of(dataset, chosen.image_size),
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
            console.print(found.table())
            write_evaluation(found, folder)
            found.draw(folder)
        print_line(console, f"Metrics and figures are in {folder}.\n")


def compare(
    runs: _Runs,
    reference: Annotated[str | None, option_help("METHOD", "(default: comixup)")] = None,
    out: Folder = Path("comparison"),
) -> None:
    """Put evaluated runs side by side: means and spreads over seeds, tests, tables, one figure.

    Args:
        runs: folders that `comixup evaluate` has written into.
        reference: the method that others are tested against.
        out: where the tables (.md, .csv) and the reliability diagrams go.
    """
    check_exists("runs", *runs)
    check_writable("--out", out)
    from comixup.lab.training._processes import check_alone  # noqa: PLC0415 - needs torch

    check_alone("compare")
    # Here, so that --help does not wait for scipy.
    from comixup.lab.evaluation._measure_run import read_evaluation  # noqa: PLC0415
    from comixup.lab.evaluation._tables import as_rich, write_comparison  # noqa: PLC0415

    console = Console()
    read = [read_evaluation(run) for run in runs]
    found = evaluation.compare(read, reference=reference)
    panels: dict[str, list[evaluation.RunRecord]] = {}
    for run in read:
        panels.setdefault(run.method, []).append(run)
    write_comparison(found, out)
    evaluation.draw_reliability(panels, out / "reliability.png")
    console.print(as_rich(found))
    print_line(console, f"Tables and reliability diagrams are in {out}.")


def predict(
    run: Annotated[Path, tyro.conf.Positional, option_help("RUN")],
    images: Annotated[tuple[Path, ...], tyro.conf.Positional, option_help("IMAGE ...")],
    csv: Annotated[Path | None, option_help("FILE", "(default: none)")] = None,
    calibrated: Flag = False,
    device: Device = "auto",
) -> None:
    """Classify image files by a trained network: a table of the most probable classes.

    Files that cannot be read are named at the end, and the exit code is 1 then.

    Args:
        run: folder of a run, or its weights.
        images: files, or folders of them.
        csv: file for the probabilities of all classes.
        calibrated: divide logits by the temperature that fits the run's validation images best.
        device: cpu, cuda, mps, ...
    """
    check_exists("run", run)
    check_exists("images", *images)
    if csv is not None:
        check_writable("--csv", csv.parent)
    # Here, so that --help does not wait for torch.
    from comixup._atomic_write import atomic_write, make_folder  # noqa: PLC0415
    from comixup.lab import models  # noqa: PLC0415
    from comixup.lab._image_files import Skipped  # noqa: PLC0415
    from comixup.lab._progress import progress_bar  # noqa: PLC0415
    from comixup.lab.evaluation._measure_run import run_temperature  # noqa: PLC0415
    from comixup.lab.evaluation._predict_files import (  # noqa: PLC0415
        list_images,
        predictions_csv,
        predictions_table,
    )

    console, skipped = Console(), Skipped()
    classifier, files = models.load(run), list_images(images, skipped)
    for line in skipped.lines():
        print_line(console, line)
    folder = run if run.is_dir() else run.parent
    temperature = run_temperature(folder) if calibrated else 1.0
    with progress_bar(console, "predictions", len(files)) as after:
        found = evaluation.predict_files(
            classifier,
            files,
            temperature=temperature,
            device=find_device(device),
            after=after,
        )
    if csv is not None:  # before anything is printed, which may fail
        make_folder(csv.parent)
        atomic_write(csv, predictions_csv(classifier, found))
    console.print(predictions_table(classifier, found))
    if calibrated:
        print_line(console, f"Calibrated by the temperature {temperature:.3f}.")
    if csv is not None:
        print_line(console, f"The probabilities of all classes are in {csv}.")
    problems = [row.problem for row in found if row.problem is not None]
    if problems:
        raise ValueError(
            f"{len(problems)} of {len(found)} images cannot be read: {' '.join(problems)}"
        )


def export(
    run: Annotated[Path, tyro.conf.Positional, option_help("RUN")],
    to: Literal["onnx", "pt2"],
    out: Annotated[Path | None, option_help("FILE", "(default: in the run's folder)")] = None,
) -> None:
    """Write a trained network for other programs, with its preprocessing, and check it.

    Args:
        run: folder of a run, or its weights.
        to: onnx or pt2 (a program of torch.export).
        out: the file to write.
    """
    check_exists("run", run)
    folder = run if run.is_dir() else run.parent
    check_writable("--out", folder if out is None else out.parent)
    # Here, so that --help does not wait for torch.
    from comixup.lab import models  # noqa: PLC0415
    from comixup.lab.models._export import FORMATS  # noqa: PLC0415

    console, classifier = Console(), models.load(run)
    found = models.export(classifier, out or folder / FORMATS[to], to)
    print_line(
        console,
        f"{found.path} is written. Its logits of {found.images} random images differ from the "
        f"network's by {found.difference:.2g} at most.",
    )
