"""What a caller gets when something is refused or goes wrong: a status and one body, the one of OpenAI."""

from collections.abc import Mapping
from typing import Any, cast

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Route

from sigma_mem.errors import (
    ConflictError,
    InputError,
    SigmaMemError,
    StoreBusyError,
    StoreError,
    UnknownDecisionError,
)
from sigma_mem.serve.telemetry import log_event

# The first class that fits decides.
_STATUSES: tuple[tuple[type[SigmaMemError], int, str], ...] = (
    (UnknownDecisionError, 404, "not_found"),
    (ConflictError, 409, "conflict"),
    (InputError, 400, "invalid_request"),
    (StoreBusyError, 503, "store_busy"),
    (StoreError, 503, "store_unavailable"),
    (SigmaMemError, 500, "internal"),
)


class RefusedError(SigmaMemError):
    """A request that is not served: with its status, a word for programs, and a line for people."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, dict(headers or {})


def unknown_namespace(namespace: str) -> RefusedError:
    """The store has no such namespace, or the key may not see it: the two look alike."""
    message = f"there is no namespace {namespace!r}; create it with PUT, or use another name"
    return RefusedError(404, "unknown_namespace", message)


def error_body(message: str, code: str, status: int, param: str | None = None) -> dict[str, Any]:
    """OpenAI's error body, which clients of the gateway understand and those of the memory can read."""
    kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "code": code, "param": param}}


_ANTHROPIC = {
    404: "not_found_error",
    413: "request_too_large",
    500: "api_error",
    502: "api_error",
    503: "overloaded_error",
}


def anthropic_error(body: Mapping[str, Any], status: int) -> dict[str, Any]:
    """The same error with Anthropic's body and words; what it has no field for is kept."""
    kind = _ANTHROPIC.get(status, body["error"]["type"])
    return {"type": "error", "error": {**body["error"], "type": kind}}


def error_response(
    path: str, status: int, body: dict[str, Any], headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """An error as the clients of a path expect it."""
    if path.startswith("/v1/messages"):
        body = anthropic_error(body, status)
    return JSONResponse(body, status, dict(headers or {}))


def refusal(error: SigmaMemError) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers for an error of this package."""
    if isinstance(error, RefusedError):
        return error.status, error_body(str(error), error.code, error.status), error.headers
    status, code = next((s, c) for kind, s, c in _STATUSES if isinstance(error, kind))
    message = str(error)
    if isinstance(error, StoreError):  # it may name a file or a database
        log_event("store", error=message)
        message = "the store cannot be read or written now; try again later"
    return status, error_body(message, code, status), {}


async def on_sigma_mem_error(request: Request, error: Exception) -> JSONResponse:
    """An error of this package as a response."""
    status, body, headers = refusal(cast(SigmaMemError, error))
    return error_response(request.url.path, status, body, headers)


_CODES = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large", 429: "rate_limit"}


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    """No such route, or no such method on it."""
    found, path = cast(HTTPException, error), request.url.path
    status, detail = found.status_code, str(found.detail)
    code = _CODES.get(status, "http_error")
    if status == 404 and path.startswith("/v1/"):
        routes = {route.path for route in request.app.routes if isinstance(route, Route)}
        here = sorted(route for route in routes if route.startswith("/v1/") and "{" not in route)
        detail = (
            f"there is no such path; expected one of {', '.join(here)}, or one below /v1/memory/NAMESPACE"
        )
    return error_response(path, status, error_body(detail, code, status), found.headers)


async def on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    """A body or parameter that does not fit its schema: the first fault, without echoing what was sent."""
    first: Mapping[str, Any] = cast(RequestValidationError, error).errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = f"{where}: {first['msg']}" if where else str(first["msg"])
    if first.get("type") == "json_invalid":
        place = f" at character {first['loc'][-1]}" if first["loc"][1:] else ""
        message = f"the body is not valid JSON{place}: {first['ctx']['error']}"
    elif where == "body" and "json" not in request.headers.get("content-type", ""):
        message = "the body is not declared as JSON; expected the header Content-Type: application/json"
    return error_response(request.url.path, 422, error_body(message, "invalid_request", 422, where or None))


async def on_bug(request: Request, error: Exception) -> JSONResponse:
    """Anything else: nothing of it leaves the server."""
    body = error_body("internal error; see the server's log", "internal", 500)
    return error_response(request.url.path, 500, body)
