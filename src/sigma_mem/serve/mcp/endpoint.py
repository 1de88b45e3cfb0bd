"""``/mcp`` of the service: streamable HTTP, one request at a time, each with its key."""

from contextlib import AbstractAsyncContextManager

from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sigma_mem.serve.auth import Access
from sigma_mem.serve.context import Context
from sigma_mem.serve.mcp.memories import ServiceMemories
from sigma_mem.serve.mcp.server import MemoryServer


class McpEndpoint:
    """The protocol's server as an application.

    It keeps no session between requests, so that there is none that another key could take over. Every tool
    looks itself whether the key may use it: to read is enough to list them.
    """

    access = Access("read")

    def __init__(self, context: Context) -> None:
        server = MemoryServer(ServiceMemories(context))
        server.streamable_http_app(
            stateless_http=True,
            json_response=True,
            max_request_body_size=context.config.limits.body_bytes,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=False
            ),  # `Guard` does
        )
        self._sessions = server.session_manager

    @property
    def route(self) -> Route:
        """Where it is: it takes POST only, since it has nothing to send unasked."""
        return Route("/mcp", self, methods=["POST"])

    def running(self) -> AbstractAsyncContextManager[None]:
        """Takes requests while it is entered."""
        return self._sessions.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        await self._sessions.handle_request(scope, receive, send)
