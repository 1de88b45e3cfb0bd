"""An OpenAI-compatible endpoint over the standard library's HTTP client."""

import contextlib
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from sigma_mem.errors import InputError, SigmaMemError

LARGEST_REPLY = 16 * 2**20
_DOWN = (401, 402, 403, 404)
_PASSES = (408, 425, 429)


class TransientError(SigmaMemError):
    """A failure that may pass: asking again later is worth it."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class RefusalError(SigmaMemError):
    """The endpoint refused a request; `down` means that it would refuse every other one, too."""

    def __init__(self, reason: str, down: bool) -> None:
        super().__init__(reason)
        self.down = down


class JudgeEndpoint:
    """Posts to ``URL/chat/completions``; the key is read from the environment and kept in memory only.

    Parameters
    ----------
    url : str
        Such as http://127.0.0.1:8080/v1.
    key_env : str, optional
        The environment variable that holds the key.
    timeout : float
        Seconds for one request, from the first byte to the last.
    who : str
        Whose endpoint it is, for error messages.
    """

    def __init__(
        self, url: str, *, key_env: str | None = None, timeout: float = 120.0, who: str = "endpoint"
    ) -> None:
        self.timeout = timeout
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{who}: got the address {url!r}; expected one such as http://127.0.0.1:8080/v1")
        self._https, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        query = f"?{parts.query}" if parts.query else ""
        self._path = f"{parts.path.rstrip('/')}/chat/completions{query}"
        self._key = _key_of(key_env, who)
        self._open: set[socket.socket] = set()
        self._lock, self._closed = threading.Lock(), False

    def post(self, body: Mapping[str, Any]) -> bytes:
        """The reply to a request; `TransientError` for what broke on the way, for 429 and for 5xx."""
        status, retry_after, data = self._post(json.dumps(body).encode())
        if status == 200:
            return data
        reason = self._redacted(f"HTTP {status}: {message_in(data)}")
        if status in _PASSES or status >= 500:
            raise TransientError(reason, retry_after)
        raise RefusalError(reason, status in _DOWN)

    def close(self) -> None:
        """Cut the connections that are open."""
        with self._lock:
            self._closed = True
            sockets = list(self._open)
        for sock in sockets:
            _cut(sock)

    def _post(self, body: bytes) -> tuple[int, float | None, bytes]:
        """Status, Retry-After and body; everything within the timeout."""
        deadline = time.monotonic() + self.timeout
        headers = {"Content-Type": "application/json", "User-Agent": "sigma-mem"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            with self._connection() as connection:
                connection.request("POST", self._path, body, headers)
                response = connection.getresponse()
                data = response.read(LARGEST_REPLY + 1)
                # A read of this many bytes does not show that the rest announced by Content-Length came.
                if response.length and len(data) <= LARGEST_REPLY:
                    raise http.client.IncompleteRead(data, response.length)
        except (OSError, UnicodeError, http.client.HTTPException) as error:
            if time.monotonic() >= deadline:
                raise TransientError(f"no whole reply within {self.timeout:g} s") from error
            reason = self._redacted(str(error) or type(error).__name__)
            raise TransientError(f"the connection failed: {reason}") from error
        if time.monotonic() >= deadline:  # cut by the deadline, which reads like an end of the file
            raise TransientError(f"no whole reply within {self.timeout:g} s")
        return response.status, retry_after_seconds(response.getheader("Retry-After")), data

    @contextlib.contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        """A connection that is cut at the deadline: a socket's own timeout starts again with every byte."""
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self.timeout)
        begun = time.monotonic()
        connection.connect()
        sock = connection.sock  # the connection lets go of it while a reply is still being read
        timer = threading.Timer(max(begun + self.timeout - time.monotonic(), 0.0), _cut, [sock])
        timer.daemon = True
        timer.start()
        try:
            with self._lock:
                if self._closed:
                    raise ConnectionAbortedError("the run has ended")
                self._open.add(sock)
            yield connection
        finally:
            timer.cancel()
            with self._lock:
                self._open.discard(sock)
            connection.close()

    def _redacted(self, text: str) -> str:
        return text if self._key is None else text.replace(self._key, "[key]")


def retry_after_seconds(header: str | None) -> float | None:
    """The value of Retry-After: seconds, or a date; None if it is not sensible.

    >>> retry_after_seconds("1.5"), retry_after_seconds("Wed, 21 Oct 2015 07:28:00 GMT")
    (1.5, 0.0)
    >>> retry_after_seconds("soon")
    """
    if header is None:
        return None
    with contextlib.suppress(ValueError):
        seconds = float(header)
        return seconds if 0 <= seconds < float("inf") else None
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max((at - datetime.now(UTC)).total_seconds(), 0.0)


def _key_of(variable: str | None, who: str) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InputError(f"{who}: the environment variable {variable} is not set; export it")
    if not key.isascii() or not key.isprintable():
        raise InputError(f"{who}: {variable} holds characters that no HTTP header can carry")
    return key


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def message_in(data: bytes) -> str:
    """The error message of a reply, or how its text begins."""
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        error = json.loads(data)["error"]
        message = error["message"] if isinstance(error, dict) else error
        if isinstance(message, str):
            return " ".join(message.split())[:300].encode("utf-8", "replace").decode()
    return " ".join(data[:200].decode("utf-8", "replace").split()) or "no text"
