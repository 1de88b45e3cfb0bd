"""The part of the memory's API that keeps it: peers that change, and events that are forgotten."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from sigma_mem.serve import schemas
from sigma_mem.serve.auth import needs, principal_of
from sigma_mem.serve.bodies import body_response, namespace_body, plain
from sigma_mem.serve.context import Context
from sigma_mem.serve.look_routes import Namespace


def add_keeping(routes: APIRouter, context: Context) -> None:
    """Add what changes a memory for good, and what it says about how it is used."""
    memories, audit = context.memories, context.audit

    @routes.post(
        "/{namespace}/peers/reset",
        summary="A model was updated under its name: a share of its record stays.",
        response_model=schemas.NamespaceBody,
    )
    @needs("admin")
    async def reset_peer(namespace: Namespace, body: schemas.ResetRequest, request: Request) -> Response:
        memory = await memories.get(namespace)
        await memory.slow(lambda mem: mem.reset_peer(body.peer, keep=body.keep))
        audit.wrote(principal_of(request), "reset_peer", namespace, peer=body.peer)
        return body_response(namespace_body(namespace, memory.mem))

    @routes.post(
        "/{namespace}/peers/rename", summary="Give a peer another name.", response_model=schemas.NamespaceBody
    )
    @needs("admin")
    async def rename_peer(namespace: Namespace, body: schemas.RenameRequest, request: Request) -> Response:
        memory = await memories.get(namespace)
        await memory.slow(lambda mem: mem.rename_peer(body.peer, body.name))
        audit.wrote(principal_of(request), "rename_peer", namespace, peer=body.peer, name=body.name)
        return body_response(namespace_body(namespace, memory.mem))

    @routes.post(
        "/{namespace}/peers/replace",
        summary="Put another peer in the place of one, with a share of its record.",
        response_model=schemas.NamespaceBody,
    )
    @needs("admin")
    async def replace_peer(namespace: Namespace, body: schemas.ReplaceRequest, request: Request) -> Response:
        memory = await memories.get(namespace)
        await memory.slow(lambda mem: mem.replace_peer(body.peer, body.by, keep=body.keep))
        audit.wrote(principal_of(request), "replace_peer", namespace, peer=body.peer, by=body.by)
        return body_response(namespace_body(namespace, memory.mem))

    @routes.post(
        "/{namespace}/forget",
        summary="Forget events for good: by decisions, by time or by text.",
        response_model=schemas.ForgottenBody,
    )
    @needs("admin")
    async def forget(namespace: Namespace, body: schemas.ForgetRequest, request: Request) -> Response:
        memory = await memories.get(namespace)
        events = await memory.slow(lambda mem: mem.forget(body.decisions, before=body.before, text=body.text))
        audit.wrote(principal_of(request), "forget", namespace, events=events)
        return body_response({"events": events})

    @routes.get(
        "/{namespace}/advice",
        summary="What there is to say about how the memory is used.",
        response_model=schemas.AdviceBody,
    )
    @needs("read")
    async def advice(namespace: Namespace) -> Response:
        memory = await memories.get(namespace)
        return body_response({"advice": plain(await memory.slow(lambda mem: mem.advice()))})
