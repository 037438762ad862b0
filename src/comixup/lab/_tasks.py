"""Tasks, what runs them, and what becomes of them: results as they come, whatever fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from comixup.lab._locks import InUseError
from comixup.lab._progress import Board, Progress, Tell

RETRIES = 3
"""Of a task whose process or machine was lost."""
REFRESH_SECONDS = 0.5
STOP_SECONDS = 30.0
"""From Ctrl-C to the end of tasks that do not save and stop by themselves."""
_LOCK_SECONDS = 60.0
_MISTAKES = (ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError)
"""What missing data or a full disk raise: their message says enough."""


TellOf: TypeAlias = Callable[[str, str, "Progress | str"], None]
"""Shows what a task tells: its key, its machine, and what it said."""


@dataclass(frozen=True)
class Task:
    """A call, and what has to be done before it.

    Attributes:
        key: its name.
        call: a function of a module; it is called with `tell` and the arguments. `tell` shows a
            line of text, or how far the task is.
        arguments: of the call. They and what it returns can be pickled, but for `here:1`.
        needs: keys of the tasks that have to be done first.
        trains: whether it computes on a GPU, where there is one.
    """

    key: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    needs: tuple[str, ...] = ()
    trains: bool = False


@dataclass(frozen=True)
class Done:
    """What became of a task.

    Attributes:
        key: its name.
        result: what it returned; None if it failed.
        error: why it failed.
        host: machine that it ran on, if it was another.
    """

    key: str
    result: Any = None
    error: Exception | None = None
    host: str = ""

    @property
    def reason(self) -> str:
        """Why it failed, in a line."""
        text = " ".join(str(self.error).split()) or type(self.error).__name__
        if not isinstance(self.error, _MISTAKES):
            text = f"{type(self.error).__name__}: {text}"
        return f"{text} (on {self.host})" if self.host else text


def check_done(done: Sequence[Done]) -> None:
    """Raises `RuntimeError` that says why tasks failed, if any did."""
    failed = [one for one in done if one.error is not None]
    if failed:
        reasons = " ".join(dict.fromkeys(one.reason for one in failed))
        raise RuntimeError(f"{len(failed)} of {len(done)} tasks failed: {reasons}")


class LostError(RuntimeError):
    """The process or the machine of a task is gone; the task can be run again."""


_Kind = TypeVar("_Kind", bound="Executor")


class Executor:
    """Runs tasks; leaving it stops those that are running."""

    def __enter__(self: _Kind) -> _Kind:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def full(self) -> bool:
        """Whether a task that is started now would have to wait for another."""
        raise NotImplementedError

    def start(self, task: Task, attempt: int) -> None:
        """Starts a task; attempts are counted from 0."""
        raise NotImplementedError

    def results(self, tell: TellOf) -> list[Done]:
        """Waits a moment for tasks that are done, and returns them; tells what others tell."""
        raise NotImplementedError


def run_tasks(tasks: Sequence[Task], executor: Executor, board: Board) -> Iterator[Done]:
    """Yields what becomes of tasks; those that are ready are started in their order."""
    pending = {task.key: task for task in tasks}
    failed: set[str] = set()
    running: dict[str, Task] = {}
    attempts: dict[str, int] = {}
    while pending or running:
        for key, task in list(pending.items()):
            lost = [other for other in task.needs if other in failed]
            if lost:
                del pending[key]
                done = Done(key, error=RuntimeError(f"it needs {lost[0]}, which failed"))
            elif executor.full or any(other in pending or other in running for other in task.needs):
                continue
            else:
                running[key] = pending.pop(key)
                executor.start(task, attempts.get(key, 0))
                continue
            failed.add(key)
            board.finish(key, done.reason)
            yield done
        for done in executor.results(board.tell) if running else ():
            task = running.pop(done.key)
            attempts[done.key] = attempts.get(done.key, 0) + 1
            if isinstance(done.error, LostError) and attempts[done.key] <= RETRIES:
                board.tell(done.key, "", f"{done.reason}; it is started again.")
                pending = {done.key: task, **pending}
                continue
            if done.error is not None:
                failed.add(done.key)
            board.finish(done.key, None if done.error is None else done.reason)
            yield done


# ---- In a task's process -------------------------------------------------------------------------


def call_task(task: Task, attempt: int, tell: Tell) -> Any:
    """Returns what a task returns; in another attempt it waits for the locks of the lost one.

    A process can outlive the machine that Ray has given up for lost.
    """
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return task.call(tell, *task.arguments)
        except InUseError:
            if not attempt or time.monotonic() > end:
                raise
            time.sleep(REFRESH_SECONDS)


def set_threads(count: int) -> None:
    import torch  # noqa: PLC0415 - slow to import

    torch.set_num_threads(count)
