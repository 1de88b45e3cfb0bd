"""The memory of a service, used as if it were here (extra ``[client]``).

`Client` and `AsyncClient` have the methods of `SigmaMem`, with the same parameters. `calls` says once,
for both, which request a method makes, `wire` how arguments are sent and results are read; `errors` turns
refusals back into exceptions.
"""

from sigma_mem.client.client import AsyncClient, Client
from sigma_mem.client.errors import ServiceError

__all__ = ["AsyncClient", "Client", "ServiceError"]
