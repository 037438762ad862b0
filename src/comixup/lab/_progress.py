"""Progress bars on the terminal."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

Item = TypeVar("Item")
Result = TypeVar("Result")
_BAR_WIDTH = 24


@contextlib.contextmanager
def progress_bar(
    console: Console | None, title: str, total: int
) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar and yields the function that updates it, called with the number done.

    None, or a console that is no terminal, shows nothing.
    """
    from rich import progress  # noqa: PLC0415  (slow to import)

    shown = console is not None and console.is_terminal
    bar = progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=_BAR_WIDTH),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(compact=True),
        progress.TextColumn("left"),
        console=console,
        disable=not shown,
    )
    with bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


def track(items: Iterable[Item], total: int, title: str) -> Iterable[Item]:
    """Returns the items, with a progress bar on standard error that is removed at the end."""
    from rich.console import Console  # noqa: PLC0415  (slow to import)
    from rich.progress import track as rich_track  # noqa: PLC0415

    console = Console(stderr=True)
    hide = not console.is_terminal
    return rich_track(items, title, total, console=console, transient=True, disable=hide)


def in_threads(
    call: Callable[[Item], Result], items: Sequence[Item], title: str
) -> Iterator[Result]:
    """Yields what a function returns for each item, in order, called by several threads.

    Reading and decoding files let go of Python's lock, so threads do.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from track(pool.map(call, items), len(items), title)
