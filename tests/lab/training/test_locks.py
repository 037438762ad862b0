"""A folder belongs to one process and to one thread of it, and a process trains one run."""

import os
import signal
import threading

import pytest

from comixup.lab._locks import locked, sole_training
from comixup.lab.training import Hardware, train
from small_runs import WAIT_SECONDS, folder_of, processes, recipe, train_here, write_images


def hold(folder, pipe):
    """Locks a folder for ever; before that, makes a process that lives on."""
    with locked(folder):
        child = os.fork()
        if child == 0:
            signal.pause()
        pipe.send(child)
        signal.pause()


@pytest.fixture
def holder(tmp_path):
    """A process that holds the folder, and has forked another."""
    mine, its = processes.Pipe()
    process = processes.Process(target=hold, args=(tmp_path, its))
    process.start()
    assert mine.poll(WAIT_SECONDS)
    child = mine.recv()
    yield process
    process.kill()
    process.join()
    os.kill(child, signal.SIGKILL)


def test_a_locked_folder_is_free_once_its_process_is_killed(holder, tmp_path):
    with pytest.raises(ValueError, match="another process"), locked(tmp_path):
        pass
    holder.kill()
    holder.join()
    with locked(tmp_path):  # though the fork, as those that read images, still lives
        pass


def test_a_lock_file_that_is_left_behind_locks_nothing(tmp_path):
    content = "4711\n"
    (tmp_path / "lock").write_text(content)  # of a killed process, or of another program
    with locked(tmp_path), pytest.raises(ValueError, match="another process"), locked(tmp_path):
        pass
    assert (tmp_path / "lock").read_text() == content


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/below"):
        rejected = pytest.raises(OSError, match="must be one that can be written to")
        with rejected as caught, locked(tmp_path / place):
            pass
        assert "--out" in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"


# ---- Threads ------------------------------------------------------------------------------------


def in_thread(call):
    """Returns what a call raises in another thread; None if nothing."""
    raised = []

    def target():
        try:
            call()
            raised.append(None)
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join(WAIT_SECONDS)
    return raised[0]


def lock_once(folder):
    with locked(folder):
        pass


def test_threads_exclude_each_other_under_any_name_of_the_folder(tmp_path):
    own, link = tmp_path / "own", tmp_path / "link"
    own.mkdir()
    link.symlink_to(own)
    with locked(own):
        for name in (own, link, own / ".." / "own"):
            error = in_thread(lambda name=name: lock_once(name))
            assert isinstance(error, ValueError)
            assert "another process (or thread) is working in" in str(error)
        # Their attempts have not given up this thread's lock: another process is still kept out.
        mine, its = processes.Pipe()
        process = processes.Process(target=try_lock, args=(own, its))
        process.start()
        assert mine.poll(WAIT_SECONDS)
        assert "must not be in use" in mine.recv()
        process.join()
    assert in_thread(lambda: lock_once(link)) is None


def try_lock(folder, pipe):
    try:
        lock_once(folder)
        pipe.send("locked")
    except ValueError as error:
        pipe.send(str(error))


def test_two_threads_cannot_train(tmp_path):
    data = write_images(tmp_path / "images")
    with sole_training():
        error = in_thread(lambda: train_here(data, tmp_path))
    assert isinstance(error, RuntimeError)
    assert "one thread of a process at a time" in str(error)
    assert not folder_of(tmp_path).exists()
    assert in_thread(lambda: train_here(data, tmp_path, chosen=recipe(epochs=1))) is None


# ---- At the same instant ------------------------------------------------------------------------

ROUNDS = 50


def compete(folder, barrier, pipe):
    """Tries to lock folder after folder at the same moment as another process."""
    won = []
    for number in range(ROUNDS):
        barrier.wait(WAIT_SECONDS)
        try:
            with locked(folder / str(number) / "new"):
                won.append(number)
                barrier.wait(WAIT_SECONDS)  # held until the other has tried
        except ValueError:
            barrier.wait(WAIT_SECONDS)
    pipe.send(won)


def test_of_two_processes_that_start_at_the_same_instant_one_gets_the_folder(tmp_path):
    barrier, pipes, started = processes.Barrier(2), [], []
    for _ in range(2):
        mine, its = processes.Pipe()
        pipes.append(mine)
        started.append(processes.Process(target=compete, args=(tmp_path, barrier, its)))
        started[-1].start()
    won = []
    for pipe in pipes:
        assert pipe.poll(WAIT_SECONDS)
        won.append(pipe.recv())
    for process in started:
        process.join()
    assert sorted(won[0] + won[1]) == list(range(ROUNDS))


@pytest.mark.parametrize("name", ["seeds", "checkpoint_steps"])
def test_numbers_that_no_run_can_have(tmp_path, name):
    wrong = {"seeds": [(-1,), (1, 1), (), (2**64,), (0.5,), (True,)]}
    wrong["checkpoint_steps"] = [0, -1, 1.5, 10**9 + 1]
    for value in wrong[name]:
        with pytest.raises(ValueError, match=f"`{name}` must be"):
            train(recipe(), out=tmp_path, hardware=Hardware("cpu"), **{name: value})
    with pytest.raises(ValueError, match="`accumulate` must be at most the batch size, 8, got 9"):
        train(recipe(), out=tmp_path, hardware=Hardware("cpu", accumulate=9))
    assert list(tmp_path.iterdir()) == []
