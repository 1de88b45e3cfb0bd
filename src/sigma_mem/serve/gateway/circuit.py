"""Circuit breaking: an upstream that fails is left alone for a while."""

import time
from collections.abc import Callable

_FAILURES = 3  # in a row, until the circuit opens
_PAUSE = 5.0  # seconds; doubled with every further failure
_LONGEST = 300.0


class Circuit:
    """Whether one upstream should be called.

    Closed while it answers. After three failures in a row it opens, for a pause that doubles with every
    further failure; the first call after a pause is a trial, and the others wait for how that ends. A rate
    limit opens it for as long as the upstream asks. None of this is evidence about the peer's answers.

    Examples
    --------
    >>> now = 0.0
    >>> circuit = Circuit(clock=lambda: now)
    >>> for _ in range(3):
    ...     circuit.failed()
    >>> circuit.is_closed()
    False
    >>> now = 5.0
    >>> circuit.is_closed()
    True
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._open_until = 0.0

    def is_closed(self) -> bool:
        """Whether a call may be made now."""
        return self._clock() >= self._open_until

    def begin(self) -> None:
        """A call starts; where the circuit was open before, it is the only trial until it ends."""
        if self._failures >= _FAILURES:
            self._open_until = self._clock() + self._pause()

    def succeeded(self) -> None:
        """The upstream answered, whatever it said."""
        self._failures, self._open_until = 0, 0.0

    def failed(self) -> None:
        """It could not be reached, took too long, or sent what is no answer."""
        self._failures += 1
        if self._failures >= _FAILURES:
            self._open_until = self._clock() + self._pause()

    def limited(self, seconds: float) -> float:
        """It asked to be left alone for some time; returns for how long it will be."""
        wait = min(seconds, _LONGEST) if seconds > 1.0 else 1.0  # 1 for NaN too
        self._open_until = self._clock() + wait
        return wait

    def _pause(self) -> float:
        further = min(self._failures - _FAILURES, 10)
        return min(_PAUSE * 2.0**further, _LONGEST)
