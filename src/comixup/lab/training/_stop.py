"""Stops a run on Ctrl-C or a termination signal, after the current step or at once."""

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
"""Time from the second request until a process is ended that cannot react, because it waits for
others (which may be stopped) or computes outside of Python."""
_SHELL_OFFSET = 128
"""Shells report a program ended by a signal as this plus the signal's number."""
_END = b"\0"
"""Ends the thread that watches for requests; no signal has this number."""
_AT_ONCE = "Stopped at once. The same command resumes from the last checkpoint."


class TrainingStopped(RuntimeError):  # noqa: N818 - the run is sound, and resumes when asked
    """A run ended early for a reason that the message explains; it can be resumed.

    Attributes:
        signal_number: the signal that requested it; None for other reasons.
    """

    def __init__(self, message: str, signal_number: int | None = None) -> None:
        super().__init__(message)
        self.signal_number = signal_number


class StopRequest:
    """Records Ctrl-C or a termination signal, so that the current step can finish first.

    Attributes:
        signal_number: the last signal received; None if none.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None

    @property
    def made(self) -> bool:
        """Whether a stop was requested."""
        return self.signal_number is not None

    def _note(self, number: int, frame: FrameType | None) -> None:
        asked_before, self.signal_number = self.made, number
        if asked_before:  # second request: stop at once
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Replaces the signal handlers inside the context, in the main thread."""
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
            # All processes got the signal, another one exited first, and a collective failed here.
            # A genuine error would occur again on resuming.
            if self.made and not isinstance(error, TrainingStopped):
                raise TrainingStopped(_AT_ONCE, self.signal_number) from error
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _leave_signals_to_the_parent() -> None:
    """Makes worker processes, forked while their parent listens, ignore Ctrl-C.

    It reaches them too: one of them would write its request into the parent's pipe.
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

    Python runs handlers between two bytecode instructions, so not while the process waits in a
    collective, perhaps for half an hour. The signal wakeup pipe is written immediately and read by
    a thread. Worker processes inherit the pipe, so it may stay open after this process closes it: a
    byte ends the thread.
    """
    if sys.platform == "win32":  # no wakeup pipes there
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
        with contextlib.suppress(BlockingIOError):  # full of requests: the thread ends
            os.write(writer, _END)
        os.close(writer)
        thread.join()
        os.close(reader)
