"""The service: memories over HTTP, for teams that write no Python (extra ``[serve]``).

``create_app`` in `app` makes the application from a frozen ``ServerConfig``. `guard` stands in front of all
routes (Host, Origin, sizes, rates): every route declares who may call it, and one that does not stops the
start. `keys` has the API keys. `server` listens, and `memories` opens namespaces of one store. `routes` is
the memory's API, which `schemas` describes; `gateway` is the OpenAI-compatible one. `telemetry` has log,
metrics and spans, and `alarms` tells operators what went wrong.
"""

from sigma_mem.extras import require

for _package in ("fastapi", "uvicorn", "aiohttp", "prometheus_client"):
    require(_package, extra="serve", purpose="the service")

from sigma_mem.serve.app import create_app  # noqa: E402
from sigma_mem.serve.calls import Context  # noqa: E402
from sigma_mem.serve.config import RequestLimits, ServerConfig, Upstream  # noqa: E402

__all__ = ["Context", "RequestLimits", "ServerConfig", "Upstream", "create_app"]
