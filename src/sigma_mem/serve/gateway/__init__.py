"""The gateway: one base URL over several models, in three protocols, and the memory chooses among them.

`routes` has the endpoints. `chat`, `messages` and `responses` are the protocols, which `protocol` describes.
Each reads and writes the values of `message`, so that a request in one can be answered by an upstream that
speaks another. `policy` decides what happens in between: route, vote, ask, or pass through. `conversation`
keeps a conversation on its peer. `turn` ties a response to the memory's decision, `feedback` to what is said
of it later. `calls` are those made for one request, `upstream` makes them over HTTP, and `delivery` brings
the answer to the client. `wire` is JSON and events as bytes; `accounting` has prices, costs and the circuit
that leaves a failing upstream alone.
"""

from sigma_mem.serve.gateway.routes import router

__all__ = ["router"]
