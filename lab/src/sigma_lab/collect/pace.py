"""How often a peer may be asked, and how long to wait before asking again."""

import random
import threading
import time

from msgspec.structs import replace

from sigma_lab.collect.endpoint import Endpoint
from sigma_lab.collect.requests import Body, Reply
from sigma_mem.judges.endpoint import TransientError

_LONGEST_WAIT = 60.0
_LONGEST_RETRY_AFTER = 900.0


class Stopped(Exception):
    """The run ends; what was waiting is left unasked."""


class Pace:
    """Lets one request through per interval, for all threads of a peer together.

    ``stop`` wakes all that wait.
    """

    def __init__(self, per_minute: float | None, stop: threading.Event) -> None:
        self._interval = 0.0 if per_minute is None else 60.0 / per_minute
        self._stop, self._lock, self._next = stop, threading.Lock(), 0.0

    def wait(self) -> None:
        """Return when it is this request's turn."""
        with self._lock:
            turn = max(time.monotonic(), self._next)
            self._next = turn + self._interval
        self.sleep(turn - time.monotonic())

    def pause(self, seconds: float) -> None:
        """Begin no request for so long, as the endpoint demanded."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)

    def sleep(self, seconds: float) -> None:
        """Wait, but not beyond the end of the run."""
        if self._stop.wait(max(seconds, 0.0)) if seconds > 0 else self._stop.is_set():
            raise Stopped


def ask_with_retries(peer: Endpoint, request: Body, pace: Pace, retries: int, backoff: float) -> Reply:
    """Ask, and ask again after a failure that may pass, up to ``retries`` times.

    The wait is ``backoff`` seconds and doubles each time, with jitter; if the endpoint sends a time
    (Retry-After), it is that, for every thread of the peer.
    """
    attempt = 0
    while True:
        attempt += 1
        pace.wait()
        begun = time.monotonic()
        try:
            reply = peer.ask(request)
        except TransientError as error:
            pace.sleep(0)  # a request that the end of the run cut short has not failed
            too_long = error.retry_after is not None and error.retry_after > _LONGEST_RETRY_AFTER
            if attempt > retries or too_long:
                times = f"after {attempt} attempts" if attempt > 1 else "at the first attempt"
                reply = Reply(error=f"{error} ({times})", down=True)
            elif error.retry_after is not None:
                pace.pause(error.retry_after)
                continue
            else:
                wait = min(backoff * 2 ** (attempt - 1), _LONGEST_WAIT)
                pace.sleep(wait * random.uniform(0.5, 1.0))
                continue
        return replace(reply, seconds=round(time.monotonic() - begun, 3), attempts=attempt)
