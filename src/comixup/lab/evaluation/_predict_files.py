"""What a trained network makes of image files: the functions behind `comixup predict`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.table import Table
from rich.text import Text
from torch import Tensor

from comixup._checks import check_positive
from comixup.lab._image_files import Skipped, image_files, read_image
from comixup.lab._networks import check_finite
from comixup.lab._tables import csv_table
from comixup.lab.models import Classifier

BATCH = 50
SHOWN = 40
"""Files of which a table has a line; of more it counts the classes."""
TOP = 3
"""Classes that a table shows of each image."""


@dataclass(frozen=True)
class FilePrediction:
    """What a network made of one file.

    Attributes:
        path: the file.
        probabilities: of the classes, in their order; empty if the file cannot be read.
        problem: why it cannot be read; None if it can.
    """

    path: Path
    probabilities: tuple[float, ...] = ()
    problem: str | None = None

    def top(self) -> list[tuple[int, float]]:
        """Returns the most probable classes and their probabilities, the highest first."""
        return sorted(enumerate(self.probabilities), key=lambda pair: -pair[1])[:TOP]


def list_images(paths: Iterable[str | Path], skipped: Skipped | None = None) -> list[Path]:
    """Returns image files: those given, and those below the folders given, each once.

    Args:
        paths: one that does not exist, or a folder without images, raises `FileNotFoundError`.
        skipped: where to note what of the folders is left out.
    """
    skipped = Skipped() if skipped is None else skipped
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if path.is_dir():
            inside = [Path(file) for file in image_files(path, skipped)]
            if not inside:
                raise FileNotFoundError(
                    f"`images` must have image files, but {path} has none. "
                    f"{' '.join(skipped.lines())}".rstrip()
                )
            found |= dict.fromkeys(inside)
        elif path.exists():
            found[path] = None
        else:
            raise FileNotFoundError(
                f"`images` must be files or folders that exist, but there is no {path}."
            )
    if not found:
        raise ValueError("`images` must be one file or folder at least, got none.")
    return list(found)


def predict_files(
    classifier: Classifier,
    files: Sequence[Path],
    *,
    temperature: float = 1.0,
    device: torch.device | str = "cpu",
    after: Callable[[int], object] | None = None,
) -> list[FilePrediction]:
    """Returns the class probabilities of image files, prepared as the network was trained.

    Files that cannot be read are in the result too, with what is wrong with them.

    Args:
        classifier: from `comixup.lab.models.load`.
        files: the images, of any size.
        temperature: what logits are divided by.
        device: where to compute.
        after: called with the number of files done, after each batch.
    """
    check_positive("temperature", temperature)
    preprocessing, model = classifier.preprocessing, classifier.model.to(device)
    found: list[FilePrediction] = []
    for start in range(0, len(files), BATCH):
        batch = [_read(path, classifier) for path in files[start : start + BATCH]]
        views = [view for view in batch if isinstance(view, Tensor)]
        logits = torch.empty(0)
        if views:
            images = preprocessing.normalize(torch.stack(views)).to(device)
            with torch.no_grad():
                logits = model(images)
            check_finite(logits.isfinite().all(1), classifier.path)
        rows = iter(classifier.probabilities(logits.double().cpu() / temperature).tolist())
        for path, view in zip(files[start : start + BATCH], batch, strict=True):
            found.append(
                FilePrediction(path, problem=view)
                if isinstance(view, str)
                else FilePrediction(path, tuple(next(rows)))
            )
        if after is not None:
            after(len(found))
    return found


def predictions_table(classifier: Classifier, found: Sequence[FilePrediction]) -> Table:
    """Returns a table of the most probable classes, a line for each file that can be read.

    It has the first files of many; its caption counts the classes of all of them.
    """
    good = [row for row in found if row.problem is None]
    paths = [row.path.absolute() for row in good]
    folder = os.path.commonpath([path.parent for path in paths]) if good else ""
    table = Table(title=Text(f"{classifier.name} of {classifier.path}"))
    table.add_column("image")
    for rank in range(1, min(TOP, classifier.num_classes) + 1):
        table.add_column(f"class {rank}" if rank > 1 else "class")
        table.add_column("%", justify="right", min_width=5)
    for row, path in zip(good[:SHOWN], paths, strict=False):
        words = [os.path.relpath(path, folder)]
        for index, probability in row.top():
            words += [class_name(classifier, index), f"{100 * probability:.1f}"]
        table.add_row(*(Text(word, no_wrap=True, overflow="ellipsis") for word in words))
    table.caption = Text(f"Images of {folder}.")
    if len(good) > SHOWN:
        counts = Counter(class_name(classifier, row.top()[0][0]) for row in good)
        counted = ", ".join(f"{count} {name}" for name, count in counts.most_common(SHOWN))
        table.caption += Text(
            f" The first {SHOWN} of {len(good)} images, of which are predicted: {counted}. "
            "--csv FILE has all of them."
        )
    return table


def predictions_csv(classifier: Classifier, found: Sequence[FilePrediction]) -> str:
    """Returns CSV: file, predicted class, its probability, each class's, and what went wrong."""
    names = [class_name(classifier, index) for index in range(classifier.num_classes)]
    rows: list[dict[str, object]] = []
    for row in found:
        best, probability = row.top()[0] if row.probabilities else (None, None)
        of_classes = row.probabilities or [None] * len(names)
        rows.append(
            {
                "file": str(row.path),
                "class": None if best is None else names[best],
                "probability": probability,
                **{f"p({name})": p for name, p in zip(names, of_classes, strict=True)},
                "problem": row.problem,
            }
        )
    return csv_table(rows)


def class_name(classifier: Classifier, index: int) -> str:
    """Returns the name of a class, or its index if the weights do not tell names."""
    return classifier.classes[index] if classifier.classes else str(index)


def _read(path: Path, classifier: Classifier) -> Tensor | str:
    """Returns what the network sees of a file, or why it cannot be read."""
    try:
        picture = read_image(path)
    except ValueError as error:
        return str(error)
    return classifier.preprocessing.view(picture)
