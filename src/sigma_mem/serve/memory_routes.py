"""The memory's API: every operation of the table below ``/v1/memory/{namespace}/``, and the namespaces."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.operations import ASK, TABLE
from sigma_mem.serve.auth import principal_of
from sigma_mem.serve.calls import begin, body_response, namespace_body
from sigma_mem.serve.context import Context
from sigma_mem.serve.failures import refusal
from sigma_mem.serve.memories import settings_from
from sigma_mem.serve.panels import add_panels
from sigma_mem.serve.requests import NamespaceRequest, arguments_of, request_model
from sigma_mem.serve.responses import BatchBody, NamesBody, NamespaceBody
from sigma_mem.serve.routes import MemoryRoutes, Namespace, add_operation
from sigma_mem.serve.transfers import add_transfers


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

        items: list[item] = Field(min_length=1)  # type: ignore[valid-type]

    @routes.add(
        "POST",
        "/{namespace}/feedback/batch",
        operation.role,
        "Record several at once, each taken or refused on its own. Returns once they are on disk.",
        BatchBody,
    )
    async def feedback_batch(namespace: Namespace, body: FeedbackBatch, request: Request) -> Response:
        if len(body.items) > most:
            raise InputError(f"got {len(body.items)} items; expected {most} at most")
        await routes.memories.get(namespace)  # refuse the batch, and not each item, if there is no memory
        caller = principal_of(request)

        async def take(given: dict[str, Any]) -> dict[str, Any]:
            try:
                return {"feedback": (await begin(context, caller, operation, namespace, given))[0]}
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
        return body_response(
            {"namespaces": [name for name in await memories.names() if who.may("read", name)]}
        )

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
