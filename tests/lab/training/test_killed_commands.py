"""Sweeps, tunings and evaluations that are killed end with the files of those that were not."""

import itertools
import json
import re
import signal
import threading

import pytest

from comixup.lab.training._folder import CHECKPOINT, METADATA, METRICS, RESULT
from small_runs import (
    CHANGES,
    RECIPE,
    TIMES,
    Command,
    die_at_write,
    folder_of,
    metrics,
    run,
    train_here,
    words,
)

KILLED = -signal.SIGKILL
OF_ONE_PROCESS = ("lock", METADATA, CHECKPOINT)
"""Files that tell which processes there were, or hold their times in a form of their own."""
OF_TIMES = (*TIMES, "seconds_per_epoch")


def arguments_of(command, data, out):
    """Returns the arguments of a sweep of two cells, or of a tuning of three."""
    pairs = {"out": out, "data": data, "accelerator": "cpu"} | CHANGES
    pairs |= {"epochs": 1, "images_per_class": 4}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in pairs.items()]
    what = {"sweep": ("--beta", "0", "0.32"), "tune": ("--method", "cutmix")}[command]
    return [command, RECIPE, *what, *flags]


def results(folder):
    """Returns the content of all files that do not depend on times or on the processes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or path.name in OF_ONE_PROCESS or "tensorboard" in path.parts:
            continue
        if path.name == METRICS:
            found[name] = metrics(path.parent)
        elif path.suffix == ".json":
            found[name] = without_times(json.loads(path.read_text()))
        else:
            found[name] = path.read_bytes()
    return found


def without_times(value):
    if not isinstance(value, dict):
        return value
    return {k: without_times(v) for k, v in value.items() if k not in (*OF_TIMES, "weights")}


def until_it_ends(arguments, log, befalls):
    """Runs a command until it ends; returns the exit codes before that, and its last output."""
    codes = []
    for number, (before, *details) in enumerate(befalls):
        code, text = run(arguments, f"{log}-{number}", before=before, details=details)
        assert "Traceback" not in text
        if code == 0:
            return codes, text
        codes.append(code)
    raise AssertionError(f"it never came to an end: {codes}")


def table_of(text):
    """Returns what a command printed, without the lines about runs under way."""
    under_way = re.compile(
        r"epoch |\d+ of \d+ done, |\d+ % of the first outputs |\S+: .*, 1 epoch$"
    )
    return [line for line in text.splitlines() if not under_way.match(line)]


@pytest.fixture(scope="module", params=["sweep", "tune"])
def unbroken(request, data, tmp_path_factory):
    """A command, the results of it that nothing happened to, and what it printed."""
    out = tmp_path_factory.mktemp(request.param)
    code, text = run(arguments_of(request.param, data, out / "runs"), out / "log")
    assert code == 0, text
    found = results(out / "runs")
    assert (
        len([name for name in found if name.endswith(RESULT)])
        == {"sweep": 2, "tune": 3}[request.param]
    )
    return request.param, found, table_of(text)


@pytest.mark.slow
def test_killed_at_every_write(unbroken, data, tmp_path):
    # Each process lives for some writes more than the one before, then dies in the midst of one.
    command, expected, table = unbroken
    befalls = ((die_at_write, number) for number in itertools.count())
    arguments = arguments_of(command, data, tmp_path / "runs")
    codes, text = until_it_ends(arguments, tmp_path / "log", befalls)
    assert len(codes) > 8
    assert set(codes) == {KILLED}
    assert results(tmp_path / "runs") == expected
    assert table_of(text) == table


def test_a_sweep_killed_while_its_tables_are_written(data, tmp_path):
    out = tmp_path / "runs"
    one_run, per_table = 24, 2
    befalls = [(die_at_write, one_run + k * per_table) for k in (0, 1)]
    codes, _ = until_it_ends(
        arguments_of("sweep", data, out), tmp_path / "log", [*befalls, (die_at_write, 10**6)]
    )
    assert set(codes) == {KILLED}
    folder = out / f"{RECIPE}-sweep"
    assert {path.name for path in folder.glob("sensitivity.*")} == {
        f"sensitivity.{suffix}" for suffix in ("csv", "md", "png")
    }
    assert not list(out.rglob(".*"))


# ---- evaluate -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """The folder of all runs, two of them finished."""
    out = tmp_path_factory.mktemp("trained")
    for method in ("vanilla", "cutmix"):
        train_here(data, out, method)
    return out


def evaluate_into(out, trained, data):
    folder = str(folder_of(trained, "cutmix"))
    return ["evaluate", folder, "--data", str(data), "--device=cpu", f"--out={out}"]


@pytest.mark.slow
def test_an_evaluation_killed_at_every_write(trained, data, tmp_path):
    code, text = run(evaluate_into(tmp_path / "unbroken", trained, data), tmp_path / "log")
    assert code == 0, text
    befalls = ((die_at_write, number) for number in itertools.count())
    arguments = evaluate_into(tmp_path / "broken", trained, data)
    codes, again = until_it_ends(arguments, tmp_path / "broken-log", befalls)
    writes = 2 * 2  # a file and its folder, metrics and picture
    assert codes == [KILLED] * writes
    assert results(tmp_path / "broken") == results(tmp_path / "unbroken")
    assert again == text.replace("/unbroken", "/broken")
    assert not list((tmp_path / "broken").rglob(".*"))


# ---- At the same instant ------------------------------------------------------------------------


def at_once(count, arguments, log):
    """Runs a command in several processes that begin together; returns codes and texts."""
    barrier = threading.Barrier(count)
    answers = [None] * count

    def start(number):
        barrier.wait()
        command = Command(arguments, f"{log}-{number}")
        answers[number] = command.end(), command.text

    threads = [threading.Thread(target=start, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_two_commands_that_train_at_the_same_instant(data, tmp_path):
    expected = results(train_here(data, tmp_path / "alone", "cutmix"))
    failed = 0
    for number in range(2):
        out = tmp_path / str(number)
        for code, text in at_once(2, words(data, out, method="cutmix"), tmp_path / f"log{number}"):
            # The second may come after the first has ended, and then reports what there is.
            assert code == 0 or (code == 1 and "must not be in use" in text), text
            assert "Traceback" not in text
            failed += code
        assert results(folder_of(out, "cutmix")) == expected
        assert not list(out.rglob(".*"))
    assert failed > 0
