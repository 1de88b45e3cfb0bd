"""The calls that come thousands of times a second, without the framework's detours.

A request goes straight to its endpoint if it is a POST with a JSON body of known length, to the gateway or to
a namespace that is open. Whatever else comes, or does not fit its schema, takes the framework's way to the
same endpoint, with the same checks; so this is only a shorter way, never another answer.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any, get_type_hints

from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sigma_mem.serve.auth import RoleGate

_PATH = "/v1/memory/{namespace}"
_ASKED = re.compile(r"/v1/memory/([A-Za-z0-9][A-Za-z0-9._-]{0,63})(/[a-z_/]+)")
_JSON = (b"application/json", b"application/json; charset=utf-8")
_PARAMETERS = {
    "namespace",
    "body",
    "request",
    "idempotency_key",
}  # what an endpoint may take to be called here
_KEY_LENGTH = 256  # of an Idempotency-Key, at most


class DirectRoutes:
    """In front of the framework: calls endpoints of sealed routes itself where it can.

    Parameters
    ----------
    app : ASGI application
        The framework, for all that cannot be called here.
    routes : sequence of routes
        Those of the application, behind their gates.
    is_open : callable
        Whether a namespace is open, and its name so known to be good.
    """

    def __init__(self, app: ASGIApp, routes: list[BaseRoute], is_open: Callable[[str], bool]) -> None:
        self._app, self._is_open = app, is_open
        posts = [route for route in routes if isinstance(route, APIRoute) and route.methods == {"POST"}]
        self._endpoints = {
            route.path.removeprefix(_PATH): _Direct(route) for route in posts if _is_direct(route)
        }
        self._readers = {route.path: route for route in posts if _reads_itself(route)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request by the shorter way, or by the longer one."""
        headers = dict(scope["headers"]) if scope["type"] == "http" and scope["method"] == "POST" else {}
        if headers.get(b"content-type") not in _JSON or b"content-length" not in headers:
            await self._app(scope, receive, send)
        elif (route := self._readers.get(scope["path"])) is not None:
            scope["path_params"] = {}
            _gate_of(route).check(scope)
            answer: Response = await route.endpoint(request=Request(scope, receive))
            await answer(scope, receive, send)
        else:
            await self._call(scope, receive, send, headers)

    async def _call(self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, bytes]) -> None:
        """Call an endpoint of the memory, where the request fits it."""
        found = _ASKED.fullmatch(scope["path"])
        endpoint = None if found is None else self._endpoints.get(found[2])
        if found is None or endpoint is None or not self._is_open(found[1]):
            await self._app(scope, receive, send)
            return
        sent = await _whole(receive)
        arguments = endpoint.arguments(found[1], sent, scope, headers)
        if arguments is None:
            await self._app(scope, _again(sent, receive), send)
            return
        scope["path_params"] = {"namespace": found[1]}
        endpoint.gate.check(scope)
        response: Response = await endpoint.call(**arguments)
        await response(scope, receive, send)


class _Direct:
    """One endpoint, its gate, and what a request must hold to be called with."""

    def __init__(self, route: APIRoute) -> None:
        self.gate, self.call = _gate_of(route), route.endpoint
        self._parameters = set(inspect.signature(route.endpoint).parameters)
        self._model = _model_of(route)

    def arguments(
        self, namespace: str, sent: bytes, scope: Scope, headers: dict[bytes, bytes]
    ) -> dict[str, Any] | None:
        """What to call the endpoint with; None where the framework has something to say about the request."""
        try:
            arguments: dict[str, Any] = {
                "namespace": namespace,
                "body": self._model.model_validate_json(sent),
            }
        except ValidationError:
            return None
        if "request" in self._parameters:
            arguments["request"] = Request(scope)
        key = headers.get(b"idempotency-key")
        if key is not None and "idempotency_key" in self._parameters:
            if not 0 < len(key) <= _KEY_LENGTH:
                return None
            arguments["idempotency_key"] = key.decode("latin-1")
        return arguments


def _gate_of(route: APIRoute) -> RoleGate:
    if not isinstance(route.app, RoleGate):
        raise TypeError(f"route {route.path!r} has no gate; seal the application first")
    return route.app


def _reads_itself(route: APIRoute) -> bool:
    """Whether an endpoint takes the request as it came."""
    return set(inspect.signature(route.endpoint).parameters) == {"request"} and "{" not in route.path


def _is_direct(route: APIRoute) -> bool:
    parameters = set(inspect.signature(route.endpoint).parameters)
    return (
        route.path.startswith(f"{_PATH}/")
        and {"namespace", "body"} <= parameters <= _PARAMETERS
        and _model_of(route) is not None
    )


def _model_of(route: APIRoute) -> Any:
    """The schema of the body, where it is one."""
    hint = get_type_hints(route.endpoint).get("body")
    return hint if isinstance(hint, type) and issubclass(hint, BaseModel) else None


async def _whole(receive: Receive) -> bytes:
    """The body; b"" where the client went away."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        return bytes(message.get("body", b""))
    parts = []
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
    return b""


def _again(sent: bytes, receive: Receive) -> Receive:
    """`receive` once more, from the beginning."""
    first: list[Message] = [{"type": "http.request", "body": sent, "more_body": False}]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed
