"""An OpenAI-compatible endpoint as a peer, over the standard library's HTTP client."""

import contextlib
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from sigma_lab.collect.peers import PeerSettings
from sigma_lab.collect.requests import Body, Reply, TransientError
from sigma_lab.collect.task_prompts import clean_text
from sigma_mem.errors import InputError

_LARGEST_REPLY = 16 * 2**20
_DOWN = (401, 402, 403, 404)
_PASSES = (408, 425, 429)


class Endpoint:
    """Asks ``BASE_URL/chat/completions``; the key is read from the environment and kept in memory only."""

    def __init__(self, peer: PeerSettings) -> None:
        self._peer = peer
        parts = urlsplit(peer.endpoint[0])
        self._https, self._host, self._port = parts.scheme == "https", str(parts.hostname), parts.port
        query = f"?{parts.query}" if parts.query else ""
        self._path = f"{parts.path.rstrip('/')}/chat/completions{query}"
        self._key = _key_of(peer)
        self._open: set[socket.socket] = set()
        self._lock, self._closed = threading.Lock(), False

    def ask(self, requests: Sequence[Body]) -> list[Reply]:
        """One reply per request; `TransientError` for what broke on the way, for 429 and for 5xx."""
        return [self._ask(request["body"]) for request in requests]

    def close(self) -> None:
        """Cut the connections that are open."""
        with self._lock:
            self._closed = True
            sockets = list(self._open)
        for sock in sockets:
            _cut(sock)

    def _ask(self, body: Body) -> Reply:
        status, retry_after, data = self._post(json.dumps(body).encode())
        if status == 200:
            return read_completion(data)
        reason = self._redacted(f"HTTP {status}: {_message(data)}")
        if status in _PASSES or status >= 500:
            raise TransientError(reason, retry_after)
        return Reply(error=reason, down=status in _DOWN)

    def _post(self, body: bytes) -> tuple[int, float | None, bytes]:
        """Status, Retry-After and body; everything within the peer's timeout."""
        deadline = time.monotonic() + self._peer.timeout
        headers = {"Content-Type": "application/json", "User-Agent": "sigma-mem"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            with self._connection() as connection:
                connection.request("POST", self._path, body, headers)
                response = connection.getresponse()
                data = response.read(_LARGEST_REPLY + 1)
                # A read of so many bytes says nothing about the rest that Content-Length announced.
                if response.length and len(data) <= _LARGEST_REPLY:
                    raise http.client.IncompleteRead(data, response.length)
        except (OSError, UnicodeError, http.client.HTTPException) as error:
            if time.monotonic() >= deadline:
                raise TransientError(f"no whole reply within {self._peer.timeout:g} s") from error
            reason = self._redacted(str(error) or type(error).__name__)
            raise TransientError(f"the connection failed: {reason}") from error
        if time.monotonic() >= deadline:  # cut by the deadline, which reads like an end of the file
            raise TransientError(f"no whole reply within {self._peer.timeout:g} s")
        return response.status, retry_after_seconds(response.getheader("Retry-After")), data

    @contextlib.contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        """A connection that is cut at the deadline: a socket's own timeout starts again with every byte."""
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._peer.timeout)
        begun = time.monotonic()
        connection.connect()
        sock = connection.sock  # the connection lets go of it while a reply is still being read
        timer = threading.Timer(max(begun + self._peer.timeout - time.monotonic(), 0.0), _cut, [sock])
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


def read_completion(data: bytes) -> Reply:
    """The reply in a chat completion's JSON; whatever is not one is a failure, never an answer."""
    if len(data) > _LARGEST_REPLY:
        return Reply(error=f"the reply is longer than {_LARGEST_REPLY} bytes")
    try:
        found = json.loads(data)
        choice = found["choices"][0]
        text = choice["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return Reply(error=f"not a chat completion: {_message(data)}")
    usage = found["usage"] if isinstance(found.get("usage"), dict) else {}
    about: dict[str, Any] = {
        "model": _text(found.get("model")),
        "finish": _text(choice.get("finish_reason")),
        "tokens_in": _count(usage.get("prompt_tokens")),
        "tokens_out": _count(usage.get("completion_tokens")),
    }
    if about["finish"] == "content_filter":
        return Reply(error="the endpoint's filter withheld the answer", **about)
    if not isinstance(text, str) or not text.strip():
        return Reply(error=f"an empty answer (finish reason {about['finish']})", **about)
    return Reply(text=clean_text(text), **about)


def retry_after_seconds(header: str | None) -> float | None:
    """What Retry-After says: seconds, or a date; None where it says nothing sensible.

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


def _key_of(peer: PeerSettings) -> str | None:
    if peer.key_env is None:
        return None
    key = os.environ.get(peer.key_env, "").strip()
    if not key:
        raise InputError(f"peer {peer.name!r}: the environment variable {peer.key_env} is not set; export it")
    if not key.isascii() or not key.isprintable():
        raise InputError(f"peer {peer.name!r}: {peer.key_env} holds characters that no HTTP header can carry")
    return key


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _message(data: bytes) -> str:
    """The error message of a reply, or how its text begins."""
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        error = json.loads(data)["error"]
        message = error["message"] if isinstance(error, dict) else error
        if isinstance(message, str):
            return clean_text(" ".join(message.split())[:300])
    return " ".join(data[:200].decode("utf-8", "replace").split()) or "no text"


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(value: Any) -> str | None:
    return clean_text(value) if isinstance(value, str) else None
