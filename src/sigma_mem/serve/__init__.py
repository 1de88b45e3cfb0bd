"""The service: memories over HTTP, for teams that write no Python (extra ``[serve]``).

``create_app`` in `app` makes the application from a frozen ``ServerConfig``. `auth` has keys and roles: every
route declares who may call it, and one that does not stops the start. `guard` stands in front of all of them
(Host, Origin, sizes, rates). `server` listens, and `memories` opens namespaces of one store. `memory_routes`
and its neighbours are the memory's API, which `routes` registers and `schemas` describes; `gateway` is the
OpenAI-compatible one.
"""

from sigma_mem.extras import require

for _package in ("fastapi", "uvicorn", "aiohttp", "prometheus_client"):
    require(_package, extra="serve", purpose="the service")

from sigma_mem.serve.app import create_app  # noqa: E402
from sigma_mem.serve.config import RequestLimits, ServerConfig, Upstream  # noqa: E402
from sigma_mem.serve.context import Context  # noqa: E402

__all__ = ["Context", "RequestLimits", "ServerConfig", "Upstream", "create_app"]
