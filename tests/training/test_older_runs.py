"""A run of version 0.1, kept here in its format, is still finished, evaluated and compared.

Written by commit 3a85ccc, without pictures, and without the checkpoint's weights, which a finished
run does not need. Its test fails if a change makes finished runs another run, or unreadable.
"""

import json
import shutil
from pathlib import Path

import pytest

from comixup.training import read_logits
from comixup.training._folder import (
    CHECKPOINT,
    LOGITS,
    METADATA,
    METRICS,
    RESULT,
    WEIGHTS,
    read_metrics,
)
from small_runs import contents, run

KEPT = Path(__file__).with_name("run_of_version_0_1")
FILES = {CHECKPOINT, LOGITS, METRICS, RESULT, METADATA, WEIGHTS, "evaluation.json"}


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(KEPT, tmp_path / "runs" / "digits" / "cutmix" / "seed-0")


def command_of(folder, **changes):
    """Returns the arguments that trained the run, as it tells them, but for some of them."""
    words = json.loads((folder / METADATA).read_text())["starts"][0]["command"][1:]
    pairs = {"--method": "cutmix", "--out": str(folder.parents[2])}
    pairs |= {f"--{name}": value for name, value in changes.items()}
    rest = words[words.index("--model") :]
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    return ["train", "digits", *(word for pair in (options | pairs).items() for word in pair)]


def test_it_is_complete():
    assert {path.name for path in KEPT.iterdir()} == FILES


def test_it_is_finished(folder, tmp_path):
    before = contents(folder)
    code, text = run(command_of(folder), tmp_path / "log")
    assert code == 0, text
    assert "66.67" in text
    assert "epoch 1/2" not in text
    after = contents(folder)
    after.pop(folder / "lock")
    assert after == before


@pytest.mark.parametrize(
    ("name", "value"), [("epochs", "3"), ("width", "2"), ("validation-seed", "4"), ("lr", "0.5")]
)
def test_another_run_is_not_taken_for_it(folder, tmp_path, name, value):
    before = contents(folder)
    code, text = run(command_of(folder, **{name: value}), tmp_path / "log")
    assert code == 1
    assert "`folder` must be this run's own" in text
    assert before.items() <= contents(folder).items()


def test_other_data_are_not_taken_for_its_own(folder, tmp_path):
    code, text = run(command_of(folder, classes="1-3"), tmp_path / "log")
    assert code == 1
    assert "`folder` must be this run's own" in text


def test_it_is_evaluated(folder, tmp_path):
    (folder / "evaluation.json").unlink()
    code, text = run(["evaluate", str(folder), "--device", "cpu"], tmp_path / "log")
    assert code == 0, text
    found = json.loads((folder / "evaluation.json").read_text())
    kept = json.loads((KEPT / "evaluation.json").read_text())
    assert (found["method"], found["seed"], found["recipe"]) == ("cutmix", 0, "digits")
    for name, value in kept["figures"].items():
        assert found["summary"][name] == pytest.approx(value, rel=1e-3)
    final = json.loads((folder / RESULT).read_text())["final"]["test"]
    assert found["summary"]["error"] == pytest.approx(final["error"])
    assert found["summary"]["passes"] == 2


def test_it_is_compared(folder, tmp_path):
    newer = shutil.copytree(KEPT, tmp_path / "runs" / "digits" / "cutmix" / "seed-1")
    metadata = json.loads((newer / METADATA).read_text()) | {"seed": 1}
    (newer / METADATA).write_text(json.dumps(metadata))
    code, text = run(["evaluate", str(newer), "--device", "cpu"], tmp_path / "log")
    assert code == 0, text
    out = tmp_path / "comparison"
    words = ["compare", str(folder), str(newer), "--out", str(out)]
    code, text = run(words, tmp_path / "log")
    assert code == 0, text
    assert (out / "comparison.csv").read_text().splitlines()[1].startswith("cutmix,2,66.66666")


def test_its_tables_are_read():
    rows, result = read_metrics(KEPT), json.loads((KEPT / RESULT).read_text())
    assert [row["epoch"] for row in rows] == [1, 2]
    assert rows[-1]["test_error"] == pytest.approx(result["last"], rel=1e-5)
    logits, targets = read_logits(KEPT / LOGITS)["test"]
    wrong = (logits.argmax(1) != targets).double().mean().item()
    assert 100 * wrong == pytest.approx(result["final"]["test"]["error"], abs=1)
