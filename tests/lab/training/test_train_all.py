"""Many runs at once: the same weights as one after the other, and what fails is told."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from comixup.lab._cluster import Cluster
from comixup.lab._tasks import check_done
from comixup.lab.training import RECIPES, Hardware, train_all
from comixup.lab.training._folder import CHECKPOINT
from small_runs import WAIT_SECONDS, assert_same_run, metrics

RECIPE = RECIPES["digits"].changed(
    model="lenet", epochs=2, batch_size=8, images_per_class=2, test_fraction=None
)
METHODS, SEEDS = ["vanilla", "cutmix"], (0, 1)


def wait_for(happened):
    end = time.monotonic() + WAIT_SECONDS
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.1)


def train_on(cluster, out, methods=METHODS, **options):
    options = {"seeds": SEEDS, "hardware": Hardware(accelerator="cpu"), **options}
    return train_all(RECIPE, methods, cluster, out=out, **options)


@pytest.mark.slow
def test_two_processes_leave_the_same_runs_as_one(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    came = []
    results, done = train_on(
        Cluster("here:2"), tmp_path / "two", each=lambda *run: came.append(run[:2])
    )
    check_done(done)
    assert sorted(came) == [(method, seed) for method in sorted(METHODS) for seed in SEEDS]
    alone, _ = train_on(Cluster(cpus=1), tmp_path / "one")
    assert {method: list(by_seed) for method, by_seed in results.items()} == {
        method: list(SEEDS) for method in METHODS
    }
    for method in METHODS:
        for seed in SEEDS:
            errors = [found[method][seed].metrics["error"] for found in (results, alone)]
            assert errors[0] == errors[1]
            folders = (found[method][seed].folder for found in (results, alone))
            assert_same_run(*folders)


def workers_of(pid):
    """Returns the processes that a process has started and that still run."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


def alive(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopping_stops_all_and_the_same_command_goes_on(tmp_path, number):
    words = [sys.executable, "-m", "comixup", "train", "digits", "--method", *METHODS]
    words += [
        "--epochs",
        "2000",
        "--model",
        "lenet",
        "--images-per-class",
        "5",
        "--batch-size",
        "8",
    ]
    words += ["--accelerator", "cpu", "--cluster", "here:2", "--out", "runs"]
    folders = [tmp_path / "runs" / "digits" / method / "seed-0" for method in METHODS]

    def begun():
        return all((folder / CHECKPOINT).exists() for folder in folders)

    def start(log):
        with (tmp_path / log).open("w") as file:
            return subprocess.Popen(words, cwd=tmp_path, stdout=file, stderr=file)

    process = start("log")
    wait_for(begun)
    workers = workers_of(process.pid)
    process.send_signal(number)
    code = process.wait(WAIT_SECONDS)
    wait_for(lambda: not any(map(alive, workers)))
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    if number != signal.SIGKILL:
        assert "Stopped. The same command resumes" in (tmp_path / "log").read_text()
    epochs = [len(metrics(folder)) for folder in folders]
    again = start("again")
    wait_for(
        lambda: all(len(metrics(folder)) > n for folder, n in zip(folders, epochs, strict=True))
    )
    again.terminate()
    assert again.wait(WAIT_SECONDS) == 128 + signal.SIGTERM
    rows = [[int(row["epoch"]) for row in metrics(folder)] for folder in folders]
    assert all(found == list(range(1, len(found) + 1)) for found in rows)


def test_a_run_that_fails_does_not_stop_the_others(tmp_path):
    taken = tmp_path / "digits" / "vanilla" / "seed-0"
    taken.parent.mkdir(parents=True)
    taken.write_text("a file where the run's folder should be")
    results, done = train_on(Cluster(), tmp_path, ["vanilla"])
    assert list(results["vanilla"]) == [1]
    with pytest.raises(RuntimeError, match=r"^1 of 2 tasks failed: `folder` must be"):
        check_done(done)


def test_one_process_per_run(tmp_path):
    hardware = Hardware(accelerator="cpu", devices=2)
    with pytest.raises(ValueError, match=r"`devices` and `num_nodes` must be 1 with --cluster"):
        train_on(Cluster("here:2"), tmp_path, hardware=hardware)
