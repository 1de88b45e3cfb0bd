"""The OpenAI-compatible gateway: one base URL over several models, and the memory chooses among them.

`routes` has the endpoints. `protocol` reads a request and writes the client's response; `policy` decides what
happens in between: route, vote, ask, or pass through. `conversation` ties the completion to the memory's
decision and to later feedback. `upstream` calls models over HTTP; `accounting` has prices, costs and the
circuit that leaves a failing upstream alone.
"""

from sigma_mem.serve.gateway.routes import router

__all__ = ["router"]
