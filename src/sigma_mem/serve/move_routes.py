"""Memories that leave and come: export, restore, backup, and events that are forgotten."""

import asyncio
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from fastapi import Request
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response, StreamingResponse

from sigma_mem.serve.bodies import body_response, namespace_body
from sigma_mem.serve.context import Context
from sigma_mem.serve.look_routes import moment_of
from sigma_mem.serve.routes import MemoryRoutes, Namespace
from sigma_mem.serve.schemas import requests, responses
from sigma_mem.session.export import read_ledger, restore_ledger

_FILE = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 16  # bytes that are sent at a time


def add_moves(routes: MemoryRoutes) -> None:
    """Add what moves whole memories, and `forget`."""

    @routes.add(
        "GET",
        "/{namespace}/export",
        "admin",
        "The whole memory as compressed JSON lines.",
        response_class=FileResponse,
        responses={200: {"description": "What `restore` takes.", **_FILE}},
    )
    async def export(namespace: Namespace, request: Request) -> Response:
        name = f"{namespace}.jsonl.gz"
        sent = await routes.slow(namespace, lambda mem: _file(name, mem.export))
        routes.wrote(request, "export", namespace)
        return sent

    @routes.post(
        "restore",
        "admin",
        "Make a namespace from what `export` wrote.",
        responses.NamespaceBody,
        openapi_extra={"requestBody": {"required": True, **_FILE}},
    )
    async def restore(namespace: Namespace, request: Request) -> Response:
        await asyncio.to_thread(_restore, await request.body(), routes.context, namespace)
        routes.wrote(request, "restore", namespace)
        return body_response(namespace_body(namespace, (await routes.memories.get(namespace)).mem))

    @routes.add(
        "GET",
        "/{namespace}/backup",
        "admin",
        "A copy of the whole store, with all its namespaces.",
        everywhere=True,
        response_class=FileResponse,
        responses={200: {"description": "A memory's file.", **_FILE}},
    )
    async def backup(namespace: Namespace, request: Request) -> Response:
        sent = await routes.slow(namespace, lambda mem: _file("memory.db", mem.backup))
        routes.wrote(request, "backup", namespace)
        return sent

    @routes.post(
        "forget",
        "admin",
        "Forget events for good: texts, φ, labels, and what was learned from them.",
        responses.ForgottenBody,
    )
    async def forget(namespace: Namespace, body: requests.ForgetRequest, request: Request) -> Response:
        named, before, text = body.decisions, moment_of(body.before), body.text
        events = await routes.slow(namespace, lambda mem: mem.forget(named, before=before, text=text))
        routes.wrote(request, "forget", namespace, events=events)
        return body_response({"events": events})


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


def _restore(body: bytes, context: Context, namespace: str) -> None:
    """Put an exported ledger into an empty namespace, once it is known that it can be opened."""
    with tempfile.TemporaryDirectory(prefix="sigma-mem-") as folder:
        file = Path(folder) / ("sent.jsonl.gz" if body.startswith(_GZIP) else "sent.jsonl")
        file.write_bytes(body)
        records = read_ledger(file, check=context.memories.refuse_unwanted)
    restore_ledger(records, context.memories.store, namespace)
