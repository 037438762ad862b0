"""The stages of the study follow from collected runs, by its rules."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from comixup.lab.evaluation import RunRecord, merge_runs, write_runs
from what_to_train_with import stages

_BEST = {
    "one-pass-cutmix": 20.0,
    "one-pass-tau-1": 21.0,
    "input-2": 22.0,
    "input-2-ema": 21.5,
    "cutmix-1": 24.0,
    "coin-off": 23.0,
    "trivial-coin-3e-4": 10.0,
}
"""Errors of arms that are planted to win; all others have one of 40 %."""


def record(task: stages.Task) -> RunRecord:
    """Returns a run of a task as it is collected."""
    error = _BEST.get(task.arm, 40.0) + (0.0 if "rand-240" in task.condition else 1.0)
    names = ("error", "top5_error", "nll", "ece", "temperature", "scaled_nll", "scaled_ece")
    metrics = dict.fromkeys((*names, "train_error", "validation_error", "cpu_seconds"), 1.0)
    metrics |= {"error": error, "validation_error": error}
    return RunRecord(task.arm, task.seed, metrics, task.condition)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[stages.Task]:
    """All runs in the order in which they are trained, until none is missing."""
    done: list[stages.Task] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "RUNS", tmp_path_factory.mktemp("study") / "runs.csv")
        while left := stages.missing():
            done += left
            write_runs(merge_runs(stages.collected(), map(record, left)), stages.RUNS)
    return done


def test_number_of_runs(trained: list[stages.Task]) -> None:
    """Each stage has the runs that the rules give it, once each."""
    keys = [task.key for task in trained]
    assert len(set(keys)) == len(keys)
    counts = Counter(task.condition for task in trained)
    assert sum(n for name, n in counts.items() if name.startswith("stage0/")) == 24
    # Twelve and twelve, six and six with two more seeds, three and three with three more; of these
    # no mixing and input mixup with alpha = 1 have been trained in stage 0.
    assert 24 + 24 + 18 - 4 <= counts["stage1/rand-240"] <= 24 + 24 + 18 - 2
    assert counts["stage2/cifar100-rand-240"] == 60
    assert counts["stage2/cifar100-crop-flip-120"] == 20
    assert counts["stage2/tiny-imagenet-rand-180"] == 40
    for data in stages.FINE_TUNING_SETS:
        assert counts[f"fine-tuning-rates/{data}"] == 18 + 12
        assert counts[f"fine-tuning/{data}"] == 30


def test_what_is_confirmed(trained: list[stages.Task]) -> None:
    """The planted winners are confirmed, and on Tiny-ImageNet the two strongest rivals."""

    def arms(condition: str) -> set[str]:
        return {task.arm for task in trained if task.condition == condition}

    assert arms("stage2/cifar100-rand-240") == {
        *("one-pass-cutmix", "one-pass-cutmix-other-maps"),
        *("no-mixing", "input-2-ema", "cutmix-1", "coin-off"),
    }
    assert arms("stage2/cifar100-crop-flip-120") == {"one-pass-cutmix", "coin-off"}
    assert arms("stage2/tiny-imagenet-rand-180") == {
        *("one-pass-cutmix", "no-mixing", "input-2-ema", "coin-off")
    }


def test_commands(trained: list[stages.Task], tmp_path: Path) -> None:
    """Commands name method, seed and folder; shuffled maps are a method; rates are the best."""
    commands = {
        task.key: " ".join(task.command(tmp_path))
        for task in trained
        if task.seed == 0 and task.data != "tiny-imagenet"  # whose list of images needs the images
    }
    shuffled = commands["stage2/cifar100-rand-240", "one-pass-cutmix-other-maps", 0]
    assert "cifar100-small-data --method comixup-one-pass-shuffled+cutmix --seeds 0" in shuffled
    assert "--classes 50-69" in shuffled
    tuned = commands["fine-tuning/photos44", "trivial-coin", 0]
    assert "/photos44 --method input+cutmix" in tuned
    assert "--lr 3e-4" in tuned
    assert "--lr 1e-4" in commands["fine-tuning/photos44", "trivial", 0]
