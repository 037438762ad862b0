"""The command line: `comixup recipes`, `train`, `tune`, `evaluate`, `compare`, `sweep`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

try:
    import tyro
    from lightning_fabric.utilities.exceptions import MisconfigurationException
    from rich.console import Console

    from comixup import training
    from comixup.cli._evaluation import compare, evaluate
    from comixup.cli._options import check_words
    from comixup.cli._training import recipes, sweep, train, tune
except ModuleNotFoundError as missing:
    sys.exit(
        f"comixup: the command line needs {missing.name}, which is not installed. "
        "Use pip install 'comixup[train]'."
    )

DEBUG = "COMIXUP_DEBUG"
"""Environment variable; if set, errors come with their traceback."""

_MISTAKES = (
    *(ValueError, TypeError, OSError, ImportError, RuntimeError),
    *(MemoryError, OverflowError, MisconfigurationException),
)
"""What a user's mistake, a missing file or package, or a machine's limits raise."""
_INTERRUPTED = 130
"""What a shell takes a program for that Ctrl-C ended."""

COMMANDS: dict[str, Callable[..., None]] = {
    "recipes": recipes,
    "train": train,
    "tune": tune,
    "evaluate": evaluate,
    "compare": compare,
    "sweep": sweep,
}


def main() -> None:
    """Runs the command line; a user's mistake gets an error message, not a traceback."""
    try:
        check_words(sys.argv[1:])
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="comixup",
            description="Train classifiers with Co-Mixup and its baselines, and evaluate them.",
        )
    except _MISTAKES as error:
        if os.environ.get(DEBUG):
            raise
        message = str(error).strip() or type(error).__name__
        if isinstance(error, RuntimeError) and not isinstance(error, training.TrainingStopped):
            message += f" ({DEBUG}=1 shows where that happened.)"
        _print_error(message)
        sys.exit(1)
    except KeyboardInterrupt:
        _print_error("Stopped. The same command resumes from the last checkpoint.")
        sys.exit(_INTERRUPTED)


def _print_error(message: str) -> None:
    """Prints a message on standard error, in one line however long."""
    Console(stderr=True).print(f"comixup: {message}", markup=False, highlight=False, soft_wrap=True)
