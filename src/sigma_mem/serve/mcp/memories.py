"""Where a tool's call goes: the memory of a file, or a namespace of the service, as far as the key may."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from mcp.server.mcpserver import Context as Call

from sigma_mem.errors import InputError
from sigma_mem.operations import Operation
from sigma_mem.serve.auth import principal_of, require_role
from sigma_mem.serve.calls import perform
from sigma_mem.serve.context import Context
from sigma_mem.serve.keys import Principal
from sigma_mem.session import SigmaMem

T = TypeVar("T")
AnyCall = Call[Any, Any]


class ToolMemories(Protocol):
    """What tools work on."""

    def namespace_of(self, given: str | None) -> str:
        """The namespace that is meant; without a name, the default one."""

    async def call(
        self, call: AnyCall, operation: Operation[Any, T], namespace: str, given: Mapping[str, Any]
    ) -> T:
        """Call an operation; returns once what it wrote is on disk."""

    async def write(self, call: AnyCall, namespace: str, write: Callable[[SigmaMem], T]) -> T:
        """Write to a memory; returns once it is on disk."""


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

    async def call(
        self, call: AnyCall, operation: Operation[Any, T], namespace: str, given: Mapping[str, Any]
    ) -> T:
        """Call an operation, in a thread; feedback is from the source that the command line named."""
        kept = {"source": self._source, "wait": False}
        arguments = {**given, **{name: kept[name] for name in operation.kept}}
        return await self.write(call, namespace, lambda mem: getattr(mem, operation.name)(**arguments))

    async def write(self, call: AnyCall, namespace: str, write: Callable[[SigmaMem], T]) -> T:
        """Write and wait for the disk, in a thread."""

        def written() -> T:
            done = write(self._mem)
            self._mem.store.flush()
            return done

        return await asyncio.to_thread(written)


class ServiceMemories:
    """All namespaces of a service, each for the keys that may use it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def namespace_of(self, given: str | None) -> str:
        """The named one, or the service's own."""
        return self._context.config.namespace if given is None else given

    async def call(
        self, call: AnyCall, operation: Operation[Any, T], namespace: str, given: Mapping[str, Any]
    ) -> T:
        """Call an operation, if the key may, and wait for the disk; feedback is from the key."""
        caller = _caller(call)
        require_role(caller, operation.role, namespace)
        running = perform(self._context, caller, operation, namespace, given)
        found, _ = await (
            running if operation.role == "read" else self._context.memories.durable(namespace, running)
        )
        done: T = found
        return done

    async def write(self, call: AnyCall, namespace: str, write: Callable[[SigmaMem], T]) -> T:
        """Write, if the key may, and wait for the disk."""
        require_role(_caller(call), "write", namespace)
        memory = await self._context.memories.get(namespace)
        return await self._context.memories.durable(namespace, memory.slow(write))


def _caller(call: AnyCall) -> Principal:
    """Who made the HTTP request that this call came in."""
    request = call.request_context.request
    if request is None:
        raise InputError("the call came without an HTTP request; expected one, at /mcp")
    return principal_of(request)
