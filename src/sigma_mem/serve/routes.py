"""Routes below ``/v1/memory``: what each is called, who may call it, and how it reaches a memory."""

import re
from collections.abc import Callable, Coroutine
from inspect import signature
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import APIRouter, Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from sigma_mem.serve.auth import needs, principal_of
from sigma_mem.serve.context import Context
from sigma_mem.serve.keys import Role
from sigma_mem.serve.memories import NAMESPACE
from sigma_mem.session import SigmaMem

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Namespace = Annotated[str, Path(pattern=NAMESPACE, description="Which memory.", examples=["default"])]
DecisionId = Annotated[
    str, Query(min_length=1, max_length=256, description="Id of a decision, or the ref of its event.")
]
_JSON = (b"application/json", b"application/json; charset=utf-8")
_PLAIN = {"namespace", "body", "request", "idempotency_key"}  # what an endpoint may take to be called plainly
_NAMED = re.compile(NAMESPACE).match
_KEY_LENGTH = 256  # of an Idempotency-Key, at most


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
        if not issubclass(model, BaseModel) or not {"namespace", "body"} <= parameters <= _PLAIN:
            return framework

        async def call(request: Request) -> Response:
            scope = request.scope
            namespace, headers = scope["path_params"]["namespace"], dict(scope["headers"])
            key = headers.get(b"idempotency-key")
            if (
                headers.get(b"content-type") not in _JSON
                or not _NAMED(namespace)
                or (key is not None and not 0 < len(key) <= _KEY_LENGTH)
            ):
                return await framework(request)
            try:
                arguments = {"namespace": namespace, "body": model.model_validate_json(await request.body())}
            except ValidationError:
                return await framework(request)
            if "request" in parameters:
                arguments["request"] = request
            if "idempotency_key" in parameters:
                arguments["idempotency_key"] = None if key is None else key.decode("latin-1")
            answer: Response = await endpoint(**arguments)
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

    def get(
        self, path: str, summary: str, body: type[BaseModel] | None = None, **options: Any
    ) -> Callable[[F], F]:
        """Add a look at a memory."""
        return self.add("GET", f"/{{namespace}}/{path}", "read", summary, body, **options)

    def post(
        self, path: str, role: Role, summary: str, body: type[BaseModel] | None = None, **options: Any
    ) -> Callable[[F], F]:
        """Add a method of a memory that takes a body."""
        return self.add("POST", f"/{{namespace}}/{path}", role, summary, body, **options)

    async def quick(self, namespace: str, call: Callable[[SigmaMem], T]) -> T:
        """Run what takes microseconds; see `ServedMemory.quick`."""
        return await (await self.memories.get(namespace)).quick(call)

    async def slow(self, namespace: str, call: Callable[[SigmaMem], T]) -> T:
        """Run what reads the ledger or waits for the disk; see `ServedMemory.slow`."""
        return await (await self.memories.get(namespace)).slow(call)

    def wrote(self, request: Request, action: str, namespace: str, **said: Any) -> None:
        """Put into the audit log what was changed, and by whom."""
        self.context.audit.wrote(principal_of(request), action, namespace, **said)
