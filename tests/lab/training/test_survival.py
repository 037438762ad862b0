"""Runs that are killed, interrupted or run out of disk go on, to the very same weights."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from comixup.lab import models
from comixup.lab.training._folder import (
    CHECKPOINT,
    METADATA,
    METRICS,
    RESULT,
    WEIGHTS,
    read_metrics,
)
from small_runs import (
    CLASSES,
    RECIPE,
    WAIT_SECONDS,
    Command,
    assert_same_run,
    contents,
    die_after,
    die_at_write,
    die_within_step,
    folder_of,
    limit_files,
    metrics,
    run,
    saved,
    train_here,
    turn_back_clock,
    words,
    write_images,
)

KILLED = -signal.SIGKILL
NEVER = 10**6
HALF_A_CHECKPOINT = 1_000_000


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def unbroken(data, tmp_path_factory):
    """The folder of a run that nothing happened to."""
    return train_here(data, tmp_path_factory.mktemp("unbroken"), "comixup")


def until_it_ends(arguments, log, befalls):
    """Runs the same command again and again while things befall it; returns the exit codes."""
    codes = []
    for before, *details in befalls:
        code, text = run(arguments, log, before=before, details=details)
        codes.append(code)
        assert "Traceback" not in text
        if code == 0:
            return codes
    raise AssertionError(f"it never came to an end: {codes}")


# ---- kill -9 ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_at_one_write_after_the_other_a_run_ends_as_if_unbroken(data, tmp_path, unbroken):
    # Every file is written to the disk, then its folder: two numbers for each.
    first_epoch = {"metadata": 0, "picture": 2, "checkpoint": 4, "checkpoint's name": 5}
    later_epochs = {"second epoch's metrics": 4, "third checkpoint": 2, "its name": 3}
    ending = {"metrics": 4, "weights": 2, "logits": 4, "curves": 6, "result": 8}
    numbers = [*first_epoch.values(), *later_epochs.values(), *ending.values(), NEVER]
    befalls = ((die_at_write, number) for number in numbers)
    arguments = words(data, tmp_path, method="comixup")
    codes = until_it_ends(arguments, tmp_path / "log", befalls)
    assert codes == [KILLED] * (len(numbers) - 1) + [0]
    assert_same_run(folder_of(tmp_path, "comixup"), unbroken)


@pytest.mark.slow
def test_killed_at_every_write_a_run_ends_as_if_unbroken(data, tmp_path, unbroken):
    # Each process lives for one write more than the one before, then dies in the midst of it.
    befalls = ((die_at_write, number) for number in itertools.count())
    arguments = words(data, tmp_path, "--checkpoint-steps", 1, method="comixup")
    codes = until_it_ends(arguments, tmp_path / "log", befalls)
    assert len(codes) > 5
    assert set(codes[:-1]) == {KILLED}
    assert_same_run(folder_of(tmp_path, "comixup"), unbroken)


def test_killed_at_any_moment_a_run_ends_as_if_unbroken(data, tmp_path, unbroken):
    # Processor time and not the clock: so the moments do not move with the machine's load.
    befalls = ((die_after, 0.15 + 0.1 * number) for number in itertools.count())
    arguments = words(data, tmp_path, "--checkpoint-steps", 1, method="comixup")
    codes = until_it_ends(arguments, tmp_path / "log", befalls)
    assert len(codes) > 1
    assert set(codes[:-1]) == {-signal.SIGPROF}
    assert_same_run(folder_of(tmp_path, "comixup"), unbroken)


@pytest.mark.slow
@pytest.mark.data
def test_killed_twenty_times_a_run_on_cifar100_ends_as_if_unbroken(tmp_path):
    # 50 steps in all. A process completes one or two of them, then dies somewhere in the next.
    random = np.random.default_rng(0)

    def arguments(out):
        return [
            *("train", "cifar100-small-data", "--method", "comixup", "--out", str(tmp_path / out)),
            *("--width", "4", "--epochs", "5", "--images-per-class", "50"),
            *("--checkpoint-steps", "1", "--accelerator", "cpu"),
            *("--data", os.environ["COMIXUP_DATA"]),
        ]

    def folder(out):
        return tmp_path / out / "cifar100-small-data" / "comixup" / "seed-0"

    code, text = run(arguments("unbroken"), tmp_path / "log")
    assert code == 0, text
    moments, code = [], None
    while code != 0:
        assert len(moments) < 100
        before, details = die_within_step, (1, random.uniform(0, 1.1))
        code, text = run(arguments("broken"), tmp_path / "broken.log", None, before, details)
        assert code in (0, -signal.SIGPROF), text
        assert "Traceback" not in text
        state = saved(folder("broken"))
        moments.append((state["epoch"], state["step"]))
    assert moments == sorted(moments)
    assert sum(step > 0 for _, step in moments) >= 20, moments
    assert_same_run(folder("broken"), folder("unbroken"))


def test_killed_between_checkpoint_and_metrics(data, tmp_path, unbroken):
    arguments, folder = words(data, tmp_path, method="comixup"), folder_of(tmp_path, "comixup")
    story_and_checkpoint = 4
    code, _ = run(
        arguments,
        tmp_path / "log",
        before=die_at_write,
        details=(story_and_checkpoint,),
    )
    assert code == KILLED
    assert saved(folder)["epoch"] == 1
    assert not (folder / METRICS).exists()
    assert run(arguments, tmp_path / "log")[0] == 0
    assert_same_run(folder, unbroken)


def test_metrics_are_whole_even_if_both_last_writes_of_them_failed(data, tmp_path, unbroken):
    folder = train_here(data, tmp_path, "comixup")
    (folder / METRICS).write_bytes(b"")  # as after two kills, each right behind the checkpoint
    (folder / RESULT).unlink()  # which is written last
    train_here(data, tmp_path, "comixup")
    assert_same_run(folder, unbroken)


# ---- Ctrl-C and friends -------------------------------------------------------------------------


@pytest.fixture
def long_run(data, tmp_path):
    """A run that would take hours, under way."""
    arguments = words(data, tmp_path, epochs=9000)
    command = Command(arguments, tmp_path / "log")
    end = time.monotonic() + WAIT_SECONDS
    while not (folder_of(tmp_path) / METRICS).exists():
        assert time.monotonic() < end, command.text
        time.sleep(0.05)
    yield command
    command.process.kill()
    command.process.join()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_so_and_goes_on_from_there(long_run, data, tmp_path, number):
    long_run.send(number)
    assert long_run.end() == 128 + number
    assert "Traceback" not in long_run.text
    state = saved(folder_of(tmp_path))
    place = f"epoch {state['epoch'] + 1}, step {state['step']}"
    last = long_run.text.splitlines()[-1]
    assert last.startswith("comixup: ")
    assert f"resumes from {place}." in last
    assert not state["finished"]
    before = state["epoch"], state["step"]
    arguments, after_a_checkpoint = words(data, tmp_path, epochs=9000), 4
    code, text = run(
        arguments, tmp_path / "again", before=die_at_write, details=(after_a_checkpoint,)
    )
    assert code == KILLED, text
    after = saved(folder_of(tmp_path))
    assert (after["epoch"], after["step"]) > before
    assert len(metrics(folder_of(tmp_path))) in (after["epoch"], after["epoch"] - 1)


def test_a_second_run_in_the_folder_gets_a_message_and_harms_nothing(long_run, data, tmp_path):
    metadata = (folder_of(tmp_path) / METADATA).read_bytes()
    code, text = run(words(data, tmp_path, epochs=9000), tmp_path / "second")
    assert code == 1
    assert "another process" in text
    assert "Traceback" not in text
    assert (folder_of(tmp_path) / METADATA).read_bytes() == metadata
    assert long_run.process.is_alive()
    done = saved(folder_of(tmp_path))["epoch"]
    end = time.monotonic() + WAIT_SECONDS
    while saved(folder_of(tmp_path))["epoch"] <= done:
        assert time.monotonic() < end
        time.sleep(0.05)


# ---- Clocks -------------------------------------------------------------------------------------


def test_a_clock_that_jumps_back_changes_nothing(data, tmp_path, unbroken):
    arguments, folder = words(data, tmp_path, method="comixup"), folder_of(tmp_path, "comixup")
    log, day = tmp_path / "log", 86400
    code, _ = run(arguments, log, before=die_within_step, details=(4, 0.5))
    assert code == -signal.SIGPROF
    code, text = run(arguments, log, before=turn_back_clock, details=(day,))
    assert code == 0, text
    assert_same_run(folder, unbroken)
    for row in read_metrics(folder):
        assert 0 < row["seconds"] < WAIT_SECONDS
        assert 0 < row["cpu_seconds"] < WAIT_SECONDS
        assert 0 < row["images_per_second"] < 1e6
    result = json.loads((folder / RESULT).read_text())
    assert min(result["seconds_per_epoch"], result["cpu_seconds"]) > 0
    assert events_of(folder, "test_error").keys() == events_of(unbroken, "test_error").keys()


def events_of(folder, name):
    found = EventAccumulator(str(folder / "tensorboard"))
    found.Reload()
    return {event.step: event.value for event in found.Scalars(name)}


# ---- Disks and folders --------------------------------------------------------------------------


def test_a_full_disk_leaves_the_checkpoint_of_before(data, tmp_path, unbroken):
    arguments, folder = words(data, tmp_path, method="comixup"), folder_of(tmp_path, "comixup")
    number_in_second_epoch = 9
    run(arguments, tmp_path / "log", before=die_at_write, details=(number_in_second_epoch,))
    checkpoint, table = ((folder / name).read_bytes() for name in (CHECKPOINT, METRICS))
    assert len(checkpoint) > HALF_A_CHECKPOINT
    code, text = run(arguments, tmp_path / "full", before=limit_files, details=(HALF_A_CHECKPOINT,))
    assert code == 1
    assert "Traceback" not in text
    assert re.search(rf"{re.escape(str(folder / CHECKPOINT))} .*File too large", text)
    assert (folder / CHECKPOINT).read_bytes() == checkpoint
    assert (folder / METRICS).read_bytes() == table
    assert not list(folder.glob(".*"))
    assert run(arguments, tmp_path / "log")[0] == 0
    assert_same_run(folder, unbroken)


def test_a_folder_that_is_a_file(data, tmp_path):
    out = tmp_path / "out"
    out.write_text("mine")
    code, text = run(words(data, out), tmp_path / "log")
    assert code == 1
    assert "`--out` must be a folder to write to" in text
    assert "Traceback" not in text
    assert out.read_text() == "mine"


# ---- The end ------------------------------------------------------------------------------------


def test_a_finished_run_is_not_trained_again(data, tmp_path):
    arguments, folder = words(data, tmp_path), folder_of(tmp_path)
    code, first = run(arguments, tmp_path / "first")
    assert code == 0
    names = (CHECKPOINT, METRICS, RESULT, METADATA, WEIGHTS)
    before = {name: (folder / name).read_bytes() for name in names}
    code, second = run(arguments, tmp_path / "second")
    assert code == 0
    assert "epoch 1/3" in first
    assert "epoch" not in second.split("top-1 error", maxsplit=1)[0]
    table = first[first.index(f"{RECIPE}: top-1 error") :]
    assert second.endswith(table)
    assert {name: (folder / name).read_bytes() for name in names} == before


def test_the_weights_load_into_the_network_that_they_name(unbroken):
    with safe_open(unbroken / WEIGHTS, framework="pt") as file:
        about = file.metadata()
    assert about["num_classes"] == str(CLASSES)
    model = models.build(about["model"], CLASSES, shape=(3, 32, 32))
    model.load_state_dict(load_file(unbroken / WEIGHTS))
    torch.testing.assert_close(model.state_dict(), dict(saved(unbroken)["model"]), rtol=0, atol=0)


def test_a_run_that_diverges_stops_and_keeps_the_last_good_checkpoint(data, tmp_path):
    arguments = words(data, tmp_path, "--checkpoint-steps", 1, lr=1e12, epochs=6)
    code, text = run(arguments, tmp_path / "log")
    assert code == 1
    assert "became infinite or not a number in epoch" in text
    assert "Traceback" not in text
    folder = folder_of(tmp_path)
    state = saved(folder)
    assert all(weight.isfinite().all() for weight in state["model"].values())
    before = contents(folder)[folder / CHECKPOINT]
    assert run(arguments, tmp_path / "log")[0] == 1
    assert contents(folder)[folder / CHECKPOINT] == before


@pytest.mark.slow
def test_the_real_program_goes_on_after_kill_9(tmp_path):
    def program(out):
        arguments = ["train", "digits", "--method", "puzzlemix", "--epochs", "3", "--out", str(out)]
        return [sys.executable, "-m", "comixup.cli", *arguments, "--images-per-class", "20"]

    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(program(tmp_path / "whole"), env=environment, check=True, capture_output=True)
    killed = subprocess.Popen(program(tmp_path / "broken"), env=environment)
    folder = tmp_path / "broken" / "digits" / "puzzlemix" / "seed-0"
    while not (folder / METRICS).exists():
        assert killed.poll() is None
        time.sleep(0.02)
    killed.kill()
    assert killed.wait() == KILLED
    again = subprocess.run(
        program(tmp_path / "broken"), env=environment, check=True, capture_output=True, text=True
    )
    assert "epoch 1/3" not in again.stdout
    assert_same_run(folder, tmp_path / "whole" / folder.relative_to(tmp_path / "broken"))
