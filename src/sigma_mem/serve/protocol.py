"""HTTP connections on which ordinary requests take a short way to the application.

uvicorn reads HTTP with a parser in Python that costs more than most calls of a memory. Nearly every
request is an ordinary one: HTTP/1.1, whole headers, a small body of known length. Such a request is read here
with one regular expression and answered with one write. Whatever else comes (a chunked or large body,
``Expect``, ``Connection: close``, another method, anything that is not well formed) goes to uvicorn, byte for
byte, and the connection stays with it.
"""

import asyncio
import logging
import re
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from starlette.types import Message, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

_LARGEST = 65_536  # bytes of head and body of a request that is read here
_HEAD = re.compile(
    rb"(GET|POST|PUT|DELETE) (/[!-~]*) HTTP/1\.1\r\n"
    rb"((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00-\x08\x0a-\x1f\x7f]*\r\n)+)\r\n"
)
_NOT_HERE = (b"transfer-encoding", b"expect", b"upgrade")
_WITHOUT_BODY = (204, 304)
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode("latin-1") for status in HTTPStatus
}
_BROKEN = (
    b"HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 21\r\n\r\nInternal Server Error"
)
_log = logging.getLogger("uvicorn.error")
_protocol: Any = H11Protocol  # strict, and always there: odd requests get the same answer on every machine


class ShortProtocol(_protocol):  # type: ignore[misc]
    """uvicorn's protocol, with the short way in front of it."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin; a connection on which nothing happens is closed after a while."""
        super().connection_made(transport)
        self._handed_over = False  # to uvicorn
        self._exchange: _Exchange | None = None  # the request that is being answered
        self._waiting = b""  # part of a request, or what follows the one that is being answered
        self._closing = False
        self._heard = self.loop.time()
        self._timer = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)

    def data_received(self, data: bytes) -> None:
        """Take bytes from the client."""
        if self._handed_over:
            super().data_received(data)
            return
        self._heard = self.loop.time()
        if self._waiting:
            data = self._waiting + data
        if self._exchange is None:
            self._begin(data)
        else:
            self._waiting = data
            if len(data) > _LARGEST:
                self.flow.pause_reading()

    def _begin(self, data: bytes) -> None:
        """Answer the request at the beginning of these bytes, wait for its rest, or leave it to uvicorn."""
        found = _HEAD.match(data)
        ordinary = None if found is None else _ordinary_headers(found[3])
        busy = max(len(self.connections), len(self.tasks))
        if found is None or ordinary is None or (self.limit_concurrency or busy + 1) <= busy:
            return self._hand_over(data)
        headers, length = ordinary
        end = found.end() + length
        if end > _LARGEST:
            return self._hand_over(data)
        if len(data) < end:
            self._waiting = data
            return None
        self._waiting = data[end:]
        raw_path, _, query = found[2].partition(b"?")
        path = raw_path.decode("ascii")
        scope: Scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": found[1].decode("ascii"),
            "root_path": "",
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": headers,
            "state": self.app_state.copy(),
        }
        exchange = self._exchange = _Exchange(self, data[found.end() : end])
        task = self.loop.create_task(self.app(scope, exchange.receive, exchange.send))
        self.tasks.add(task)
        task.add_done_callback(exchange.over)
        return None

    def _hand_over(self, data: bytes) -> None:
        self._handed_over, self._waiting = True, b""
        super().data_received(data)

    def write(self, data: bytes) -> None:
        """Send bytes to the client."""
        self.transport.write(data)

    def answered(self) -> None:
        """The response is complete: go on with what the client sent meanwhile, or close."""
        self._exchange = None
        self._heard = self.loop.time()
        self.server_state.total_requests += 1
        if self._closing:
            self.transport.close()
        elif not self.transport.is_closing():
            self.flow.resume_reading()
            if self._waiting:
                data, self._waiting = self._waiting, b""
                self._begin(data)

    @property
    def is_closing(self) -> bool:
        """Whether the connection ends with the response that is being sent."""
        return self._closing

    def connection_lost(self, exc: Exception | None) -> None:
        """End; who still answers is told."""
        self._timer.cancel()
        if self._exchange is not None:
            self._exchange.disconnect()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close now, or after the response that is being sent."""
        if self._handed_over:
            super().shutdown()
        elif self._exchange is None:
            self.transport.close()
        else:
            self._closing = True

    def _close_if_idle(self) -> None:
        if self._handed_over or self.transport.is_closing():
            return  # uvicorn has a timer of its own
        since = self._heard if self._exchange is None else self.loop.time()
        left = since + self.timeout_keep_alive - self.loop.time()
        if left <= 0.0:
            self.transport.close()
        else:
            self._timer = self.loop.call_later(left, self._close_if_idle)


def _ordinary_headers(block: bytes) -> tuple[list[tuple[bytes, bytes]], int] | None:
    """The headers of a request, and the length of its body; None where uvicorn shall read it."""
    headers, hosts, lengths, length = [], 0, 0, 0
    for line in block[:-2].split(b"\r\n"):
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        headers.append((name, value))
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            lengths += 1
            if not value.isdigit() or len(value) > 18:
                return None
            length = int(value)
        elif name in _NOT_HERE or (name == b"connection" and value.lower() != b"keep-alive"):
            return None
    return (headers, length) if hosts == 1 and lengths < 2 else None


class _Exchange:
    """One request and its response, as ASGI has them."""

    def __init__(self, connection: ShortProtocol, body: bytes) -> None:
        self._connection = connection
        self._body: bytes | None = body
        self._head = b""  # of the response, until it is sent
        self._chunked = self._started = self._ended = self._gone = False
        self._end: asyncio.Event | None = None  # for who waits until the client is gone

    async def receive(self) -> Message:
        """The whole body, and then that the client is gone or has its response."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not self._gone and not self._ended:
            self._end = asyncio.Event()
            await self._end.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send a part of the response: its head leaves with the first part of a body of known length."""
        if self._connection.flow.write_paused and not self._gone:
            await self._connection.flow.drain()
        if self._gone:
            return
        if message["type"] == "http.response.start" and not self._started:
            self._start(message["status"], message["headers"])
        elif message["type"] == "http.response.body" and self._started and not self._ended:
            more, body = message.get("more_body", False), message.get("body", b"")
            if self._chunked:
                body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (
                    b"" if more else b"0\r\n\r\n"
                )
            if data := self._head + body:
                self._head = b""
                self._connection.write(data)
            if not more:
                self._ended = True
                self._tell()
                self._connection.answered()
        else:
            raise RuntimeError(f"got the ASGI message {message['type']!r} out of turn")

    def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._started = True
        lines = [*self._connection.server_state.default_headers, *headers]
        if self._connection.is_closing:
            lines.append((b"connection", b"close"))
        known = status in _WITHOUT_BODY
        for name, _ in headers:
            known = known or name == b"content-length"
        if not known:
            lines.append((b"transfer-encoding", b"chunked"))
        block = b"\r\n".join([b"%b: %b" % pair for pair in lines])
        if not block.count(b"\r") == block.count(b"\n") == len(lines) - 1:
            raise RuntimeError("got a line break in a header of a response; expected none")
        self._head = b"%b%b\r\n\r\n" % (_STATUS_LINES[status], block)
        if not known:
            self._chunked = True
            self._connection.write(self._head)
            self._head = b""

    def disconnect(self) -> None:
        """The client is gone."""
        self._gone = True
        self._tell()

    def _tell(self) -> None:
        if self._end is not None:
            self._end.set()

    def over(self, task: asyncio.Task[None]) -> None:
        """The application has ended: what it left open is closed."""
        self._connection.tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.error("Exception in ASGI application", exc_info=error)
        if not self._ended and not self._gone:
            if not self._started:
                self._connection.write(_BROKEN)
            self._connection.transport.close()
