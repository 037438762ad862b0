"""Localization and corrupted backgrounds with a network that was trained on ImageNet.

    python studies/localization/study.py prepare   # Tiny-ImageNet as a folder, boxes, the network
    python studies/localization/study.py run       # fine-tunes it, evaluates both
    python studies/localization/study.py report    # a table of what was measured

Tiny-ImageNet's images are enlarged to 128 pixels. "As it is" is EfficientNet-Lite0 with the rows of
its last layer that belong to the data set's classes; it has seen ImageNet, of which Tiny-ImageNet's
images are. Needs the extra `pretrained`; COMIXUP_DATA names the folder of the data sets.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import torch
import tyro
from rich.console import Console
from rich.table import Table
from safetensors.torch import save_file
from timm.data import ImageNetInfo

from comixup.lab import models

NETWORK, SIZE = "efficientnet-lite0", 128
OUT = Path("runs/localization")
RESULTS = Path(__file__).parent / "results.csv"
IMAGES_PER_CLASS = 10
ARMS = ("as it is", "fine-tuned")
COLUMNS = {
    "error, %": "error",
    "Top-1 Loc, %": "top1_loc",
    "GT-known Loc, %": "gt_known",
    "error, replaced background, %": "replaced_error",
    "noise, %": "noise_error",
}


def source() -> Path:
    """Returns the folder of Tiny-ImageNet."""
    root = Path(os.environ["COMIXUP_DATA"])
    return next(path.parent for path in sorted(root.glob("tiny-imagenet*/wnids.txt")))


def prepare(out: Path = OUT) -> None:
    """Lay out images and boxes, and write the weights of the network as it is.

    Args:
        out: folder of all that is made.
    """
    root, rows = source(), []
    classes = sorted((root / "wnids.txt").read_text().split())
    for name in classes:
        for image in (root / "train" / name / "images").iterdir():
            link(image, out / "images" / "train" / name / image.name)
    for line in (root / "val" / "val_annotations.txt").read_text().splitlines():
        image, name, *box = line.split("\t")
        link(root / "val" / "images" / image, out / "images" / "val" / name / image)
        rows.append([image, *box])
    with (out / "boxes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["file", "x0", "y0", "x1", "y1"], *rows])

    numbers = [ImageNetInfo().label_names().index(name) for name in classes]
    weights = models.build(NETWORK, 1000, shape=(3, SIZE, SIZE), pretrained=True).state_dict()
    for name in ("classifier.weight", "classifier.bias"):
        weights[name] = weights[name][torch.tensor(numbers)].clone()
    trained = models.pretrained_preprocessing(NETWORK)
    header = models.Header(
        model=NETWORK,
        num_classes=len(classes),
        shape=(3, SIZE, SIZE),
        classes=tuple(classes),
        preprocessing=models.Preprocessing(
            (3, SIZE, SIZE), trained.mean, trained.std, resize=round(SIZE / 0.875)
        ),
    )
    save_file(weights, out / "as-it-is.safetensors", header.as_metadata())


def link(image: Path, new: Path) -> None:
    """Makes an image appear at another place."""
    new.parent.mkdir(parents=True, exist_ok=True)
    if not new.exists():
        new.symlink_to(image.resolve())


def run(out: Path = OUT) -> None:
    """Fine-tune the network, and evaluate it as it is and fine-tuned.

    Args:
        out: as given to `prepare`.
    """
    few = ["--images-per-class", IMAGES_PER_CLASS, "--image-size", SIZE, "--pretrained"]
    call("train", out / "images", "--method", "vanilla", *few, "--out", out / "runs")
    data = ["--data", out / "images", "--data-set", "folder", "--boxes", out / "boxes.csv"]
    for arm in ARMS:
        call("evaluate", weights_of(arm, out), *data, "--out", out / "measured" / arm)


def weights_of(arm: str, out: Path) -> Path:
    """Returns the file or the folder of an arm's weights."""
    if arm == "fine-tuned":
        return out / "runs" / "images" / "vanilla" / "seed-0"
    return out / "as-it-is.safetensors"


def call(*words: object) -> None:
    """Runs `comixup` with these words."""
    subprocess.run([sys.executable, "-m", "comixup", *map(str, words)], check=True)


def report(out: Path = OUT) -> None:
    """Write results.csv from what was measured, where it is, and print a table.

    Args:
        out: as given to `run`.
    """
    rows = []
    for arm in ARMS:
        path = out / "measured" / arm / "evaluation.json"
        if path.exists():
            rows.append({"network": arm, **json.loads(path.read_text())["summary"]})
    if rows:
        with RESULTS.open("w", newline="") as file:
            columns = list(rows[0])  # those of a run have what it cost too
            writer = csv.DictWriter(file, columns, "", "ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(
                {k: v if k == "network" else f"{v:.2f}" for k, v in row.items()} for row in rows
            )
    with RESULTS.open() as file:
        kept = list(csv.DictReader(file))
    table = Table("network", *COLUMNS)
    for row in kept:
        table.add_row(row["network"], *(row[name] for name in COLUMNS.values()))
    Console().print(table)


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"prepare": prepare, "run": run, "report": report})
