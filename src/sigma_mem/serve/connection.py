"""HTTP connections: uvicorn's parser in C, with bounds on headers, time and number of connections."""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sigma_mem.serve.config import RequestLimits
from sigma_mem.serve.failures import error_body

_REQUEST_LINE = 4096  # bytes before the headers


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which by itself takes endless headers and waits for slow clients forever.

    A request must arrive within `limits.request_seconds`, however slowly its bytes come, and a client that
    stops reading its response for that long is disconnected. If there are more connections than
    `limits.connections`, the one that has waited longest for a whole request makes room. So clients that only
    hold connections open cannot keep others out.
    """

    def __init__(self, *args: Any, limits: RequestLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        if len(self.connections) >= self._limits.connections:
            self._make_room()
        super().connection_made(transport)
        self._header_bytes = 0
        self._in_headers = self._incomplete = True  # until a request is whole, the client has to go on
        self._since = self.loop.time()  # when the client's turn began
        self._late = self.loop.call_later(self._limits.request_seconds, self._close_if_late)
        self._unread: asyncio.TimerHandle | None = None

    def _make_room(self) -> None:
        """Close the connection that has waited longest for the rest of a request."""
        waiting = [c for c in self.connections if isinstance(c, BoundedProtocol) and c._incomplete]
        if waiting:
            min(waiting, key=lambda c: c._since).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes from the client."""
        super().data_received(data)
        if self._in_headers and not self.transport.is_closing():
            self._header_bytes += len(data)
            if self._header_bytes > self._limits.header_bytes + _REQUEST_LINE:
                self.send_400_response("The headers are too long.")

    def send_400_response(self, msg: str) -> None:
        """Refuse with the body that all refusals have, and close."""
        body = json.dumps(error_body(msg, "invalid_http", 400)).encode()
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_headers, self._header_bytes = True, 0
        self._wait()

    def on_headers_complete(self) -> None:
        """All headers are there."""
        self._in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._incomplete = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The client may send another request."""
        if not self.pipeline:  # requests that were sent ahead
            self._wait()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client does not read as fast as the response is written."""
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.request_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        self._stop_waiting_for_reader()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._late.cancel()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """From now on the client has `request_seconds` for a request."""
        if not self._incomplete:
            self._incomplete, self._since = True, self.loop.time()

    def _stop_waiting_for_reader(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _close_if_late(self) -> None:
        now, patience = self.loop.time(), self._limits.request_seconds
        # While reading is paused, the client waits for us.
        since = self._since if self._incomplete and not self.flow.read_paused else now
        if now - since >= patience:
            self.transport.close()
        else:
            self._late = self.loop.call_later(since + patience - now, self._close_if_late)
