"""How many requests a second: a bucket of tokens for each caller."""

from collections.abc import Callable

_MOST = 10_000  # callers that are remembered; beyond that all are forgotten at once


class RateLimit:
    """Lets a caller through `rate` times a second, and twice that in a burst; 0 lets everyone through.

    >>> limit = RateLimit(1.0, clock=lambda: 0.0)
    >>> [limit.take("ann") for _ in range(3)], limit.take("bob")
    ([True, True, False], True)
    """

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate, self._clock = rate, clock
        self._burst = max(2.0 * rate, 1.0)
        self._left: dict[str, tuple[float, float]] = {}  # caller → tokens, when

    def take(self, caller: str) -> bool:
        """Whether one more is allowed now."""
        if not self._rate:
            return True
        now = self._clock()
        tokens, then = self._left.get(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        if len(self._left) >= _MOST and caller not in self._left:
            self._left.clear()
        self._left[caller] = (tokens - 1.0 if tokens >= 1.0 else tokens, now)
        return tokens >= 1.0
