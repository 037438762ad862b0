"""Two processes train what one would; if one is lost the other says so, and the run goes on."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch.testing import assert_close

from comixup._methods import PAPER
from comixup.lab.training import Hardware, read_logits
from comixup.lab.training._folder import LOGITS, METADATA, METRICS
from small_runs import (
    TEST,
    WAIT_SECONDS,
    assert_same_run,
    assert_same_weights,
    at_step,
    commands,
    count_last_evaluation,
    die_at_write,
    folder_of,
    free_port,
    kill_self,
    metrics,
    recipe,
    run,
    saved,
    train_here,
    words,
    write_images,
)

NO_BATCH_NORM = "timm:test_mambaout"
"""Its only normalization is over channels, and it has no dropout."""
LOST = "Another process of this run has gone, so process {} stops too. The same command resumes"
ROUNDING = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("images"))


def run_both(arguments, log, **settings):
    """Returns the exit codes and texts of two processes that train together."""
    both = commands(2, arguments, log, **settings)
    return [command.end() for command in both], [command.text for command in both]


def assert_close_metrics(folder, other):
    rows, expected = metrics(folder), metrics(other)
    assert len(rows) == len(expected)
    assert rows[-1]["test_error"]
    for row, wanted in zip(rows, expected, strict=True):
        assert row.keys() == wanted.keys()
        for name, value in row.items():
            # Epochs that are not evaluated have no errors.
            mine, other_one = (float(text or "nan") for text in (value, wanted[name]))
            assert mine == pytest.approx(other_one, rel=1e-3, nan_ok=True), name


@pytest.fixture(scope="module")
def together(data, tmp_path_factory):
    """The folder of all runs, trained by two processes: each method in turn."""
    out = tmp_path_factory.mktemp("together")
    codes, texts = run_both(words(data, out, method="all", epochs=2), out / "log")
    assert codes == [0, 0], texts
    return out


# RecursiveMix is another method by two processes: each mixes with the last batch of its own.
@pytest.mark.parametrize("method", PAPER)
def test_two_processes_train_as_one_that_cuts_its_batches_in_two(data, tmp_path, together, method):
    # Each part has its own seed, whoever trains it: dropout and mixing are the same too.
    halves = Hardware(accelerator="cpu", accumulate=2)
    folder = train_here(data, tmp_path, method, recipe(epochs=2), halves)
    assert_same_weights(folder_of(together, method), folder, **ROUNDING)
    assert_close_metrics(folder_of(together, method), folder)


def test_only_the_first_process_reports(together):
    first, second = ((together / f"log-{rank}").read_text() for rank in range(2))
    assert "epoch 2/2" in first
    assert "top-1 error" in first
    assert second == ""


@pytest.fixture(scope="module")
def alone(data, tmp_path_factory):
    """The folder of a run by one process."""
    return train_here(data, tmp_path_factory.mktemp("alone"), chosen=recipe(model=NO_BATCH_NORM))


@pytest.mark.slow
def test_equal_global_batches_give_equal_results_and_the_number_of_devices_may_change(
    data, tmp_path, alone
):
    assert TEST % 2 == 1  # the processes' shares of the test images differ
    arguments = words(data, tmp_path, model=NO_BATCH_NORM)
    after_an_epoch = 7
    code, _ = run(arguments, tmp_path / "one", before=die_at_write, details=(after_an_epoch,))
    assert code == -signal.SIGKILL
    assert saved(folder_of(tmp_path))["epoch"] == 1
    codes, texts = run_both(arguments, tmp_path / "two")
    assert codes == [0, 0], texts
    assert "epoch 2/3" in texts[0]
    assert "epoch 1/3" not in texts[0]
    assert_same_weights(folder_of(tmp_path), alone, **ROUNDING)
    assert_close_metrics(folder_of(tmp_path), alone)


def test_the_last_evaluation_is_shared(data, tmp_path, alone):
    counts = [tmp_path / str(rank) for rank in range(2)]
    codes, texts = run_both(
        words(data, tmp_path, model=NO_BATCH_NORM),
        tmp_path / "log",
        before=[count_last_evaluation] * 2,
        details=[(path,) for path in counts],
    )
    assert codes == [0, 0], texts
    assert [int(path.read_text()) for path in counts] == [TEST - TEST // 2, TEST // 2]
    pairs = zip(
        read_logits(folder_of(tmp_path) / LOGITS).values(),
        read_logits(alone / LOGITS).values(),
        strict=True,
    )
    for (logits, targets), (expected, classes) in pairs:
        assert targets.tolist() == classes.tolist()
        assert_close(logits, expected, **ROUNDING)


# ---- Lost processes -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unbroken(data, tmp_path_factory):
    """The folder of a run by two processes that nothing happened to."""
    out = tmp_path_factory.mktemp("unbroken")
    codes, texts = run_both(words(data, out, model="small", method="cutmix"), out / "log")
    assert codes == [0, 0], texts
    return folder_of(out, "cutmix")


def test_when_a_process_is_killed_the_other_says_so_and_the_run_goes_on(data, tmp_path, unbroken):
    arguments = words(data, tmp_path, "--checkpoint-steps", 1, model="small", method="cutmix")
    for dies, step in ((1, 4), (0, 2)):
        before, details = [None, None], [(), ()]
        before[dies], details[dies] = at_step, (step, kill_self, signal.SIGKILL)
        log = tmp_path / f"log{dies}"
        codes, texts = run_both(arguments, log, before=before, details=details)
        assert codes[dies] == -signal.SIGKILL
        assert codes[1 - dies] == 1, texts
        assert LOST.format(1 - dies) in texts[1 - dies]
        assert "Traceback" not in texts[1 - dies]
    codes, texts = run_both(arguments, tmp_path / "log")
    assert codes == [0, 0], texts
    assert_same_run(folder_of(tmp_path, "cutmix"), unbroken)


# ---- Stopped processes --------------------------------------------------------------------------

LATE = r"Another process of this run has not answered for {} minutes .* so process {} stops too"
MINUTES = 0.1


def state_of(pid):
    """Returns the letter that the system has for what a process does; T means stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until_stopped(command):
    end = time.monotonic() + WAIT_SECONDS
    while state_of(command.pid) != "T":
        assert time.monotonic() < end, command.text
        time.sleep(0.05)


def start_and_stop(arguments, log, stops):
    """Starts two processes of which one stops itself before its fifth step, and waits for that."""
    before, details = [None, None], [(), ()]
    before[stops], details[stops] = at_step, (4, kill_self, signal.SIGSTOP)
    both = commands(2, arguments, log, before=before, details=details)
    wait_until_stopped(both[stops])
    return both


@pytest.mark.parametrize("stops", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_process_that_stays_stopped_is_not_waited_for_longer_than_asked(
    data, tmp_path, unbroken, stops
):
    arguments = words(data, tmp_path, "--checkpoint-steps", 1, model="small", method="cutmix")
    both = start_and_stop([*arguments, f"--timeout-minutes={MINUTES}"], tmp_path / "log", stops)
    waiting = both[1 - stops]
    assert waiting.end() == 1
    assert re.search(LATE.format(MINUTES, 1 - stops), waiting.text)
    assert "Traceback" not in waiting.text
    both[stops].send(signal.SIGCONT)
    assert both[stops].end() == 1
    assert LOST.format(stops) in both[stops].text
    assert "Traceback" not in both[stops].text
    state = saved(folder_of(tmp_path, "cutmix"))
    assert (state["epoch"], state["step"]) == (1, 1)
    codes, texts = run_both(arguments, tmp_path / "again")
    assert codes == [0, 0], texts
    assert_same_run(folder_of(tmp_path, "cutmix"), unbroken)


def test_a_process_that_is_stopped_for_a_while_does_no_harm(data, tmp_path, unbroken):
    arguments = words(data, tmp_path, model="small", method="cutmix")
    both = start_and_stop(arguments, tmp_path / "log", 1)
    time.sleep(2)
    assert both[0].process.is_alive()
    both[1].send(signal.SIGCONT)
    assert [command.end() for command in both] == [0, 0]
    assert_same_run(folder_of(tmp_path, "cutmix"), unbroken)


def test_ctrl_c_twice_ends_a_process_that_waits_for_a_stopped_one(data, tmp_path):
    both = start_and_stop(words(data, tmp_path), tmp_path / "log", 1)
    time.sleep(1)
    for _ in range(2):
        both[0].send(signal.SIGINT)
        time.sleep(0.5)
    assert both[0].end() == 128 + signal.SIGINT
    assert "Stopped at once" in both[0].text
    both[1].send(signal.SIGKILL)
    both[1].end()


@pytest.mark.slow
def test_a_process_that_never_appears_is_not_waited_for_longer_than_asked(data, tmp_path):
    arguments = [*words(data, tmp_path), f"--timeout-minutes={MINUTES}"]
    first, second = commands(
        2, arguments, tmp_path / "log", (None, kill_self), ((), (signal.SIGKILL,))
    )
    assert second.end() == -signal.SIGKILL
    assert first.end() == 1
    assert f"processes of this run have met within {MINUTES} minutes" in first.text
    assert "Traceback" not in first.text


def test_ctrl_c_reaches_all_processes_and_each_says_so(data, tmp_path):
    both = commands(2, words(data, tmp_path, epochs=9000), tmp_path / "log")
    wait_for(folder_of(tmp_path) / METRICS)
    for command in both:
        command.send(signal.SIGINT)
    assert [command.end() for command in both] == [128 + signal.SIGINT] * 2
    for command in both:
        assert "Traceback" not in command.text
        assert "The same command resumes from" in command.text
    assert saved(folder_of(tmp_path))["epoch"] >= 1


def test_all_processes_raise_the_same_error(data, tmp_path):
    folder_of(tmp_path).parent.mkdir(parents=True)
    folder_of(tmp_path).write_text("a file")
    codes, texts = run_both(words(data, tmp_path), tmp_path / "log")
    assert codes == [1, 1]
    for text in texts:
        assert "`folder` must be one that can be written to" in text
        assert "Traceback" not in text


def wait_for(path, process=None):
    end = time.monotonic() + WAIT_SECONDS
    while not path.exists():
        assert time.monotonic() < end
        assert process is None or process.poll() is None
        time.sleep(0.05)


# ---- The launchers ------------------------------------------------------------------------------


def children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


COMMAND_LINE = str(Path(__file__).with_name("command_line.py"))
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


@pytest.mark.slow
@pytest.mark.parametrize("dies", ["launcher", "child"])
def test_fabrics_launcher(data, tmp_path, alone, dies):
    arguments = words(data, tmp_path, "--devices", 2, model=NO_BATCH_NORM)
    program = [sys.executable, COMMAND_LINE, *arguments]
    environment = os.environ | ENVIRONMENT
    with (tmp_path / "log").open("w") as log:
        first = subprocess.Popen(program, env=environment, stderr=log)
        wait_for(folder_of(tmp_path) / METRICS, first)
        child = next(iter(children(first.pid)))
        os.kill(first.pid if dies == "launcher" else child, signal.SIGKILL)
        assert first.wait(WAIT_SECONDS) == (-signal.SIGKILL if dies == "launcher" else 1)
        end = time.monotonic() + WAIT_SECONDS
        while Path(f"/proc/{child}").exists():
            assert time.monotonic() < end
            time.sleep(0.1)
    text = (tmp_path / "log").read_text()
    assert LOST.format(1 if dies == "launcher" else 0) in text
    assert "Traceback" not in text
    subprocess.run(program, env=environment, check=True, timeout=WAIT_SECONDS)
    assert_same_weights(folder_of(tmp_path), alone, **ROUNDING)


@pytest.mark.slow
def test_fabrics_launcher_leaves_no_stopped_process_behind(data, tmp_path):
    minutes = 0.75  # the child has to start within it too
    arguments = words(data, tmp_path, "--devices", 2, "--timeout-minutes", minutes, epochs=9000)
    program = [sys.executable, COMMAND_LINE, *arguments]
    with (tmp_path / "log").open("w") as log:
        first = subprocess.Popen(program, env=os.environ | ENVIRONMENT, stderr=log)
        wait_for(folder_of(tmp_path) / METRICS, first)
        (child,) = children(first.pid)
        os.kill(child, signal.SIGSTOP)
        assert first.wait(WAIT_SECONDS) == 1
    assert re.search(LATE.format(minutes, 0), (tmp_path / "log").read_text())
    assert not Path(f"/proc/{child}").exists()


@pytest.mark.slow
def test_torchrun(data, tmp_path, alone):
    arguments = words(data, tmp_path, model=NO_BATCH_NORM)
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    program = [sys.executable, "-m", *launcher, COMMAND_LINE, *arguments]
    subprocess.run(program, env=os.environ | ENVIRONMENT, check=True, timeout=WAIT_SECONDS)
    assert_same_weights(folder_of(tmp_path), alone, **ROUNDING)
    metadata = json.loads((folder_of(tmp_path) / METADATA).read_text())
    assert (metadata["hardware"]["devices"], metadata["hardware"]["num_nodes"]) == (2, 1)


def test_a_number_that_contradicts_the_launcher_is_told_by_all(data, tmp_path):
    codes, texts = run_both([*words(data, tmp_path), "--devices", "1"], tmp_path / "log")
    assert codes == [1, 1]
    for text in texts:
        assert "must be 2, the number of processes that torchrun has started" in text
        assert "Traceback" not in text
    assert not folder_of(tmp_path).exists()


def test_what_processes_on_cpus_cannot_do_is_told_before_training(data, tmp_path):
    for option, changes, message in (
        ("--sync-batch-norm", {}, "`sync_batch_norm` must be left out on CPUs"),
        ("--evaluate-every=1", {"batch_size": 3}, "Use --batch-size 4 or more (with as many"),
    ):
        codes, texts = run_both([*words(data, tmp_path, **changes), option], tmp_path / option)
        assert codes == [1, 1]
        for text in texts:
            assert message in text
            assert "Traceback" not in text
    assert not (folder_of(tmp_path) / METADATA).exists()
