"""Memories that leave and come: export, restore and backup."""

import asyncio
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from fastapi import Request
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response, StreamingResponse

from sigma_mem.admin import backup, export
from sigma_mem.admin.transfer import read_ledger, restore_ledger
from sigma_mem.serve.calls import body_response, namespace_body
from sigma_mem.serve.context import Context
from sigma_mem.serve.responses import NamespaceBody
from sigma_mem.serve.routes import MemoryRoutes, Namespace

_FILE = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
_GZIP = b"\x1f\x8b"
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


def _restore(body: bytes, context: Context, namespace: str) -> None:
    """Put an exported ledger into an empty namespace, once it is known that it can be opened."""
    with tempfile.TemporaryDirectory(prefix="sigma-mem-") as folder:
        file = Path(folder) / ("sent.jsonl.gz" if body.startswith(_GZIP) else "sent.jsonl")
        file.write_bytes(body)
        records = read_ledger(file, check=context.memories.refuse_unwanted)
    restore_ledger(records, context.memories.store, namespace)
