"""A termination signal (SIGTERM) ends a command as Ctrl-C does: in order, and with a message."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType


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
