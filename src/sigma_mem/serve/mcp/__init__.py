"""The memory for agents that speak the Model Context Protocol (extra ``[mcp]``).

`tools` has the tools, the same everywhere, and which memory a call goes to: a file's over standard input and
output, or a namespace of the service over HTTP. `server` serves both, and turns what is refused into one line
that a model can act on.
"""

from sigma_mem.extras import require

require("mcp", extra="mcp", purpose="the Model Context Protocol")

from sigma_mem.serve.mcp.server import McpEndpoint, serve_stdio  # noqa: E402

__all__ = ["McpEndpoint", "serve_stdio"]
