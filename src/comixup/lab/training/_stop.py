"""Stopping a run: by Ctrl-C or a termination signal, now or after the step under way."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GRACE_SECONDS = 5.0
"""From the second request to the end of a process that cannot react, because it waits for others
(which may be stopped) or computes outside of Python."""
_SHELL_OFFSET = 128
"""A program that a signal ended exits with this plus the signal's number, in a shell's eyes."""
_END = b"\0"
"""Tells the thread that watches for requests to end; no signal has this number."""
_AT_ONCE = "Stopped at once. The same command resumes from the last checkpoint."


class TrainingStopped(RuntimeError):  # noqa: N818 - the run is sound, and resumes when asked
    """A run ended early for a reason that the message explains; it can be resumed.

    Attributes:
        signal_number: of the signal that asked for it; None for other reasons.
    """

    def __init__(self, message: str, signal_number: int | None = None) -> None:
        super().__init__(message)
        self.signal_number = signal_number


class StopRequest:
    """Remembers Ctrl-C or a termination signal, so that the step in progress can end first.

    Attributes:
        signal_number: of the last of them; None as long as there was none.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None

    @property
    def made(self) -> bool:
        """Whether this run is asked to stop."""
        return self.signal_number is not None

    def _note(self, number: int, frame: FrameType | None) -> None:
        asked_before, self.signal_number = self.made, number
        if asked_before:  # asked twice: at once
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Takes the place of the usual handlers for a while, in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        try:
            with _watched():
                yield self
        except KeyboardInterrupt:
            raise TrainingStopped(_AT_ONCE, self.signal_number) from None
        except RuntimeError as error:
            # All processes were asked, another has exited first, and a collective of this one
            # failed. An error of its own would come again when the run is resumed.
            if self.made and not isinstance(error, TrainingStopped):
                raise TrainingStopped(_AT_ONCE, self.signal_number) from error
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _leave_signals_to_the_parent() -> None:
    """Lets worker processes, forked while their parent listens, be ended by it alone.

    Ctrl-C reaches them too: one of them would write its request into the parent's pipe.
    """
    handler = signal.getsignal(signal.SIGINT)
    if getattr(handler, "__func__", None) is StopRequest._note:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_signals_to_the_parent)


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    """Ends this process if it does not react to a second request to stop.

    Python's handlers run between two instructions of Python, so not while the process waits in a
    call for another one, perhaps for half an hour. What the system calls right away is a write to
    a pipe, which a thread reads. Worker processes inherit the pipe, so it may stay open after this
    process has closed it: what ends the thread is a byte.
    """
    if sys.platform == "win32":  # whose pipes do not serve for this
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    over = threading.Event()

    def watch() -> None:
        requests: list[int] = []
        while len(requests) < 2:
            numbers = os.read(reader, 64)
            if not numbers or numbers.endswith(_END):
                return
            requests += [number for number in numbers if number in _SIGNALS]
        if not over.wait(_GRACE_SECONDS):
            os.write(sys.stderr.fileno(), f"comixup: {_AT_ONCE}\n".encode())
            os._exit(_SHELL_OFFSET + requests[-1])

    thread = threading.Thread(target=watch, daemon=True, name="stop-request")
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        with contextlib.suppress(BlockingIOError):  # full of requests, which end the thread too
            os.write(writer, _END)
        os.close(writer)
        thread.join()
        os.close(reader)
