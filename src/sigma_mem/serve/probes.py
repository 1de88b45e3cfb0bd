"""What operators ask of the service: is it alive, is it ready, what did it do, what does it offer."""

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from sigma_mem.errors import StoreError
from sigma_mem.operations import TABLE
from sigma_mem.serve.calls import Context, namespace_body
from sigma_mem.serve.failures import error_body
from sigma_mem.serve.guard import needs
from sigma_mem.serve.schemas import ErrorBody, result_definitions
from sigma_mem.session import SigmaMem
from sigma_mem.wire import as_json, sent_arguments

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
    """``/healthz``, ``/readyz``, ``/metrics``, ``/openapi.json`` and ``/docs``."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/healthz", summary="Whether the process answers.")
    @needs("nobody")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @routes.get(
        "/readyz",
        summary="Whether requests can be served: with the store, or by the gateway without it.",
    )
    @needs("nobody")
    async def readyz() -> JSONResponse:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await context.memories.check_store()
        except (StoreError, TimeoutError):
            if context.memories.serves_without_store:
                return JSONResponse({"status": "ready", "store": "away"})
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

    @needs("nobody")
    async def docs(request: Request) -> HTMLResponse:
        return HTMLResponse(_page(_documented(app)))

    routes.add_route("/openapi.json", openapi, include_in_schema=False)
    routes.add_route("/docs", docs, include_in_schema=False)
    return routes


def _page(schema: Mapping[str, Any]) -> str:
    """The API as a page: a row for every operation. The framework's own pages load from other hosts."""
    rows = [
        f"<tr><td>{escape(verb.upper())}</td><td><code>{escape(path)}</code></td>"
        f"<td>{escape(operation.get('summary', ''))}</td></tr>"
        for path, verbs in schema["paths"].items()
        for verb, operation in verbs.items()
    ]
    title = escape(f"{schema['info']['title']} {schema['info']['version']}")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1>'
        '<p>Parameters, bodies and examples: <a href="/openapi.json">/openapi.json</a>, with a key if there '
        'are any. <a href="/dashboard/">Dashboard</a></p>'
        f"<table>{''.join(rows)}</table></html>"
    )


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


# ---- examples of operations, made by calling them


_JSON = "application/json"
_AT = "/v1/memory/{namespace}"


@cache
def _performed() -> list[tuple[str, str, Any, dict[str, Any], Any]]:
    """The example of every operation, on a memory that begins empty: the table is in an order that works."""
    mem = SigmaMem(["gemma", "phi", "coder"], encoder="hashed")
    made = []
    for operation in TABLE.values():
        found = operation.method(mem, **operation.example)
        sent = sent_arguments(operation.example)
        body, query = (sent, {}) if operation.verb == "POST" else (None, sent)
        answer = namespace_body("default", mem) if found is None else operation.body(found)
        response = readable(json.loads(as_json(answer)))
        path = f"{_AT}/{operation.path}"
        made.append((operation.verb.lower(), path, body, query, response))
    return made


def readable(value: Any) -> Any:
    """The same, with φ cut short: its 683 characters say nothing to a person."""
    if isinstance(value, list):
        return [readable(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"{each[:16]}…" if key == "phi" and isinstance(each, str) else readable(each)
        for key, each in value.items()
    }


def add_examples(schema: dict[str, Any]) -> None:
    """Put the examples into an OpenAPI schema."""
    for verb, path, body, query, response in _performed():
        operation = schema["paths"][path][verb]
        if body is not None:
            operation["requestBody"]["content"][_JSON]["example"] = body
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query" and parameter["name"] in query:
                parameter["example"] = query[parameter["name"]]
        operation["responses"]["200"].setdefault("content", {}).setdefault(_JSON, {})["example"] = response
