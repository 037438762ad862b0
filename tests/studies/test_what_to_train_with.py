"""The stages of the study follow from collected runs, by its rules."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from comixup.lab.evaluation import RunRecord, merge_runs, write_runs
from what_to_train_with import page, stages, study

_BEST = {
    "one-pass-cutmix": 20.0,
    "one-pass-cutmix-ema": 20.0,
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
    error += 0.1 * (len(task.arm) * task.seed % 7)
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
    assert counts["stage2/cifar100-rand-240"] == 60 + 30  # with averaged weights
    assert counts["stage2/cifar100-crop-flip-120"] == 20
    assert counts["stage2/tiny-imagenet-rand-180"] == 40
    for data in stages.FINE_TUNING_SETS:
        assert counts[f"fine-tuning-rates/{data}"] == 18 + 12
        assert counts[f"fine-tuning/{data}"] == 30
    assert counts["records"] == 10 * len(stages.RECORDS)
    assert not any(name.startswith("curves/") for name in counts)  # the planted winner won


def test_curves_of_a_mode_that_did_not_win(
    trained: list[stages.Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an error above a simple rival's on one set, the mode is not recommended."""
    monkeypatch.setattr(stages, "RUNS", tmp_path / "runs.csv")
    runs = [record(task) for task in trained]
    write_runs(runs, stages.RUNS)
    assert stages.recommended()
    assert not list(stages.curves())
    lost = [
        dataclasses.replace(run, metrics={**run.metrics, "error": 60.0 + run.seed})
        if run.key[:2] == ("stage2/tiny-imagenet-rand-180", "one-pass-cutmix-ema")
        else run
        for run in runs
    ]
    write_runs(lost, stages.RUNS)
    assert stages.recommended() is False
    assert "To train with: Input" in page.answer()  # or CutMix, with averaged weights
    augmented = {"one-pass-cutmix", "no-mixing", "input-2-ema"}
    assert {task.arm for task in stages.curves()} == {*augmented, "no-mixing-crop-flip"}
    asked = {f"curves/{n}-images" for n in (20, 50, 250)}
    asked |= {f"curves/{n}-epochs" for n in (60, 120, 480)}
    wanted = dict.fromkeys(asked, 12) | {"curves/240-epochs": 3}  # without the augmentation
    assert Counter(task.condition for task in stages.curves()) == wanted
    write_runs([*lost, *map(record, stages.curves())], stages.RUNS)
    rows = [line.split(" | ") for line in page.curves_tables().splitlines() if "| " in line]
    assert sum(row[0] == "| Vanilla, crops and flips" for row in rows) == 2
    assert all(cell.strip(" |") for row in rows for cell in row)  # no point is missing


def test_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is bold if it is clearly below the record before it, and compared with that."""
    monkeypatch.setattr(stages, "RUNS", tmp_path / "runs.csv")
    monkeypatch.setattr(stages, "RECORDS", {name: ("vanilla", name) for name in "abcd"})
    base = {"a": 30.0, "b": 31.0, "c": 28.0, "d": 27.99}
    runs = [
        RunRecord(
            name, seed, {"error": base[name] + 0.1 * (seed * len(base) * ord(name) % 7)}, "records"
        )
        for name in "abcd"
        for seed in stages.RECORD_SEEDS
    ]
    write_runs(runs, stages.RUNS)
    rows = [line.split(" | ") for line in page.records_table().splitlines() if "`vanilla" in line]
    assert [row[0] for row in rows] == ["| **a**", "| b", "| **c**", "| d"]
    assert rows[2][2].startswith("-1.9")  # from a, not from b
    write_runs(runs[:-1], stages.RUNS)
    assert "`vanilla d`" not in page.records_table()  # a seed is missing


def test_what_is_confirmed(trained: list[stages.Task]) -> None:
    """The planted winners are confirmed, and averaged weights on Tiny-ImageNet."""

    def arms(condition: str) -> set[str]:
        return {task.arm for task in trained if task.condition == condition}

    assert arms("stage2/cifar100-rand-240") == {
        *("one-pass-cutmix", "one-pass-cutmix-other-maps"),
        *("no-mixing", "input-2-ema", "cutmix-1", "coin-off"),
        *("coin-off-ema", "one-pass-cutmix-ema", "no-mixing-ema"),
    }
    assert arms("stage2/cifar100-crop-flip-120") == {"one-pass-cutmix", "coin-off"}
    assert arms("stage2/tiny-imagenet-rand-180") == {
        *("one-pass-cutmix-ema", "no-mixing", "no-mixing-ema", "coin-off-ema")
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


def test_runs_side_by_side_have_different_seeds() -> None:
    """Runs of one seed follow one another: the first draws the augmented images for all."""
    wanted = [stages.Task("one", arm, seed, ()) for seed in range(3) for arm in "ab"]
    wanted += [stages.Task("another", "a", seed, ()) for seed in range(2)]
    order = [task.key for task in study.interleaved(wanted, jobs=2)]
    assert order == [
        ("one", "a", 0),
        ("one", "a", 1),
        ("one", "b", 0),
        ("one", "b", 1),
        ("one", "a", 2),
        ("one", "b", 2),
        ("another", "a", 0),
        ("another", "a", 1),
    ]


def test_the_simplest_arm_that_no_other_beats_is_recommended(
    trained: list[stages.Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lower error or NLL on one set beats an arm; a difference within chance does not."""
    monkeypatch.setattr(stages, "RUNS", tmp_path / "runs.csv")
    runs = [record(task) for task in trained]

    def planted(**metrics: float) -> str | None:
        """What is recommended if the coin with averaged weights has these on CIFAR-100 alone."""
        even = {
            run.key: {"error": 40.0 + (run.seed or 0) % 3, "nll": 1.0 + 0.1 * ((run.seed or 0) % 2)}
            for run in runs
            if "stage2/" in run.recipe
        }
        write_runs(
            [
                dataclasses.replace(
                    run,
                    metrics={
                        **run.metrics,
                        **even.get(run.key, {}),
                        **(metrics if run.key[:2] == (where, "coin-off-ema") else {}),
                    },
                )
                for run in runs
            ],
            stages.RUNS,
        )
        return stages.recommendation()

    where = "stage2/cifar100-rand-240"
    assert planted() == "no-mixing"  # all are alike
    assert planted(nll=0.9) == "coin-off-ema"
    assert planted(error=20.0) == "coin-off-ema"
    assert planted(nll=2.0, error=80.0) == "no-mixing"
    write_runs([run for run in runs if "tiny-imagenet-rand" not in run.recipe], stages.RUNS)
    assert stages.recommendation() is None  # not trained yet
