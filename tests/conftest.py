"""What all tests share: the same examples on every run, and no trace in the user's cache."""

import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

collect_ignore = []
if "COMIXUP_PRETEND_DEVICE" not in os.environ:  # it would be there for all tests of a process
    collect_ignore += ["pretend_device.py", "on_a_device.py"]
if sys.platform == "win32":  # forked processes, signals and limits that Windows does not have
    collect_ignore += [
        f"lab/training/test_{name}.py" for name in ("atomic_write", "processes", "survival")
    ]

settings.register_profile("same-every-time", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("same-every-time")

PROCESSES = (
    "lab/training/test_processes.py",
    "lab/training/test_survival.py",
    "lab/training/test_killed_commands.py",
    "lab/training/test_joined_methods.py",
    "lab/training/test_one_pass_runs.py",
    "lab/training/test_atomic_write.py",
    "lab/training/test_locks.py",
    "lab/training/test_stop.py",
    "lab/training/test_weight_average.py",
    "lab/paper/test_killed_worker.py",
    "test_distributed.py",
)
"""Files whose processes are forked by one server (lab/training/small_runs.py), slow to start."""
GROUPS = 2
"""Workers that share these files: they wait for their processes more than they compute."""
LONGEST = (
    *PROCESSES,
    "lab/evaluation/test_evaluation_commands.py",
    "test_examples.py",
    "cli/test_cli.py",
    "lab/training/test_recipes.py",
    "lab/training/test_sweep.py",
    "lab/training/test_pictures.py",
    "lab/models/test_models_build.py",
)

# A shell starts background jobs with Ctrl-C ignored, which every process they start inherits: tests
# that interrupt something would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Puts the files that take longest first, so that workers end at the same time."""
    here = Path(__file__).parent
    rank = {here / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keeps each file on one worker, with --dist loadfile, and those with processes together."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - only with pytest-xdist

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            name = file.removeprefix("tests/")
            if name not in PROCESSES:
                return file
            return f"processes {PROCESSES.index(name) % GROUPS}"

    return Together(config, log)


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory):
    """Data sets are cached here, once for all workers of pytest-xdist: see `comixup.lab.data`."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMIXUP_CACHE", str(folder / "cache"))
        yield folder / "cache"


@pytest.fixture(scope="session", autouse=True)
def _no_drawing():
    """Runs write their pictures without drawing them, unless a test asks for `drawn`."""
    if importlib.util.find_spec("matplotlib"):  # the core's tests run without it
        import pictures  # noqa: PLC0415

        pictures.skip_drawing()


@pytest.fixture
def drawn():
    """Pictures are drawn in this test, as they are for users."""
    import pictures  # noqa: PLC0415

    with pictures.drawing():
        yield


@pytest.fixture
def columns():
    """The width of the terminal that `called` prints to; test files may have another."""
    return 80


@pytest.fixture
def called(columns, tmp_path, monkeypatch, capsys):
    """Calls the command line within this process, in a folder of its own.

    Returns the exit code, what was printed, and what was printed on standard error.
    """
    from comixup import cli  # noqa: PLC0415 - most tests need no command line

    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv(cli.DEBUG, raising=False)
    monkeypatch.delenv("COMIXUP_DATA", raising=False)
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["comixup", *map(str, words)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
