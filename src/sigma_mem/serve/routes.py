"""The memory's API below ``/v1/memory``: every operation, panels, whole memories, and the namespaces."""

import asyncio
import os
import re
import tempfile
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from inspect import signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, cast, get_type_hints

from fastapi import APIRouter, Query, Request
from fastapi import Path as PathField
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, ValidationError
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response, StreamingResponse

from sigma_mem.admin import backup, export
from sigma_mem.errors import InputError, SigmaMemError, StoreError
from sigma_mem.events import Answer
from sigma_mem.operations import ASK, TABLE, Operation, Role
from sigma_mem.serve.calls import (
    Context,
    body_response,
    is_short,
    namespace_body,
    perform,
    written_response,
)
from sigma_mem.serve.failures import RefusedError, refusal
from sigma_mem.serve.guard import needs, principal_of
from sigma_mem.serve.keys import ROLES
from sigma_mem.serve.memories import NAMESPACE, settings_from
from sigma_mem.serve.schemas import (
    AddRequest,
    BatchBody,
    NamesBody,
    NamespaceBody,
    NamespaceRequest,
    arguments_of,
    request_model,
    result_schema,
)
from sigma_mem.session.panel import Panel
from sigma_mem.wire import sent_panel

F = TypeVar("F", bound=Callable[..., Any])
Namespace = Annotated[str, PathField(pattern=NAMESPACE, description="Which memory.", examples=["default"])]
_JSON = (b"application/json", b"application/json; charset=utf-8")
_NAMED = re.compile(NAMESPACE).match
_SHORT = 65_536  # bytes of a body that may be parsed twice
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
    Other endpoints, and short requests that do not fit their schema, are FastAPI's, which says what is wrong.
    A long one is not parsed again for that.
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
            except ValidationError as error:
                if len(await request.body()) <= _SHORT:
                    return await framework(request)
                first = error.errors(include_url=False, include_input=False)[0]
                raise RequestValidationError([{**first, "loc": ("body", *first["loc"])}]) from error
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


_MOST = 1_000  # panels of one namespace that are open; the one that was used longest ago goes first
_MOST_CHARACTERS = 8_000_000  # of their questions and answers


class OpenPanels:
    """Panels that were begun here, by namespace and event; no namespace pushes out another's."""

    def __init__(self) -> None:
        self._panels: dict[str, OrderedDict[str, Panel]] = defaultdict(OrderedDict)

    def keep(self, namespace: str, panel: Panel) -> None:
        """Keep a panel until too many others of its namespace, or too long ones, were used after it."""
        panels = self._panels[namespace]
        panels[panel.decision.event] = panel
        characters = sum(map(_length, panels.values()))
        while len(panels) > _MOST or (characters > _MOST_CHARACTERS and len(panels) > 1):
            characters -= _length(panels.popitem(last=False)[1])

    def find(self, namespace: str, event: str) -> Panel:
        """A panel that was begun here; refuses if there is none."""
        if event not in self._panels.get(namespace, ()):
            raise RefusedError(
                404,
                "unknown_panel",
                f"no panel on event {event!r} is open here; begin again with after or ref",
            )
        self._panels[namespace].move_to_end(event)
        return self._panels[namespace][event]


def _length(panel: Panel) -> int:
    question = len(panel.decision.question or "")
    return question + sum(len(answer.text or "") for answer in panel.answers.values())


def add_panels(routes: MemoryRoutes) -> None:
    """Add the routes of panels."""
    panels, context = OpenPanels(), routes.context

    async def ask(request: Request, namespace: str, given: dict[str, Any]) -> Response:
        panel, body = await perform(context, principal_of(request), ASK, namespace, given)
        panels.keep(namespace, panel)
        return written_response(body)

    add_operation(routes, ASK, ask)

    @routes.add(
        "POST",
        f"/{{namespace}}/{ASK.path}/add",
        ASK.role,
        "Give a peer's answer: says whom to ask next, or that it is enough.",
        responses=result_schema(ASK),
    )
    async def add(namespace: Namespace, body: AddRequest, request: Request) -> Response:
        panel, memory = panels.find(namespace, body.panel), await routes.memories.get(namespace)
        answer = cast(str | Answer | None, body.answer)  # by its validator
        run = memory.quick if is_short({"answers": {body.peer: answer}}) else memory.slow
        await run(lambda mem: panel.add(body.peer, answer))
        return body_response(sent_panel(panel))


_FILE = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
_CHUNK = 1 << 16  # bytes that are sent at a time


def add_transfers(routes: MemoryRoutes) -> None:
    """Add what moves whole memories."""

    @routes.add(
        "GET",
        "/{namespace}/export",
        "admin",
        "The whole memory as compressed JSON lines.",
        response_class=FileResponse,
        responses={200: {"description": "What `restore` takes.", **_FILE}},
    )
    async def export_memory(namespace: Namespace, request: Request) -> Response:
        name = f"{namespace}.jsonl.gz"
        memory = await routes.memories.get(namespace)
        sent = await memory.slow(lambda mem: _file(name, lambda file: export(mem, file)))
        routes.wrote(request, "export", namespace)
        return sent

    @routes.add(
        "POST",
        "/{namespace}/restore",
        "admin",
        "Make a namespace from what `export` wrote.",
        NamespaceBody,
        openapi_extra={"requestBody": {"required": True, **_FILE}},
    )
    async def restore(namespace: Namespace, request: Request) -> Response:
        memory = await routes.memories.restore(namespace, await request.body())
        routes.wrote(request, "restore", namespace)
        return body_response(namespace_body(namespace, memory.mem))

    @routes.add(
        "GET",
        "/{namespace}/backup",
        "admin",
        "A copy of the whole store, with all its namespaces.",
        everywhere=True,
        response_class=FileResponse,
        responses={200: {"description": "A memory's file.", **_FILE}},
    )
    async def backup_store(namespace: Namespace, request: Request) -> Response:
        memory = await routes.memories.get(namespace)
        sent = await memory.slow(lambda mem: _file("memory.db", lambda file: backup(mem, file)))
        routes.wrote(request, "backup", namespace)
        return sent


def _file(name: str, write: Callable[[Path], object]) -> StreamingResponse:
    """A file that is written, removed and sent: its name is gone before a client could keep it there."""
    with tempfile.TemporaryDirectory(prefix="sigma-mem-") as folder:
        path = Path(folder) / name
        write(path)
        file = path.open("rb")
    headers = {
        "content-length": str(os.fstat(file.fileno()).st_size),
        "content-disposition": f'attachment; filename="{name}"',
    }
    return StreamingResponse(
        iter(lambda: file.read(_CHUNK), b""),
        media_type="application/octet-stream",
        headers=headers,
        background=BackgroundTask(file.close),
    )


def memory_routes(context: Context) -> APIRouter:
    """The routes of the memory's API; those that are called most are tried first."""
    routes = MemoryRoutes(context)
    for operation in TABLE.values():
        if operation is not ASK:
            add_operation(routes, operation)
    _add_batch(routes)
    add_panels(routes)
    add_transfers(routes)
    _add_namespaces(routes)
    return routes.router


def _add_batch(routes: MemoryRoutes) -> None:
    operation, context = TABLE["feedback"], routes.context
    most, item = context.config.limits.batch, request_model(operation)

    class FeedbackBatch(BaseModel):
        """Several at once: one wait for the disk."""

        items: list[item] = Field(min_length=1, max_length=most)  # type: ignore[valid-type]

    @routes.add(
        "POST",
        "/{namespace}/feedback/batch",
        operation.role,
        "Record several at once, each taken or refused on its own. Returns once they are on disk.",
        BatchBody,
    )
    async def feedback_batch(namespace: Namespace, body: FeedbackBatch, request: Request) -> Response:
        await routes.memories.get(namespace)  # refuse the batch, and not each item, if there is no memory
        caller = principal_of(request)

        async def take(given: dict[str, Any]) -> dict[str, Any]:
            await asyncio.sleep(0)  # others have their turn between any two items
            try:
                taken, _ = await perform(context, caller, operation, namespace, given, durable=False)
                return {"feedback": taken}
            except SigmaMemError as error:
                return {"error": refusal(error)[1]["error"]}

        async def take_all() -> list[dict[str, Any]]:
            return [await take(arguments_of(each)) for each in body.items]

        return body_response({"results": await context.memories.durable(namespace, take_all())})


def _add_namespaces(routes: MemoryRoutes) -> None:
    memories = routes.memories

    @routes.add("GET", "", "read", "Namespaces that the key may read.", NamesBody)
    async def list_namespaces(request: Request) -> Response:
        who = principal_of(request)
        try:
            names = await memories.names()
        except StoreError:
            if not memories.serves_without_store:
                raise
            names = [memory.namespace for memory in memories.opened()]
        roles = {name: role for name in names for role in ROLES if who.may(role, name)}
        currency = routes.context.config.currency
        return body_response({"namespaces": list(roles), "roles": roles, "currency": currency})

    @routes.add(
        "PUT",
        "/{namespace}",
        "admin",
        "Make a namespace. Idempotent; other peers or settings than it has are a conflict.",
        NamespaceBody,
    )
    async def create_namespace(namespace: Namespace, body: NamespaceRequest, request: Request) -> Response:
        settings = None if body.settings is None else settings_from(body.settings, memories.trusted)
        memory = await memories.create(
            namespace, body.peers, rank=body.rank, encoder=body.encoder, settings=settings
        )
        routes.wrote(request, "create", namespace, peers=body.peers)
        return body_response(namespace_body(namespace, memory.mem))

    @routes.add("GET", "/{namespace}", "read", "What a namespace is.", NamespaceBody)
    async def describe_namespace(namespace: Namespace) -> Response:
        return body_response(namespace_body(namespace, (await memories.get(namespace)).mem))
