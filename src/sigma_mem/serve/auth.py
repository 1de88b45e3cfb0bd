"""Who may call what: every route declares a role, and a route that declares none stops the start."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fastapi import FastAPI, Request
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sigma_mem.errors import SigmaMemError
from sigma_mem.serve.failures import RefusedError, UnknownNamespaceError
from sigma_mem.serve.keys import EVERYWHERE, Principal, Role

F = TypeVar("F", bound=Callable[..., Any])
Need = Role | Literal["nobody"]


@dataclass(frozen=True, slots=True)
class Access:
    """What a route asks of who calls it.

    Attributes
    ----------
    role : {"read", "write", "admin", "nobody"}
        "nobody": anyone may call, also without a key.
    everywhere : bool
        Whether the role must hold in all namespaces. Where not, it must hold in the namespace of the path
        or, on a route without one, in some namespace: the route then looks itself.
    """

    role: Need
    everywhere: bool = False


def needs(role: Need, everywhere: bool = False) -> Callable[[F], F]:
    """Declare what an endpoint, or an application that will be mounted, asks of its callers."""

    def declare(endpoint: F) -> F:
        endpoint.access = Access(role, everywhere)  # type: ignore[attr-defined]
        return endpoint

    return declare


def principal_of(request: Request) -> Principal:
    """Who makes this request."""
    principal: Principal = request.scope["principal"]
    return principal


def require_role(principal: Principal | None, role: Role, namespace: str) -> None:
    """Refuse who may not do this in a namespace; to who may not even read it, it is not there."""
    if principal is None:
        raise _no_key()
    if not principal.may(role, namespace):
        if not principal.may("read", namespace):
            raise UnknownNamespaceError(namespace)
        raise RefusedError(
            403, "forbidden", f"key {principal.name!r} may not {role} in {namespace!r}; use a key that may"
        )


def namespace_for(request: Request, named: str | None, usual: str) -> str:
    """The namespace that a request to the gateway writes to; refuses who may not.

    It is the one that the request names. If it names none it is the service's usual one or, for a key that
    may write in one other namespace only, that one: so a team's key is all that its clients need.
    """
    who, namespace = principal_of(request), named or usual
    if not who.may("write", namespace):
        own = [where for where in who.grants if where != EVERYWHERE and who.may("write", where)]
        if named is not None or len(own) != 1:
            require_role(who, "write", namespace)
        namespace = own[0]
    request.path_params["namespace"] = namespace  # for the log
    return namespace


class RoleGate:
    """An application that only those who may can reach."""

    def __init__(self, app: ASGIApp, access: Access, path: str) -> None:
        self._app, self.access, self._path = app, access, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        scope["sigma_mem.route"] = self._path  # with names instead of values, for metrics and log
        if self.access.role != "nobody":
            self._check(scope.get("principal"), self.access.role, scope["path_params"].get("namespace"))
        await self._app(scope, receive, send)

    def _check(self, principal: Principal | None, role: Role, namespace: str | None) -> None:
        if principal is None:
            raise _no_key()
        if namespace is not None and not self.access.everywhere:
            require_role(principal, role, namespace)
        elif not (
            principal.may(role, EVERYWHERE) if self.access.everywhere else principal.may_somewhere(role)
        ):
            where = "every namespace" if self.access.everywhere else "any namespace"
            raise RefusedError(403, "forbidden", f"key {principal.name!r} may not {role} in {where}")


def _no_key() -> RefusedError:
    return RefusedError(
        401,
        "no_key",
        "no valid API key; send Authorization: Bearer KEY, from: sigma-mem keys add",
        {"www-authenticate": "Bearer"},
    )


def seal(app: FastAPI) -> None:
    """Put a gate before every route; refuse to start with a route that declares no role."""
    for route in app.routes:
        declared = (
            route.endpoint if isinstance(route, Route) else route.app if isinstance(route, Mount) else None
        )
        access = getattr(declared, "access", None)
        if not isinstance(route, Route | Mount) or not isinstance(access, Access):
            raise SigmaMemError(
                f"route {getattr(route, 'path', route)!r} declares no role; put @needs(...) on its endpoint"
            )
        route.app = RoleGate(route.app, access, route.path)
