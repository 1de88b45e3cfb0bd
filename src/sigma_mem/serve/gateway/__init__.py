"""The OpenAI-compatible gateway: one base URL over several models, and the memory chooses among them.

`chat` answers a request by `route`, by `vote`, or by the peer that it names. `upstream` calls a model over
HTTP, behind a `circuit`; `calls` keeps account of what one request asked and spent; `turn` ties it to the
memory's decision; `reply` and `streaming` write what the client gets. `tool_loop` keeps a conversation on its
peer.
"""

from sigma_mem.serve.gateway.routes import router

__all__ = ["router"]
