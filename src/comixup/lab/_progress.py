"""Messages and progress bars on the terminal, for one task or many."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

Item = TypeVar("Item")
Result = TypeVar("Result")
_BAR_WIDTH = 24


def print_line(console: Console | None, text: str) -> None:
    """Prints a line without markup or line breaks.

    None prints nothing.
    """
    if console is not None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)


@contextlib.contextmanager
def progress_bar(
    console: Console | None, title: str, total: int
) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar and yields its update function, to call with the number done.

    Nothing is shown for None, or a console that is not a terminal.
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
    """Yields a function's result for each item, in order, computed by several threads.

    Reading and decoding files release the GIL, so processes are not needed.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from track(pool.map(call, items), len(items), title)


# ---- Many tasks ----------------------------------------------------------------------------------


class Progress(NamedTuple):
    """The progress of a task: `done` of `total` epochs, and a note such as the latest error."""

    done: float
    total: int
    note: str


Tell: TypeAlias = "Callable[[Progress | str], None]"
"""Called by a task to show a line, or its progress."""


class Board:
    """Shows the progress of many tasks: a bar for each running task, or lines without a terminal.

    Args:
        console: console to print to; None is silent.
        keys: names of all tasks.
    """

    def __init__(self, console: Console | None, keys: Sequence[str]) -> None:
        self.console, self.total, self.finished = console, len(keys), 0
        self._begin = time.monotonic()
        self._bars: RichProgress | None = None
        self._rows: dict[str, TaskID] = {}

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def tell(self, key: str, host: str, said: Progress | str) -> None:
        """Shows a task's message or progress, and the machine that it runs on."""
        title = f"{key} on {host}" if host else key
        if self.console is None:
            return
        if isinstance(said, str):
            print_line(self.console, f"{title}: {said}")
        elif self.console.is_terminal:
            self._move(key, title, said)
        elif said.done == int(said.done):
            print_line(self.console, f"{title}: epoch {said.done:.0f}/{said.total}, {said.note}")

    def finish(self, key: str, failure: str | None) -> None:
        """Prints that a task is done, or why it failed, and an estimate for the remaining ones."""
        self.finished += 1
        if key in self._rows and self._bars is not None:
            self._bars.remove_task(self._rows.pop(key))
        if self.console is None or self.total == 1:
            return
        left = (time.monotonic() - self._begin) * (self.total / self.finished - 1)
        rest = f"about {format_duration(left)}" if left else "nothing"
        end = "" if failure is None else f" failed: {failure}"
        print_line(self.console, f"{self.finished} of {self.total} done, {rest} left: {key}{end}")

    def _move(self, key: str, title: str, said: Progress) -> None:
        from rich import progress  # noqa: PLC0415  (slow to import)

        if self._bars is None:
            self._bars = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(bar_width=_BAR_WIDTH // 2),
                progress.MofNCompleteColumn(),
                progress.TextColumn("{task.fields[note]}", markup=False),
                console=self.console,
            )
            self._bars.start()
        if key not in self._rows:
            self._rows[key] = self._bars.add_task(title, total=said.total, note="")
        row = self._rows[key]
        self._bars.update(row, description=title, completed=said.done, note=said.note)


def format_duration(seconds: float) -> str:
    """Returns a duration with a suitable unit.

    >>> format_duration(42), format_duration(600), format_duration(10_000)
    ('42 s', '10 min', '2.8 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
