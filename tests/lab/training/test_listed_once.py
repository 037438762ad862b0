"""Of processes that train together, the first one lists the files and hands its list to all."""

import json
import os
import sys
from pathlib import Path

import pytest
import torch

from pictures import skip_drawing
from small_runs import commands, run, weights_of

sys.path.append(str(Path(__file__).parents[1] / "data"))
from data_files import write_folder

SMALL = ("--model=small", "--width=8", "--epochs=1", "--batch-size=4", "--image-size=16")
SMALL = (*SMALL, "--accelerator=cpu", "--workers=0", "--method=cutmix")


def count_looks(root, report):
    """Counts what this process asks the system of folders and files below a root, until it trains.

    It writes the counts, by function, when its trainer is made.
    """
    from comixup.lab.training import _train  # noqa: PLC0415 - in the process alone

    counts = {}

    def counted(name):
        function = getattr(os, name)

        def call(path=".", *arguments, **keywords):
            if not isinstance(path, int) and os.fsdecode(path).startswith(str(root)):
                counts[name] = counts.get(name, 0) + 1
            return function(path, *arguments, **keywords)

        setattr(os, name, call)

    class Trainer(_train.Trainer):
        def __init__(self, *arguments):
            report.write_text(json.dumps(counts))
            super().__init__(*arguments)

    for name in ("stat", "lstat", "scandir", "listdir", "open"):
        counted(name)
    _train.Trainer = Trainer
    skip_drawing()


def table_of(root):
    """Writes a table of the images of a folder; returns its path."""
    files = sorted(root.glob("*/*/*.*g"))
    lines = [f"{f.relative_to(root)},{f.parent.name},{f.parents[1].name}" for f in files]
    (root / "table.csv").write_text("\n".join(["path,label,split", *lines]) + "\n")
    return root / "table.csv"


@pytest.mark.parametrize("kind", ["folder", "table", "imagenet"])
def test_the_other_processes_list_no_files(tmp_path, kind):
    root = write_folder(tmp_path / "imagenet", train=8)  # whole batches, however divided
    what = {
        "folder": [str(root)],
        "table": [str(table_of(root))],
        "imagenet": ["imagenet-resnet50", f"--data={tmp_path}"],
    }[kind]
    counts = [tmp_path / f"counts-{rank}" for rank in range(2)]
    both = commands(
        2,
        ["train", *what, *SMALL, f"--out={tmp_path / 'two'}"],
        tmp_path / "log",
        before=[count_looks] * 2,
        details=[(root, path) for path in counts],
    )
    assert [one.end() for one in both] == [0, 0], [one.text for one in both]
    first, second = (json.loads(path.read_text()) for path in counts)
    files = len(list(root.glob("*/*/*.*g")))
    assert first["stat"] >= files
    assert second.get("scandir", 0) == second.get("listdir", 0) == second.get("open", 0) == 0
    assert second.get("stat", 0) + second.get("lstat", 0) < 10, second  # the folder, no files
    if kind != "imagenet":
        assert "images of 2 classes" in both[0].text
        assert both[1].text == ""
    # It is the training of one process that cuts its batches in two.
    alone = ["train", *what, *SMALL, f"--out={tmp_path / 'one'}", "--accumulate=2"]
    assert run(alone, tmp_path / "log")[0] == 0
    one, two = (next((tmp_path / name).glob("*/cutmix/seed-0")) for name in ("one", "two"))
    weights, others = weights_of(one), weights_of(two)
    for name in weights:
        if name.endswith("running_mean"):  # two updates per step with a half each; or one
            assert not torch.allclose(weights[name], others[name], rtol=0.01), name
        elif "running" not in name and "tracked" not in name:
            torch.testing.assert_close(others[name], weights[name], rtol=1e-4, atol=1e-5)
    digests = [
        json.loads((folder / "run.json").read_text())["test_digest"] for folder in (one, two)
    ]
    assert digests[0] == digests[1]
