"""Where a tool's call goes: the memory of a file, or a namespace of the service, as far as the key may."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from mcp.server.mcpserver import Context as Call

from sigma_mem.errors import InputError
from sigma_mem.events import Decision, Feedback
from sigma_mem.serve.auth import principal_of, require_role
from sigma_mem.serve.context import Context
from sigma_mem.serve.keys import Principal
from sigma_mem.session import SigmaMem

T = TypeVar("T")
AnyCall = Call[Any, Any]


class ToolMemories(Protocol):
    """What tools work on."""

    def namespace_of(self, given: str | None) -> str:
        """The namespace that is meant; without a name, the default one."""

    def source_of(self, call: AnyCall) -> str:
        """Under which name feedback is taken."""

    async def look(self, call: AnyCall, namespace: str, read: Callable[[SigmaMem], T]) -> T:
        """Read from a memory."""

    async def write(self, call: AnyCall, namespace: str, write: Callable[[SigmaMem], T]) -> T:
        """Write to a memory; returns once it is on disk."""

    def wrote(self, call: AnyCall, namespace: str, written: Decision | Feedback) -> None:
        """Note what was written, for metrics and audit."""


class FileMemory:
    """One memory, for the one agent that started the process."""

    def __init__(self, mem: SigmaMem, namespace: str, source: str) -> None:
        self._mem, self._namespace, self._source = mem, namespace, source

    def namespace_of(self, given: str | None) -> str:
        """The one that was opened."""
        if given not in (None, self._namespace):
            raise InputError(
                f"namespace is {given!r}; expected {self._namespace!r}, which is open here; leave it out"
            )
        return self._namespace

    def source_of(self, call: AnyCall) -> str:
        """As the command line says."""
        return self._source

    async def look(self, call: AnyCall, namespace: str, read: Callable[[SigmaMem], T]) -> T:
        """Read, in a thread."""
        return await asyncio.to_thread(read, self._mem)

    async def write(self, call: AnyCall, namespace: str, write: Callable[[SigmaMem], T]) -> T:
        """Write and wait for the disk, in a thread."""

        def written() -> T:
            done = write(self._mem)
            self._mem.store.flush()
            return done

        return await asyncio.to_thread(written)

    def wrote(self, call: AnyCall, namespace: str, written: Decision | Feedback) -> None:
        """The ledger alone keeps it."""


class ServiceMemories:
    """All namespaces of a service, each for the keys that may use it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def namespace_of(self, given: str | None) -> str:
        """The named one, or the service's own."""
        return self._context.config.namespace if given is None else given

    def source_of(self, call: AnyCall) -> str:
        """The name of the key."""
        return _caller(call).name

    async def look(self, call: AnyCall, namespace: str, read: Callable[[SigmaMem], T]) -> T:
        """Read, where the key may."""
        require_role(_caller(call), "read", namespace)
        memory = await self._context.memories.get(namespace)
        return await memory.slow(read)

    async def write(self, call: AnyCall, namespace: str, write: Callable[[SigmaMem], T]) -> T:
        """Write, where the key may, and wait for the disk."""
        require_role(_caller(call), "write", namespace)
        memory = await self._context.memories.get(namespace)
        return await self._context.memories.durable(namespace, memory.slow(write))

    def wrote(self, call: AnyCall, namespace: str, written: Decision | Feedback) -> None:
        """Count it; feedback goes into the audit, too."""
        if isinstance(written, Decision):
            self._context.metrics.decided(written.read)
            return
        self._context.metrics.feedback.inc()
        self._context.audit.wrote(
            _caller(call),
            "feedback",
            namespace,
            id=written.id,
            event=written.event,
            labels=written.labels,
            amends=written.amends,
        )


def _caller(call: AnyCall) -> Principal:
    """Who made the HTTP request that this call came in."""
    request = call.request_context.request
    if request is None:
        raise InputError("the call came without an HTTP request; expected one, at /mcp")
    return principal_of(request)
