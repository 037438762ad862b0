"""A run's folder: claimed by one process, and telling its story."""

import json
import os
import signal
from pathlib import Path

import pytest

from comixup.training import _folder
from comixup.training._folder import claimed, read_metrics, write_metrics, write_story
from small_runs import WAIT_SECONDS, processes


def hold(folder, pipe, fork):
    """Claims a folder for ever; before that, perhaps, makes a process that lives on."""
    with claimed(folder):
        child = os.fork() if fork else None
        if child == 0:
            signal.pause()
        pipe.send(child)
        signal.pause()


@pytest.fixture(params=[False, True], ids=["alone", "with a fork"])
def holder(request, tmp_path):
    """A process that holds the folder, and one that it forked, or None."""
    mine, its = processes.Pipe()
    process = processes.Process(target=hold, args=(tmp_path, its, request.param))
    process.start()
    assert mine.poll(WAIT_SECONDS)
    child = mine.recv()
    yield process, child
    process.kill()
    process.join()
    if child is not None:
        os.kill(child, signal.SIGKILL)


def test_a_claimed_folder_is_free_once_its_process_is_killed(holder, tmp_path):
    process, _ = holder
    with pytest.raises(ValueError, match="another process is training in"), claimed(tmp_path):
        pass
    process.kill()
    process.join()
    with claimed(tmp_path):  # though the fork, as those that read images, still lives
        pass


def test_a_folder_can_be_claimed_again(tmp_path):
    for _ in range(2):
        with claimed(tmp_path / "new" / "folder"):
            pass


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/below"):
        refused = pytest.raises(OSError, match="must be one that can be written to")
        with refused as caught, claimed(tmp_path / place):
            pass
        assert "--out" in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_may_not_be_written_to():
    folder = Path("/proc/self/comixup")  # which nobody may make, the administrator neither
    with pytest.raises(OSError, match="must be one that can be written to"), claimed(folder):
        pass


def test_every_start_adds_to_the_story(tmp_path):
    for seed in (3, 3):
        write_story(tmp_path, {"name": "digits"}, {"method": "comixup", "seed": seed})
    story = json.loads((tmp_path / _folder.STORY).read_text())
    assert story["recipe"] == {"name": "digits"}
    assert (story["method"], story["seed"]) == ("comixup", 3)
    first, second = story["starts"]
    assert first["time"] <= second["time"]
    assert {"torch", "comixup", "python", "numpy"} <= set(second["versions"])
    assert {"commit", "command", "machine"} <= set(second)


@pytest.mark.parametrize("before", ["", "{}", "[1]", '{"starts": 1}', "half a st"])
def test_a_damaged_story_is_begun_again(tmp_path, before):
    (tmp_path / _folder.STORY).write_text(before)
    write_story(tmp_path, {}, {})
    assert len(json.loads((tmp_path / _folder.STORY).read_text())["starts"]) == 1


def test_metrics_come_back(tmp_path):
    history = [{"epoch": 1.0, "loss": 0.25}, {"epoch": 2.0, "loss": 1e-9, "error": 12.5}]
    write_metrics(tmp_path, history)
    assert read_metrics(tmp_path) == history
    assert (tmp_path / _folder.METRICS).read_text().splitlines()[0] == "epoch,loss,error"
