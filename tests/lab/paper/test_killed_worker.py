"""Of two processes with one folder one is killed: nothing is lost, nothing is trained twice."""

import csv
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "training"))

from comixup.lab.paper import Job, Workspace, run_jobs
from comixup.lab.paper._store import is_done, read_out
from comixup.lab.training._folder import CHECKPOINT
from small_runs import RECIPE, WAIT_SECONDS, processes, recipe, write_images

EPOCHS = 20
SEEDS = (0, 1, 2)


def jobs():
    """Returns three runs that take some seconds each."""
    chosen = recipe(epochs=EPOCHS)
    return [
        Job(
            f"runs/{RECIPE}/vanilla/seed-{seed}",
            "run",
            {"recipe": chosen, "method": "vanilla", "seed": seed, "boxes": False},
        )
        for seed in SEEDS
    ]


def make_here(out, data):
    run_jobs(jobs(), Workspace(out, data))


def start(out, data):
    process = processes.Process(target=make_here, args=(out, data))
    process.start()
    return process


def wait_for(happened):
    end = time.monotonic() + WAIT_SECONDS
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def run_folder(out, seed):
    return out / "runs" / RECIPE / "vanilla" / f"seed-{seed}"


def starts(out, seed):
    return len(json.loads((run_folder(out, seed) / "run.json").read_text())["starts"])


def errors(out):
    return {key: [row["error"] for row in job.rows] for key, job in read_out(out).items()}


@pytest.mark.slow
def test_two_processes_work_on_one_folder_and_one_is_killed(tmp_path):
    data, out, alone = write_images(tmp_path / "data"), tmp_path / "out", tmp_path / "alone"
    first = start(out, data)
    wait_for((run_folder(out, 0) / CHECKPOINT).is_file)
    second = start(out, data)
    wait_for((run_folder(out, 1) / CHECKPOINT).is_file)  # the first run was left to the first
    os.kill(first.pid, signal.SIGKILL)
    assert not is_done(out, jobs()[0].key)
    first.join()
    second.join()
    make_here(out, data)  # the same command goes on

    assert all(is_done(out, job.key) for job in jobs())
    # The killed run was resumed once; no other was begun a second time.
    assert [starts(out, seed) for seed in SEEDS] == [2, 1, 1]
    for seed in SEEDS:
        with (run_folder(out, seed) / "metrics.csv").open(newline="") as file:
            epochs = [int(row["epoch"]) for row in csv.DictReader(file)]
        assert epochs == list(range(1, EPOCHS + 1))
    make_here(alone, data)
    assert errors(out) == errors(alone)
