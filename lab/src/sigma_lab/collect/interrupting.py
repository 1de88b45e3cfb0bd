"""Ctrl-C as a wish that is seen at the next good moment, in place of an exception anywhere."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class DelayedInterrupt:
    """Whether SIGINT came since the block began."""

    def __init__(self) -> None:
        self.came = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Take note of the first one; a second one raises at once, for whoever cannot wait."""
        # A plain attribute: the thread that is interrupted may hold the lock of anything else.
        if self.came:
            raise KeyboardInterrupt
        self.came = True


@contextmanager
def delayed_interrupt() -> Iterator[DelayedInterrupt]:
    """Within the block the first SIGINT raises nothing; it is sent again when the block has ended.

    The block looks at ``came`` from time to time: a signal that comes just before a thread begins to wait for
    a lock does not wake it. Outside the main thread, or where SIGINT is ignored, nothing changes.
    """
    delayed = DelayedInterrupt()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield delayed
        return
    signal.signal(signal.SIGINT, delayed.handle)
    try:
        yield delayed
    finally:
        signal.signal(signal.SIGINT, before)
        if delayed.came:
            signal.raise_signal(signal.SIGINT)
