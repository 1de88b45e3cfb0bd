"""Listen and serve until a signal says stop."""

import asyncio
import gc
import math
import signal
import socket
from collections.abc import Callable
from functools import partial

import uvicorn

from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.serve.app import create_app, open_gateway_memory
from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.connection import BoundedProtocol
from sigma_mem.serve.context import Context
from sigma_mem.serve.logs import log_event, start_log
from sigma_mem.store.open import shown_path

try:
    import resource
except ImportError:  # not a POSIX system
    resource = None  # type: ignore[assignment]

_OTHER_FILES = 512  # that the process may open, besides connections from clients


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
        if soft != resource.RLIM_INFINITY and soft < wanted:
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
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
