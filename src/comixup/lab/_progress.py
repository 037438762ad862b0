"""Progress bars on the terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

Item = TypeVar("Item")
_BAR_WIDTH = 24


@contextlib.contextmanager
def progress_bar(
    console: Console | None, title: str, total: int
) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar and yields the function that updates it, called with the number done.

    Args:
        console: where to draw; None, or a console that is no terminal, shows nothing.
        title: what is in progress.
        total: how many there are to do.
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
