"""Routes below ``/v1/memory``: what each is called, who may call it, and how it is described."""

import re
from collections.abc import Awaitable, Callable, Coroutine
from inspect import signature
from types import NoneType
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import APIRouter, Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from sigma_mem.errors import InputError
from sigma_mem.operations import Operation, Role
from sigma_mem.serve.auth import needs, principal_of
from sigma_mem.serve.calls import perform, written_response
from sigma_mem.serve.context import Context
from sigma_mem.serve.memories import NAMESPACE
from sigma_mem.serve.requests import arguments_of, request_model
from sigma_mem.serve.responses import NamespaceBody, result_schema

F = TypeVar("F", bound=Callable[..., Any])
Namespace = Annotated[str, Path(pattern=NAMESPACE, description="Which memory.", examples=["default"])]
_JSON = (b"application/json", b"application/json; charset=utf-8")
_NAMED = re.compile(NAMESPACE).match
_KEY = "Idempotency-Key"
_KEY_LENGTH = 256
_KEY_PARAMETER = {
    "name": _KEY,
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": _KEY_LENGTH},
    "description": "Instead of `id`.",
}


class PlainRoute(APIRoute):
    """A route that calls its endpoint itself: FastAPI's dependencies take twice as long as the rest of it.

    It does so for endpoints that take the request as it came, and for those that take a namespace and a body.
    Other endpoints, and requests that do not fit their schema, are FastAPI's, which says what is wrong.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request: FastAPI's own handler, or the endpoint with fewer steps before it."""
        framework, endpoint = super().get_route_handler(), self.endpoint
        parameters, model = set(signature(endpoint).parameters), get_type_hints(endpoint).get("body", str)
        if parameters == {"request"}:
            return endpoint
        if not issubclass(model, BaseModel) or parameters != {"namespace", "body", "request"}:
            return framework

        async def call(request: Request) -> Response:
            scope = request.scope
            namespace, headers = scope["path_params"]["namespace"], dict(scope["headers"])
            if headers.get(b"content-type") not in _JSON or not _NAMED(namespace):
                return await framework(request)
            try:
                body = model.model_validate_json(await request.body())
            except ValidationError:
                return await framework(request)
            answer: Response = await endpoint(namespace=namespace, body=body, request=request)
            return answer

        return call


class MemoryRoutes:
    """The routes of the memory's API, in the order in which they are tried."""

    def __init__(self, context: Context) -> None:
        self.context, self.memories = context, context.memories
        self.router = APIRouter(prefix="/v1/memory", tags=["memory"], route_class=PlainRoute)

    def add(
        self,
        verb: str,
        path: str,
        role: Role,
        summary: str,
        body: type[BaseModel] | None = None,
        *,
        everywhere: bool = False,
        **options: Any,
    ) -> Callable[[F], F]:
        """Add an endpoint: its path, the role that it asks for, and what its response looks like."""

        def register(endpoint: F) -> F:
            self.router.add_api_route(
                path,
                needs(role, everywhere)(endpoint),
                methods=[verb],
                summary=summary,
                response_model=body,
                **options,
            )
            return endpoint

        return register

    def wrote(self, request: Request, action: str, namespace: str, **said: Any) -> None:
        """Put into the audit log what was changed, and by whom."""
        self.context.audit.wrote(principal_of(request), action, namespace, **said)


def add_operation(
    routes: MemoryRoutes,
    operation: Operation[Any, Any],
    answer: Callable[[Request, str, dict[str, Any]], Awaitable[Response]] | None = None,
) -> None:
    """Add the route of an operation; `answer` is what to do with its arguments, by default to call it."""

    async def call(request: Request, namespace: str, given: dict[str, Any]) -> Response:
        caller = principal_of(request)
        _, body = await perform(routes.context, caller, operation, namespace, given)
        return written_response(body)

    respond = answer or call

    async def endpoint(namespace: Namespace, body: BaseModel, request: Request) -> Response:
        return await respond(request, namespace, _with_key(operation, arguments_of(body), request))

    async def look(namespace: Namespace, query: BaseModel, request: Request) -> Response:
        return await respond(request, namespace, arguments_of(query))

    model = request_model(operation, routes.context.config.limits.batch)
    endpoint.__annotations__["body"] = model
    look.__annotations__["query"] = Annotated[model, Query()]
    keyed = operation.verb == "POST" and "id" in operation.parameters
    routes.add(
        operation.verb,
        f"/{{namespace}}/{operation.path}",
        operation.role,
        operation.summary,
        NamespaceBody if operation.returns is NoneType else None,
        name=operation.name,
        responses=result_schema(operation),
        openapi_extra={"parameters": [_KEY_PARAMETER]} if keyed else None,
    )(endpoint if operation.verb == "POST" else look)


def _with_key(operation: Operation[Any, Any], given: dict[str, Any], request: Request) -> dict[str, Any]:
    """The arguments, with the header Idempotency-Key as the id of what is sent."""
    key = request.headers.get(_KEY) if "id" in operation.parameters else None
    if key is None:
        return given
    if not 0 < len(key) <= _KEY_LENGTH:
        raise InputError(f"the header {_KEY} has {len(key)} characters; expected 1 to {_KEY_LENGTH}")
    if given.get("id") not in (None, key):
        raise InputError(f"id and the header {_KEY} differ; expected one of them")
    return {**given, "id": key}
