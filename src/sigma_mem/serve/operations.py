"""What operators ask of the service: is it alive, is it ready, what did it do, what does it offer."""

import asyncio

from fastapi import APIRouter, FastAPI
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sigma_mem.errors import StoreError
from sigma_mem.serve.auth import needs
from sigma_mem.serve.context import Context

_READY_SECONDS = 5.0


def operation_routes(context: Context, app: FastAPI) -> APIRouter:
    """``/healthz``, ``/readyz``, ``/metrics`` and ``/openapi.json``."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/healthz", summary="Whether the process answers.")
    @needs("nobody")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @routes.get(
        "/readyz",
        summary="Whether requests can be served: the store can be written.",
        responses={503: {"description": "Not ready, with the reason."}},
    )
    @needs("nobody")
    async def readyz() -> JSONResponse:
        try:
            await asyncio.wait_for(context.memories.flush(), _READY_SECONDS)
        except (StoreError, TimeoutError):
            return JSONResponse({"status": "the store cannot be written"}, 503)
        return JSONResponse({"status": "ready"})

    @routes.get("/metrics", summary="Numbers for Prometheus.", response_class=Response)
    @needs("read", everywhere=True)
    async def metrics() -> Response:
        return Response(context.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @needs("read")
    async def openapi(request: Request) -> JSONResponse:
        return JSONResponse(app.openapi())

    routes.add_route("/openapi.json", openapi, include_in_schema=False)
    return routes
