"""HTTP connections: uvicorn's parser in C, with a bound on headers and on how long a request may stall."""

import asyncio
import json

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sigma_mem.serve.failures import error_body


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which by itself takes headers without end and waits for a request forever.

    The bounds are options of uvicorn: `h11_max_incomplete_event_size`, which its parser in C does not
    know, and `timeout_keep_alive`, which it counts between requests only.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; a client that says nothing is not waited for."""
        super().connection_made(transport)
        self._header_bytes = 0
        self._in_headers = self._incomplete = True  # until a request is whole, the client has to go on
        self._heard = self.loop.time()
        self._stalled = self.loop.call_later(self.timeout_keep_alive, self._close_if_stalled)

    def data_received(self, data: bytes) -> None:
        """Take bytes from the client."""
        self._heard = self.loop.time()
        super().data_received(data)
        if self._in_headers and not self.transport.is_closing():
            self._header_bytes += len(data)
            if self._header_bytes > (self.config.h11_max_incomplete_event_size or 65_536):
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
        self._in_headers, self._incomplete, self._header_bytes = True, True, 0

    def on_headers_complete(self) -> None:
        """All headers are there."""
        self._in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._incomplete = False
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._stalled.cancel()
        super().connection_lost(exc)

    def _close_if_stalled(self) -> None:
        now, patience = self.loop.time(), self.timeout_keep_alive
        # While reading is paused, the client waits for us.
        since = self._heard if self._incomplete and not self.flow.read_paused else now
        if now - since >= patience:
            self.transport.close()
        else:
            self._stalled = self.loop.call_later(since + patience - now, self._close_if_stalled)
