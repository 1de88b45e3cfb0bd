"""The protocol's server: over standard input and output, or ``/mcp`` of the service; errors of one line."""

import logging
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, InputRequiredResult
from pydantic import ValidationError
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sigma_mem import __version__
from sigma_mem.errors import SigmaMemError
from sigma_mem.serve.calls import Context
from sigma_mem.serve.guard import Access
from sigma_mem.serve.mcp.tools import AnyCall, FileMemory, ServiceMemories, ToolMemories, add_tools
from sigma_mem.session import SigmaMem

_SHOWN = 80  # characters of what a caller sent
_INSTRUCTIONS = """\
Σ-Mem remembers which models or agents (peers) were right on which kind of task.
Before you hand a task to a peer, call route. With several answers in hand, call decide.
To ask only as many peers as needed, call ask, then add_answer until next is null.
Once you know who was right, call feedback with the decision's id: only this teaches the memory."""


class MemoryServer(MCPServer[Any]):
    """The tools, for some memories."""

    def __init__(self, memories: ToolMemories) -> None:
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        super().__init__(
            "sigma-mem",
            title="Σ-Mem",
            instructions=_INSTRUCTIONS,
            version=__version__,
            subscriptions=False,
            log_level="WARNING",
        )
        root.handlers[:], root.level = handlers, level  # the SDK sets up the log of the whole program
        add_tools(self, memories)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: AnyCall | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; what it refuses is one line: got, expected, remedy."""
        known = {tool.name: list(tool.input_schema["properties"]) for tool in await self.list_tools()}
        if name not in known:
            raise ToolError(f"got tool {name!r}; expected one of {sorted(known)}")
        for argument in arguments:
            if argument not in known[name]:
                raise ToolError(
                    f"{name} got an argument {argument[:_SHOWN]!r}; expected some of {known[name]}"
                )
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_fault(name, error.__cause__)) from error.__cause__
            if isinstance(error.__cause__, SigmaMemError):
                raise ToolError(" ".join(str(error.__cause__).split())) from error.__cause__
            raise


def _fault(tool: str, error: ValidationError) -> str:
    """The first argument that does not fit, in one line."""
    fault = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    got = "nothing" if fault["type"] == "missing" else repr(fault["input"])[:_SHOWN]
    message = " ".join(str(fault["msg"]).split())
    return f"{tool} got {got} as {where}; expected: {message}; correct it and call {tool} again"


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


def serve_stdio(mem: SigmaMem, namespace: str, source: str) -> None:
    """Serve until standard input ends.

    Parameters
    ----------
    source : str
        Under which name feedback is taken.
    """
    MemoryServer(FileMemory(mem, namespace, source)).run("stdio")
