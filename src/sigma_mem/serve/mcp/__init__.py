"""The memory for agents that speak the Model Context Protocol (extra ``[mcp]``).

`tools` has the tools, the same everywhere. `memories` says which memory a call goes to and whose call
it is: a file's over standard input and output (`stdio`), a namespace of the service over HTTP (`endpoint`).
`server` turns what is refused into one line that a model can act on.
"""

from sigma_mem.extras import require

require("mcp", extra="mcp", purpose="the Model Context Protocol")

from sigma_mem.serve.mcp.endpoint import McpEndpoint  # noqa: E402
from sigma_mem.serve.mcp.stdio import serve_stdio  # noqa: E402

__all__ = ["McpEndpoint", "serve_stdio"]
