"""`comixup predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from comixup.cli._options import option_help, print_line


def predict(
    run: Annotated[Path, tyro.conf.Positional, option_help("RUN")],
    images: Annotated[tuple[Path, ...], tyro.conf.Positional, option_help("IMAGE ...")],
    csv: Annotated[Path | None, option_help("FILE", "(default: none)")] = None,
    calibrated: Annotated[bool, tyro.conf.FlagCreatePairsOff, option_help("", "")] = False,
    maps: Annotated[Path | None, option_help("FOLDER", "(default: none)")] = None,
    map_method: Annotated[Literal["cam", "grad-cam"], option_help("cam|grad-cam")] = "cam",
    layer: Annotated[str | None, option_help("NAME", "(default: found)")] = None,
    top: Annotated[int, option_help("N")] = 3,
    device: Annotated[str, option_help("NAME", "(default: cuda if there, else cpu)")] = "auto",
) -> None:
    """Classify image files by a trained network: a table of the most probable classes.

    Files that cannot be read are named at the end, and the exit code is 1 then.

    Args:
        run: folder of a run, or its weights.
        images: files, or folders of them.
        csv: file for the probabilities of all classes.
        calibrated: divide logits by the temperature that fits the run's validation images best.
        maps: folder for pictures of where each image shows the predicted class.
        map_method: how activation maps are computed: cam or grad-cam.
        layer: the module of the network whose feature maps are used.
        top: classes of each image in the table.
        device: cpu, cuda, mps, ...
    """
    # Here, so that --help does not wait for torch.
    from comixup._atomic_write import atomic_write, make_folder  # noqa: PLC0415
    from comixup.cli._device import find_device  # noqa: PLC0415
    from comixup.lab import evaluation, models  # noqa: PLC0415
    from comixup.lab._progress import progress_bar  # noqa: PLC0415

    files = evaluation.list_images(images)
    classifier = models.load(run)
    folder = run if run.is_dir() else run.parent
    temperature = evaluation.run_temperature(folder) if calibrated else 1.0
    console = Console()
    with progress_bar(console, "predictions", len(files)) as after:
        found = evaluation.predict_files(
            classifier,
            files,
            temperature=temperature,
            device=find_device(device),
            maps=maps,
            map_method=map_method,
            layer=layer,
            after=after,
        )
    if csv is not None:  # before anything is printed, which may fail
        make_folder(csv.parent)
        atomic_write(csv, evaluation.predictions_csv(classifier, found))
    console.print(evaluation.predictions_table(classifier, found, top))
    if calibrated:
        print_line(console, f"Calibrated by the temperature {temperature:.3f}.")
    if csv is not None:
        print_line(console, f"The probabilities of all classes are in {csv}.")
    if maps is not None:
        print_line(console, f"Activation maps are in {maps}.")
    problems = [row.problem for row in found if row.problem is not None]
    if problems:
        raise ValueError(
            f"{len(problems)} of {len(found)} images cannot be read: {' '.join(problems)}"
        )
