"""The gateway: one base URL over several models, in three protocols, and the memory chooses among them.

`routes` has the endpoints, and feedback by a response's id. `chat`, `messages` and `responses` are the
protocols, which `protocol` describes, so that a request in one can be answered by an upstream that speaks
another. `policy` decides what happens in between: route, vote, ask, or pass through. `conversation` keeps a
conversation on its peer, and finds out what a request says of the answer before it. `upstream` makes the
calls over HTTP, and leaves a failing upstream alone for a while.
"""

from sigma_mem.serve.gateway.routes import router

__all__ = ["router"]
