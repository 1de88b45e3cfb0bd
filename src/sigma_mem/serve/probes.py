"""What operators ask of the service: is it alive, is it ready, what did it do, what does it offer."""

import asyncio
from typing import Any

from fastapi import APIRouter, FastAPI
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sigma_mem.errors import StoreError
from sigma_mem.serve.auth import needs
from sigma_mem.serve.context import Context
from sigma_mem.serve.examples import add_examples
from sigma_mem.serve.failures import error_body
from sigma_mem.serve.responses import ErrorBody, result_definitions

_READY_SECONDS = 5.0
_REFUSALS = {
    "400": "An argument is not acceptable; nothing was changed.",
    "401": "No valid API key.",
    "403": "The key may not do this, or a page of another origin called.",
    "404": "No such namespace, decision or model.",
    "409": "It contradicts what was said before.",
    "413": "The body is too large.",
    "421": "Not a name of this service.",
    "422": "The request does not fit its schema.",
    "429": "Too many requests.",
    "431": "The headers are too large.",
    "503": "The store cannot be written now.",
}


def probe_routes(context: Context, app: FastAPI) -> APIRouter:
    """``/healthz``, ``/readyz``, ``/metrics`` and ``/openapi.json``."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/healthz", summary="Whether the process answers.")
    @needs("nobody")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @routes.get(
        "/readyz",
        summary="Whether requests can be served: the store can be written.",
    )
    @needs("nobody")
    async def readyz() -> JSONResponse:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await context.memories.check_store()
        except (StoreError, TimeoutError):
            body = error_body("the store cannot be written", "store_unavailable", 503)
            return JSONResponse(body, 503)
        return JSONResponse({"status": "ready"})

    @routes.get("/metrics", summary="Numbers for Prometheus.", response_class=Response)
    @needs("read", everywhere=True)
    async def metrics() -> Response:
        return Response(context.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @needs("read")
    async def openapi(request: Request) -> JSONResponse:
        return JSONResponse(_documented(app))

    routes.add_route("/openapi.json", openapi, include_in_schema=False)
    return routes


def _documented(app: FastAPI) -> dict[str, Any]:
    """The schema of the API, with examples, and with the refusals that any route may answer."""
    schema = app.openapi()
    add_examples(schema)
    body = ErrorBody.model_json_schema(ref_template="#/components/schemas/{model}")
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    components |= {**body.pop("$defs"), "ErrorBody": body, **result_definitions()}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
    for path in schema["paths"].values():
        for operation in path.values():
            for status, description in _REFUSALS.items():
                operation["responses"].setdefault(status, {"description": description})["content"] = content
            operation["security"] = [{"key": []}]
    schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return schema
