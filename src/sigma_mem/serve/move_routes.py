"""Memories that leave and come: export, restore, backup, and events that are forgotten."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

from sigma_mem.serve import schemas
from sigma_mem.serve.auth import needs, principal_of
from sigma_mem.serve.bodies import body_response, namespace_body
from sigma_mem.serve.context import Context
from sigma_mem.serve.look_routes import Namespace, moment_of
from sigma_mem.session.moving import read_ledger, restore_ledger

_FILE = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
_GZIP = b"\x1f\x8b"


def add_moves(routes: APIRouter, context: Context) -> None:
    """Add what moves whole memories, and `forget`."""
    memories, audit = context.memories, context.audit

    @routes.get(
        "/{namespace}/export",
        summary="The whole memory as compressed JSON lines.",
        response_class=FileResponse,
        responses={200: {"description": "What `restore` takes.", **_FILE}},
    )
    @needs("admin")
    async def export(namespace: Namespace, request: Request) -> Response:
        memory = await memories.get(namespace)
        sent = await memory.slow(lambda mem: _file(f"{namespace}.jsonl.gz", lambda path: mem.export(path)))
        audit.wrote(principal_of(request), "export", namespace)
        return sent

    @routes.post(
        "/{namespace}/restore",
        summary="Make a namespace from what `export` wrote.",
        response_model=schemas.NamespaceBody,
        openapi_extra={"requestBody": {"required": True, **_FILE}},
    )
    @needs("admin")
    async def restore(namespace: Namespace, request: Request) -> Response:
        await asyncio.to_thread(_restore, await request.body(), context, namespace)
        audit.wrote(principal_of(request), "restore", namespace)
        return body_response(namespace_body(namespace, (await memories.get(namespace)).mem))

    @routes.get(
        "/{namespace}/backup",
        summary="A copy of the whole store, with all its namespaces.",
        response_class=FileResponse,
        responses={200: {"description": "A memory's file.", **_FILE}},
    )
    @needs("admin", everywhere=True)
    async def backup(namespace: Namespace, request: Request) -> Response:
        memory = await memories.get(namespace)
        sent = await memory.slow(lambda mem: _file("memory.db", mem.backup))
        audit.wrote(principal_of(request), "backup", namespace)
        return sent

    @routes.post(
        "/{namespace}/forget",
        summary="Forget events for good: texts, φ, labels, and what was learned from them.",
        response_model=schemas.ForgottenBody,
    )
    @needs("admin")
    async def forget(namespace: Namespace, body: schemas.ForgetRequest, request: Request) -> Response:
        memory = await memories.get(namespace)
        before = moment_of(body.before)
        events = await memory.slow(lambda mem: mem.forget(body.decisions, before=before, text=body.text))
        audit.wrote(principal_of(request), "forget", namespace, events=events)
        return body_response({"events": events})


def _file(name: str, write: Callable[[Path], object]) -> FileResponse:
    """A file that is written, sent and removed."""
    folder = tempfile.mkdtemp(prefix="sigma-mem-")
    try:
        write(Path(folder) / name)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return FileResponse(
        Path(folder) / name,
        media_type="application/octet-stream",
        filename=name,
        background=BackgroundTask(shutil.rmtree, folder),
    )


def _restore(body: bytes, context: Context, namespace: str) -> None:
    """Put an exported ledger into an empty namespace, once it is known that it can be opened."""
    with tempfile.TemporaryDirectory(prefix="sigma-mem-") as folder:
        file = Path(folder) / ("sent.jsonl.gz" if body.startswith(_GZIP) else "sent.jsonl")
        file.write_bytes(body)
        records = read_ledger(file)
    restore_ledger(records, context.memories.store, namespace)
