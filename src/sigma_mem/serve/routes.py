"""Routes below ``/v1/memory``: what each is called, who may call it, and how it reaches a memory."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel

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


class MemoryRoutes:
    """The routes of the memory's API, in the order in which they are tried."""

    def __init__(self, context: Context) -> None:
        self.context, self.memories = context, context.memories
        self.router = APIRouter(prefix="/v1/memory", tags=["memory"])

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
