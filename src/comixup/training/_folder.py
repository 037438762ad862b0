"""The folder of a run, which tells its whole story and belongs to one process at a time."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from comixup.training._files import write_whole

STORY = "run.json"
CHECKPOINT = "checkpoint.pt"
WEIGHTS = "weights.safetensors"
LOGITS = "logits.safetensors"
METRICS = "metrics.csv"
RESULT = "result.json"
CURVES = "curves.png"
FIRST_BATCH = "first_batch.png"
EVENTS = "tensorboard"
_LOCK = "lock"

_PACKAGES = ("comixup", "torch", "torchvision", "lightning-fabric", "numpy", "timm")


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Holds a folder for this process; another that wants it gets a sentence.

    The system lets go of the claim when the process ends, however it ends.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("a+")
    except OSError as error:
        raise OSError(
            f"`folder` must be one that can be written to, but {folder} is not "
            f"({error.strerror or error}). Choose another with --out."
        ) from error
    with file:
        try:
            _lock(file.fileno())
        except (BlockingIOError, PermissionError):  # systems differ in which
            raise ValueError(
                f"`folder` must not be in use, but another process is training in {folder}. Wait "
                "for it, or choose another folder with --out."
            ) from None
        yield


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl  # noqa: PLC0415

        # Processes that read images are forks of this one. They would hold a lock of `flock`'s
        # for some seconds more than this process lives, if it is killed; they never hold these.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_story(folder: Path, recipe: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    """Writes what is trained, with what, where and since when; each start adds a line."""
    path = folder / STORY
    starts: list[Any] = []
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        starts = list(json.loads(path.read_text())["starts"])
    here = {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "versions": {**_versions(), "python": platform.python_version()},
        "commit": _commit(),
        "machine": _machine(),
    }
    story = {**run, "recipe": recipe, "starts": [*starts, here]}
    write_whole(path, json.dumps(story, indent=2) + "\n")


def write_metrics(folder: Path, history: Sequence[Mapping[str, float]]) -> None:
    """Writes the whole history as a table: what a checkpoint holds and what it shows agree."""
    columns = list(dict.fromkeys(name for row in history for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in history:
        writer.writerow({name: f"{value:.6g}" for name, value in row.items()})
    write_whole(folder / METRICS, text.getvalue())


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """Returns the rows that `write_metrics` wrote."""
    with (folder / METRICS).open(newline="") as file:
        return [
            {name: float(value) for name, value in row.items() if value}
            for row in csv.DictReader(file)
        ]


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def _commit() -> str | None:
    """Returns the commit of the source tree that comixup runs from; None where there is none."""
    here = Path(__file__).parent
    try:
        git = ["git", "-C", str(here), "describe", "--always", "--dirty", "--exclude=*"]
        answer = subprocess.run(git, capture_output=True, text=True, timeout=10, check=True)
        top = subprocess.run(
            [*git[:3], "rev-parse", "--show-toplevel"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # Installed inside some other project's tree, the commit would be that project's.
    ours = here.relative_to(Path(top.stdout.strip())) == Path("src/comixup/training")
    return answer.stdout.strip() if ours else None


def _machine() -> dict[str, Any]:
    gpus = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
    }
