"""The command line: `comixup train`, `evaluate`, `predict` and the other commands.

Help and lists are there at once because no module of this package imports torch, nor a library
that does, at its top: packages of comixup are lazy (`training.train` imports torch when it is
first looked up), other libraries are imported in the function that needs them, and names for
annotations of helpers under `TYPE_CHECKING`. `tests/test_lazy_imports.py` keeps watch.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

try:
    import tyro
    from rich.console import Console

    import comixup
    from comixup._did_you_mean import did_you_mean
    from comixup.cli._evaluation import compare, evaluate, export, predict
    from comixup.cli._mix import check, explore, mix
    from comixup.cli._options import check_words
    from comixup.cli._recipes import recipes, reproduce
    from comixup.cli._training import sweep, train, tune
    from comixup.cli._values import registry
    from comixup.lab import training
    from comixup.lab._progress import print_line
except ModuleNotFoundError as missing:
    sys.exit(
        f"comixup: the command line needs {missing.name}, which is not installed. "
        "Use pip install 'comixup[train]'."
    )

DEBUG = "COMIXUP_DEBUG"
"""Environment variable; if set, errors come with their traceback."""

_MISTAKES = (ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError, OverflowError)
"""What a user's mistake, a missing file or package, or a machine's limits raise."""
_RESUMED = ("train", "tune", "sweep", "reproduce")
"""Commands that resume from checkpoints."""

_MISUSED = 2
"""What tyro and shells exit with for words that cannot be understood."""
_DESCRIPTION = (
    "Train classifiers with Co-Mixup and its baselines, and evaluate them. "
    "comixup COMMAND --help shows a command's options, comixup --version the version."
)

COMMANDS: dict[str, Callable[..., None]] = {
    "recipes": recipes,
    "train": train,
    "tune": tune,
    "evaluate": evaluate,
    "compare": compare,
    "sweep": sweep,
    "predict": predict,
    "export": export,
    "mix": mix,
    "explore": explore,
    "check": check,
    "reproduce": reproduce,
}


def main() -> None:
    """Runs the command line; a user's mistake gets an error message, not a traceback."""
    words = sys.argv[1:] or ["--help"]
    if words == ["--version"]:
        print(f"comixup {comixup.__version__}")
        return
    try:
        _check_command(words[0])
        check_words(words, COMMANDS.get(words[0]))
        with registry, raising_terminated():
            _run(words)
    except KeyboardInterrupt as stopped:
        resumes = " The same command resumes from the last checkpoint."
        _print_error(f"Stopped.{resumes if words[0] in _RESUMED else ''}")
        sys.exit(exit_code(signal.SIGTERM if isinstance(stopped, Terminated) else signal.SIGINT))
    except training.TrainingStopped as stopped:
        if os.environ.get(DEBUG):
            raise
        _print_error(str(stopped))
        sys.exit(1 if stopped.signal_number is None else exit_code(stopped.signal_number))
    except Exception as error:
        if os.environ.get(DEBUG) or not _is_mistake(error):
            raise
        _print_error(_message(error))
        sys.exit(1)


def _run(words: list[str]) -> None:
    """Runs the command that words name, or shows the help of all."""
    if words[0] in COMMANDS:  # alone: its parser is made sooner than those of all commands
        tyro.cli(COMMANDS[words[0]], prog=f"comixup {words[0]}", args=words[1:])
    else:
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="comixup", description=_DESCRIPTION, args=words
        )


def _check_command(word: str) -> None:
    """Ends the process if a command is misspelt, as tyro does if an option is."""
    if not word.startswith("-") and word not in COMMANDS:
        known = ", ".join(COMMANDS)
        _print_error(
            f"`command` must be one of {known}, got {word!r}.{did_you_mean(word, COMMANDS)}"
        )
        sys.exit(_MISUSED)


def _is_mistake(error: Exception) -> bool:
    """Returns whether an error's message is for the user: one of `_MISTAKES`, or Lightning's."""
    lightning = sys.modules.get("lightning_fabric.utilities.exceptions")
    theirs = () if lightning is None else (lightning.MisconfigurationException,)
    return isinstance(error, (*_MISTAKES, *theirs))


def _message(error: Exception) -> str:
    """Returns what to print of an error."""
    message = str(error).strip() or type(error).__name__
    if isinstance(error, ModuleNotFoundError) and message.startswith("No module named"):
        return (
            f"this command needs {error.name}, which is not installed. "
            "Use pip install 'comixup[train]'."
        )
    if isinstance(error, RuntimeError):
        message += f" ({DEBUG}=1 shows where that happened.)"
    return message


def _print_error(message: str) -> None:
    """Prints a message on standard error, in one line however long."""
    print_line(Console(stderr=True), f"comixup: {message}")


# ---- Signals ------------------------------------------------------------------------------------


class Terminated(KeyboardInterrupt):
    """SIGTERM came, as `KeyboardInterrupt` says of Ctrl-C."""


def exit_code(number: int) -> int:
    """Returns what a program that a signal ended exits with, in a shell's eyes.

    >>> exit_code(signal.SIGINT), exit_code(signal.SIGTERM)
    (130, 143)
    """
    return 128 + number


@contextlib.contextmanager
def raising_terminated() -> Iterator[None]:
    """Makes SIGTERM raise `Terminated` in the main thread for a while."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    own = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        if os.getpid() == own:
            raise Terminated
        # A fork, such as a process that reads images, ends as it would without this.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
