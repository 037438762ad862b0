"""Runs that are killed, interrupted or run out of disk go on, to the very same weights."""

import itertools
import re
import signal
import time

import pytest

from comixup.lab.training._folder import (
    CHECKPOINT,
    METADATA,
    METRICS,
    RESULT,
    WEIGHTS,
    read_metrics,
)
from small_runs import (
    RECIPE,
    WAIT_SECONDS,
    Command,
    assert_same_run,
    die_after,
    die_at_write,
    folder_of,
    limit_files,
    metrics,
    run,
    saved,
    train_here,
    words,
)

KILLED = -signal.SIGKILL
HALF_A_CHECKPOINT = 1_000_000


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


def test_a_run_that_is_stopped_shuts_others_out_says_where_it_stood_and_goes_on(
    long_run, data, tmp_path
):
    metadata = (folder_of(tmp_path) / METADATA).read_bytes()
    arguments = words(data, tmp_path, epochs=9000)
    code, text = run(arguments, tmp_path / "second")
    assert code == 1
    assert "another process" in text
    assert "Traceback" not in text
    assert (folder_of(tmp_path) / METADATA).read_bytes() == metadata
    long_run.send(signal.SIGINT)
    assert long_run.end() == 128 + signal.SIGINT
    assert "Traceback" not in long_run.text
    state = saved(folder_of(tmp_path))
    place = f"epoch {state['epoch'] + 1}, step {state['step']}"
    last = long_run.text.splitlines()[-1]
    assert last.startswith("comixup: ")
    assert f"resumes from {place}." in last
    assert not state["finished"]
    before, after_a_checkpoint = (state["epoch"], state["step"]), 4
    code, text = run(
        arguments, tmp_path / "again", before=die_at_write, details=(after_a_checkpoint,)
    )
    assert code == KILLED, text
    after = saved(folder_of(tmp_path))
    assert (after["epoch"], after["step"]) > before
    assert len(metrics(folder_of(tmp_path))) in (after["epoch"], after["epoch"] - 1)


# ---- Clocks -------------------------------------------------------------------------------------


def test_a_clock_that_jumps_back_changes_nothing(data, tmp_path, unbroken, monkeypatch):
    began, reads = time.time(), itertools.count(1)
    monkeypatch.setattr(time, "time", lambda: began - 86400 * next(reads))
    folder = train_here(data, tmp_path, "comixup")
    assert_same_run(folder, unbroken)
    for row in read_metrics(folder):
        assert 0 < row["seconds"] < WAIT_SECONDS
        assert 0 < row["cpu_seconds"] < WAIT_SECONDS
        assert 0 < row["images_per_second"] < 1e6


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


# ---- The end ------------------------------------------------------------------------------------


def test_a_finished_run_is_not_trained_again(data, tmp_path, called):
    arguments, folder = words(data, tmp_path), folder_of(tmp_path)
    code, first, _ = called(*arguments)
    assert code == 0
    names = (CHECKPOINT, METRICS, RESULT, METADATA, WEIGHTS)
    before = {name: (folder / name).read_bytes() for name in names}
    code, second, _ = called(*arguments)
    assert code == 0
    assert "epoch 1/3" in first
    assert "epoch" not in second.split("top-1 error", maxsplit=1)[0]
    assert second.endswith(first[first.index(f"{RECIPE}: top-1 error") :])
    assert {name: (folder / name).read_bytes() for name in names} == before
