"""The protocol's server: tools, and errors of one line that say what to do."""

import logging
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult
from pydantic import ValidationError

from sigma_mem import __version__
from sigma_mem.errors import SigmaMemError
from sigma_mem.serve.mcp.memories import ToolMemories
from sigma_mem.serve.mcp.tools import add_tools

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
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
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
