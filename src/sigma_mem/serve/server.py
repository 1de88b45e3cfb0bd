"""Listen and serve until a signal says stop."""

import asyncio
import gc
import signal
import socket
from collections.abc import Callable

import uvicorn

from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.serve.app import create_app, open_gateway_memory
from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.connection import BoundedProtocol
from sigma_mem.serve.context import Context
from sigma_mem.serve.logs import log_event, start_log
from sigma_mem.store.postgres import shown_path


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
            gc.freeze()  # a full collection would go through all that was loaded at start, for 100 ms
            self._ready()


def serve(config: ServerConfig, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; requests that run may end, and everything queued is written.

    Parameters
    ----------
    ready : callable
        Gets the address, once requests are taken.
    """
    with _listening(config) as listener:
        host, port = listener.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        start_log(config.log)
        app = create_app(config)
        _prepare(app.state.context)
        options = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            lifespan="on",
            http=BoundedProtocol,
            ws="none",
            limit_concurrency=config.limits.concurrency,
            h11_max_incomplete_event_size=config.limits.header_bytes + 4096,
            timeout_keep_alive=30,
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
