"""The application: made by a function from a configuration, closed when the server stops."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from sigma_mem import __version__
from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.serve.alarms import Alarms
from sigma_mem.serve.calls import Context
from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.dashboard import page_routes, view_routes
from sigma_mem.serve.evaluations import evaluation_routes
from sigma_mem.serve.failures import on_bug, on_http_error, on_invalid_request, on_sigma_mem_error
from sigma_mem.serve.gateway import router as gateway_router
from sigma_mem.serve.guard import Guard, seal
from sigma_mem.serve.keys import KeyRing
from sigma_mem.serve.memories import Memories
from sigma_mem.serve.probes import probe_routes
from sigma_mem.serve.routes import memory_routes
from sigma_mem.serve.telemetry import Audit, Metrics, telemetry_options, warn_event


def create_app(config: ServerConfig) -> FastAPI:
    """The service for a configuration, ready for an ASGI server.

    Refuses a configuration that is not safe: an address that others can reach, or an upstream with a key,
    without API keys.
    """
    keys = KeyRing(config.keys)
    check_safe(config, keys)
    metrics = Metrics()
    memories = Memories(config, metrics)
    context = Context(config, keys, memories, metrics, Audit(config.audit), Alarms(memories))
    context.running.append(context.alarms.running())
    app = FastAPI(
        title="sigma-mem",
        version=__version__,
        summary="An online reliability memory: who can be trusted, and when.",
        lifespan=_lifespan,
        openapi_url=None,  # our own route declares a role
        docs_url=None,  # those pages load from other hosts
        redoc_url=None,
        redirect_slashes=False,
        telemetry=telemetry_options(config.telemetry),
    )
    app.state.context = context
    for routes in (
        gateway_router(context),
        evaluation_routes(context),
        memory_routes(context),
        view_routes(context),
        page_routes(),
        probe_routes(context, app),
    ):
        app.router.routes.extend(routes.routes)  # flat, so that `seal` sees every one; tried in order
    if find_spec("mcp") is not None:  # an extra of its own
        from sigma_mem.serve.mcp import McpEndpoint

        endpoint = McpEndpoint(context)
        app.router.routes.append(endpoint.route)
        context.running.append(endpoint.running())
    seal(app)
    app.add_exception_handler(SigmaMemError, on_sigma_mem_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_invalid_request)
    app.add_exception_handler(Exception, on_bug)
    app.add_middleware(Guard, config=config, keys=keys, metrics=context.metrics)
    return app


def check_safe(config: ServerConfig, keys: KeyRing) -> None:
    """Refuse to start if anybody could call; warn if nobody could."""
    if config.needs_keys and not keys.keys:
        why = (
            f"an upstream or a judge has a key (${config.key_variables[0]})"
            if config.is_loopback
            else f"it would listen on {config.host}, where others can reach it"
        )
        raise InputError(
            f"the service has no API keys, and {why}; make one first: sigma-mem keys add NAME --keys FILE"
        )
    if config.keys is not None and not keys.keys:
        why = (
            "it has no key yet; requests are refused until there is one: sigma-mem keys add NAME --keys FILE"
        )
        warn_event("setting", name="keys", said=config.keys, because=why)
    if config.host in ("0.0.0.0", "::") and not config.allowed_hosts:
        raise InputError(
            f"host is {config.host} and allowed_hosts is empty; expected the names that clients use for it: "
            "allowed_hosts in the configuration, or SIGMA_MEM_ALLOWED_HOSTS=localhost,memory.example.org"
        )
    for upstream in config.upstreams:
        upstream.key()  # its variable is set


async def open_gateway_memory(context: Context) -> None:
    """Check the memory in the service's namespace; open the gateway's, made if there is none. Idempotent."""
    await asyncio.to_thread(context.memories.check_settings)
    if context.config.upstreams:
        memory = await context.memories.prepare(context.config.namespace, context.config.upstreams)
        encoder = memory.mem.question_encoder
        if encoder is not None:  # what it loads with its first text is loaded now
            await asyncio.to_thread(encoder.encode, ["Was ist sieben mal acht?"])


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: Context = app.state.context
    try:
        await open_gateway_memory(context)
        async with AsyncExitStack() as running:
            for part in context.running:
                await running.enter_async_context(part)
            yield
    finally:
        for close in context.closing:
            await close()
        await context.memories.close()
        context.audit.close()
