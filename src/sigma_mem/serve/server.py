"""Listen and serve until a signal says stop, with bounds on every connection."""

import asyncio
import gc
import json
import math
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.serve.app import create_app, open_gateway_memory
from sigma_mem.serve.calls import Context
from sigma_mem.serve.config import RequestLimits, ServerConfig
from sigma_mem.serve.failures import error_body
from sigma_mem.serve.telemetry import log_event, start_log
from sigma_mem.store.open import shown_path

_REQUEST_LINE = 4096  # bytes before the headers
_UNWANTED_PAUSE = 0.05  # seconds between parts of a body that nobody will read


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which by itself takes endless headers and waits for slow clients forever.

    A request must arrive within `limits.request_seconds`, however slowly its bytes come, and a client that
    stops reading its response for that long is disconnected. If there are more connections than
    `limits.connections`, the one that has waited longest for a whole request makes room. So clients that only
    hold connections open cannot keep others out. What still comes of a body that was refused is read slowly:
    the client gets to see why, and nobody is held up by it.
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
        elif self._incomplete and self.cycle is not None and self.cycle.response_complete:
            self._unwanted_bytes += len(data)
            if self._unwanted_bytes > self._limits.body_bytes:
                self.transport.close()
            self.flow.pause_reading()
            self.loop.call_later(_UNWANTED_PAUSE, self.flow.resume_reading)

    def send_400_response(self, msg: str) -> None:
        """Refuse with the body that all refusals have, and close."""
        body = json.dumps(error_body(msg, "invalid_http", 400)).encode()
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_headers, self._header_bytes, self._unwanted_bytes = True, 0, 0
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


try:
    import resource
except ImportError:  # not a POSIX system
    resource = None  # type: ignore[assignment]

_OTHER_FILES = 512  # that the process may open, besides connections from clients


_SWITCH_SECONDS = 0.0005  # for which a busy event loop may keep the GIL from threads that decide and write


class _Server(uvicorn.Server):
    """A server that reports when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then report it."""
        await super().startup(sockets)
        if self.started:
            gc.collect()
            sys.setswitchinterval(_SWITCH_SECONDS)
            gc.freeze()  # a full collection would go through all that was loaded at start, for 100 ms
            self._ready()


def serve(config: ServerConfig, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; requests that run may end, and everything queued is written.

    `ready` gets the address, once requests are taken.
    """
    with _listening(config) as listener:
        host, port = listener.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        start_log(config.log)
        _allow_connections(config.limits.connections)
        app = create_app(config)
        _prepare(app.state.context)
        options = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            lifespan="on",
            http=partial(BoundedProtocol, limits=config.limits),  # type: ignore[arg-type]
            ws="none",
            proxy_headers=bool(config.proxies),
            forwarded_allow_ips=list(config.proxies),
            timeout_keep_alive=math.ceil(config.limits.request_seconds),
            timeout_graceful_shutdown=round(config.shutdown_seconds),
        )
        path = None if config.path is None else shown_path(config.path)
        log_event("start", address=address, path=path, keys=len(app.state.context.keys.keys))
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, lambda number, frame: None)  # uvicorn raises it again after a clean end
        _Server(options, lambda: ready(address)).run([listener])
        log_event("stop", address=address)


def _prepare(context: Context) -> None:
    """Open what can fail to open: here an error is the command's, in uvicorn it is a trace in the log."""
    try:
        asyncio.run(open_gateway_memory(context))
    except SigmaMemError:
        context.memories.store.close()
        raise


def _allow_connections(connections: int) -> None:
    """Raise the number of open files that this process may have; many systems allow 1,024 by default."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = connections + _OTHER_FILES
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            with suppress(OSError):  # a filter of system calls may forbid it: then there are fewer
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _listening(config: ServerConfig) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        listener = socket.create_server((config.host, config.port), family=family, backlog=2048)
        # Accepted sockets inherit it. asyncio sets it only on sockets that were made with a protocol number;
        # without it the body of a response waits 40 ms for the client to acknowledge the headers.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise InputError(
            f"cannot listen on {config.host} port {config.port}: {error.strerror}; take another port, or 0"
        ) from error
    return listener
