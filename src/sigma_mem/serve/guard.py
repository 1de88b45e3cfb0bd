"""In front of every route: Host and Origin, sizes and rates, who calls, and who may call what.

Every route declares a role; a route that declares none stops the start.
"""

import asyncio
import math
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from types import coroutine
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.failures import RefusedError, error_response, refusal, unknown_namespace
from sigma_mem.serve.keys import EVERYWHERE, LOCAL, KeyRing, Principal, Role
from sigma_mem.serve.telemetry import Metrics, log_event

# ---- roles


F = TypeVar("F", bound=Callable[..., Any])
Need = Role | Literal["nobody"]


@dataclass(frozen=True, slots=True)
class Access:
    """What a route asks of who calls it; for "nobody" anyone may, also without a key.

    The role must hold in all namespaces (`everywhere`), in the namespace of the path or, on a route without
    one, in some namespace: the route then looks itself.
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
    """The caller that makes this request."""
    principal: Principal = request.scope["principal"]
    return principal


def require_role(principal: Principal | None, role: Role, namespace: str) -> None:
    """Refuse who may not do this in a namespace; to who may not even read it, it is not there."""
    if principal is None:
        raise RefusedError(
            401,
            "no_key",
            "no valid API key; send Authorization: Bearer KEY, from: sigma-mem keys add",
            {"www-authenticate": "Bearer"},
        )
    if not principal.may(role, namespace):
        if not principal.may("read", namespace):
            raise unknown_namespace(namespace)
        raise RefusedError(
            403, "forbidden", f"key {principal.name!r} may not {role} in {namespace!r}; use a key that may"
        )


def namespace_for(request: Request, named: str | None, usual: str) -> str:
    """The namespace that a request to the gateway writes to; refuses who may not.

    It is the one that the request names. If it names none it is the service's usual one or, for a key that
    may write in one other namespace only, that one: so a team's key is all that its clients need.
    """
    who: Principal = request.scope["principal"]
    namespace = named or usual
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
        role, everywhere = self.access.role, self.access.everywhere
        if role != "nobody":
            principal: Principal | None = scope.get("principal")
            namespace = scope["path_params"].get("namespace")
            if principal is None or (namespace is not None and not everywhere):
                require_role(principal, role, namespace)
            elif not (principal.may(role, EVERYWHERE) if everywhere else principal.may_somewhere(role)):
                where = "every namespace" if everywhere else "any namespace"
                raise RefusedError(403, "forbidden", f"key {principal.name!r} may not {role} in {where}")
        await self._app(scope, receive, send)


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


# ---- requests


_MOST_CALLERS = 10_000  # whose rates are remembered; beyond that all are forgotten at once
_LONG = 16_384  # bytes of a body that may take long to read
_STEP, _LONG_STEP = 2.0, 10.0  # ms for which a request holds up others: below the first nobody notices
_HELD = 100.0  # ms a second for which one key may do so for longer; those of long steps count tenfold
_NEAR, _LONG_NEAR = 1.0, 30.0  # seconds after another key's request in which steps, and long ones, count
_READ = 5e-9  # seconds that a byte of a long body counts: threads that read it share the GIL with others
_BEFORE_REFUSAL = 0.1  # seconds that a caller above its rate waits for the refusal, so that it sends no flood
_HELD_UP = "the last long requests of this key took too much time to read; wait, or send less at once"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
PAGE = "/dashboard/"
HEALTH = frozenset(("/healthz", "/readyz"))  # no load or rate may stop these: they say if the process lives
PUBLIC = ("/", "/dashboard", "/docs")  # besides the page's files
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_OF_EVERY_RESPONSE = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class Guard:
    """The outermost application: refuses what no route should see, finds out who calls, counts requests."""

    def __init__(
        self,
        app: ASGIApp,
        config: ServerConfig,
        keys: KeyRing,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._keys, self._metrics, self._clock = app, keys, metrics, clock
        self._logs = config.log != "off"
        self._access_log = config.access_log and config.log != "off"
        self._limits = config.limits
        self._open = not config.needs_keys and not config.keys
        self._hosts = allowed_hosts(config)
        self._origins = frozenset(config.allowed_origins)
        self._boot, self._count = secrets.token_hex(5), count(1)  # to ask for chance every time costs more
        self._rate = RateLimit(config.limits.rate, clock)
        self._refused = RateLimit(config.limits.refused_rate, clock)
        self._held = LoopTime(clock)
        self._places: dict[str | None, int] = {}  # requests that run, by who called

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets here
            return
        request_id, begun, status = self._request_id(scope), self._clock(), 0
        scope["sigma_mem.request"] = request_id

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                there = dict(headers)
                for pair in _OF_EVERY_RESPONSE:
                    if pair[0] not in there:
                        headers.append(pair)
                headers.append((b"x-request-id", request_id.encode()))
            await send(message)

        self._metrics.running += 1
        try:
            self._check(scope)
            caller = scope["principal"] and scope["principal"].name  # without a key no body is read
            body = LimitedBody(receive, self._limits.body_bytes, self._held, caller)
            with self._place(caller, scope["path"]):
                await _timed(self._app(scope, body, answer), partial(self._held.took, caller))
        except SigmaMemError as error:
            if status:
                raise
            code, content, more = refusal(error)
            if code == 429 and "sigma_mem.route" not in scope:
                await asyncio.sleep(_BEFORE_REFUSAL)
            await error_response(scope["path"], code, content, more)(scope, receive, answer)
        finally:
            self._metrics.running -= 1
            self._report(scope, status or 500, self._clock() - begun, request_id)

    @contextmanager
    def _place(self, caller: str | None, path: str) -> Iterator[None]:
        """One of `limits.concurrency` places; if all are taken, a key that has its share of them is refused.

        So a key that fills them, with bodies that never end or streams, leaves others theirs.
        """
        held = self._places.get(caller, 0)
        share = self._limits.concurrency / (len(self._places) + (held == 0))
        if sum(self._places.values()) >= self._limits.concurrency and held >= share and path not in HEALTH:
            wait = {"retry-after": "1"}
            raise RefusedError(503, "overloaded", "too many requests at once; try again", wait)
        self._places[caller] = held + 1
        try:
            yield
        finally:
            self._places[caller] -= 1
            if not self._places[caller]:
                del self._places[caller]

    def _request_id(self, scope: Scope) -> str:
        """The caller's own id of a request if it is harmless, else one that no other request has."""
        for name, value in scope["headers"]:
            if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                return str(value.decode())
        return f"{self._boot}-{next(self._count):x}"

    def _report(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        """Count a request, and log it."""
        method, route = scope["method"], scope.get("sigma_mem.route", "unmatched")
        self._metrics.served(method, route, status, seconds)
        is_lost = route == "unmatched" and status == 404
        if self._access_log or status >= 500 or (self._logs and is_lost):
            principal = scope.get("principal")
            log_event(
                "request",
                method=method,
                route=route,
                path=scope["path"][:200] if is_lost else None,
                namespace=scope.get("path_params", {}).get("namespace"),
                status=status,
                ms=round(1000.0 * seconds, 2),
                key=None if principal is None else principal.name,
                request=request_id,
            )

    def _check(self, scope: Scope) -> None:
        """Refuse a request, or find out who calls."""
        headers: dict[bytes, bytes] = {}
        size = len(scope["raw_path"] or b"") + len(scope["query_string"])
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            if name in (b"host", b"origin", b"authorization", b"x-api-key") and name in headers:
                raise RefusedError(
                    400, "bad_header", f"got the header {name.decode()} twice; expected it once"
                )
            headers[name] = value
        if size > self._limits.header_bytes:
            raise RefusedError(
                431, "headers_too_large", f"headers have more than {self._limits.header_bytes} bytes"
            )
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if _name_of(host) not in self._hosts:
            raise RefusedError(
                421,
                "unknown_host",
                f"got Host {host!r}; expected a name of this service, or one in allowed_hosts",
            )
        if b"origin" in headers:
            self._check_origin(headers[b"origin"].decode("latin-1"), host)
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._limits.body_bytes:
            raise _too_large(self._limits.body_bytes)
        principal = self._principal(headers.get(b"authorization"), headers.get(b"x-api-key"))
        scope["principal"] = principal
        if scope["path"] in HEALTH:
            return
        address = (scope.get("client") or ("",))[0]
        if principal is not None:
            allowed = self._rate.take(principal.name)
        elif scope["path"].startswith(PAGE):  # files, the same for everyone: no guess at a key succeeds here
            allowed = self._rate.take(address)
        else:
            allowed = self._refused.take(address)
        if not allowed:
            raise RefusedError(429, "rate_limit", "too many requests; wait a second", {"retry-after": "1"})
        is_long = not length.isdigit() or int(length) > _LONG or b"transfer-encoding" in headers
        if is_long and principal is not None and self._held.is_spent(principal.name):
            raise RefusedError(429, "rate_limit", _HELD_UP, {"retry-after": "5"})
        if principal is None and scope["path"] not in PUBLIC and not scope["path"].startswith(PAGE):
            kind = headers.get(b"authorization", b"").partition(b" ")[0].lower()
            if kind == b"bearer" or b"x-api-key" in headers:
                raise RefusedError(
                    401,
                    "wrong_key",
                    "the API key that was sent is not known here: it is misspelt, or was removed; "
                    "list the keys with sigma-mem keys list, or make one with sigma-mem keys add",
                    {"www-authenticate": "Bearer"},
                )

    def _check_origin(self, origin: str, host: str) -> None:
        """A page of another site may not call: it could be any page that this machine's browser shows."""
        if origin not in self._origins and urlsplit(origin).netloc.lower() != host:
            raise RefusedError(
                403, "unknown_origin", f"got Origin {origin!r}; expected one in allowed_origins"
            )

    def _principal(self, authorization: bytes | None, api_key: bytes | None) -> Principal | None:
        """Whose key a request has: in Authorization, or in X-Api-Key as Anthropic's clients send it."""
        if self._open:
            return LOCAL
        kind, _, key = (authorization or b"").decode("latin-1").partition(" ")
        if authorization is None and api_key is not None:
            kind, key = "bearer", api_key.decode("latin-1")
        try:
            return self._keys.find(key.strip()) if kind.lower() == "bearer" else None
        except InputError as error:  # of the server's own file: nobody may, and the caller cannot mend it
            log_event("keys", error=str(error))
            raise RefusedError(503, "keys_unreadable", "the keys cannot be read; see the log") from error


class RateLimit:
    """Lets a caller through `rate` times a second, and twice that in a burst; 0 lets everyone through.

    >>> limit = RateLimit(1.0, clock=lambda: 0.0)
    >>> [limit.take("ann") for _ in range(3)], limit.take("bob")
    ([True, True, False], True)
    """

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate, self._clock = rate, clock
        self._burst = max(2.0 * rate, 1.0)
        self._left: dict[str, tuple[float, float]] = {}  # caller → tokens, when

    def take(self, caller: str, count: float = 1.0) -> bool:
        """Whether one more is allowed now; one that counts for several is followed by a longer pause."""
        if not self._rate:
            return True
        now = self._clock()
        tokens, then = self._left.get(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        if len(self._left) >= _MOST_CALLERS and caller not in self._left:
            self._left.clear()
        self._left[caller] = (tokens - count if tokens >= 1.0 or count > 1.0 else tokens, now)
        return tokens >= 1.0


class LoopTime:
    """For how long each caller may hold up the event loop, which serves everybody: a lone one for ever.

    >>> spent = LoopTime(clock=lambda: 0.0)
    >>> [(spent.took("ann", seconds), spent.is_spent("ann"))[1] for seconds in (0.001, 0.008, 0.02)]
    [False, False, False]
    >>> spent.took("bob", 0.001), spent.took("ann", 0.02), spent.is_spent("ann"), spent.is_spent("bob")
    (None, None, True, False)
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._left, self._clock = RateLimit(_HELD, clock), clock
        self._newest = self._other = "", -math.inf  # the last caller, the last one besides it, and when

    def took(self, caller: str | None, seconds: float) -> None:
        """Charge a caller for one step of the processor."""
        if caller is None:
            return
        now, ms = self._clock(), 1e3 * seconds
        if caller != self._newest[0]:
            self._other = self._newest
        self._newest = caller, now
        since = now - self._other[1]
        if ms > _LONG_STEP and since < _LONG_NEAR:
            self._left.take(caller, 10.0 * ms)
        elif ms > _STEP and since < _NEAR:
            self._left.take(caller, ms)

    def is_spent(self, caller: str | None) -> bool:
        """Whether a caller has to wait before the next long body."""
        return caller is not None and not self._left.take(caller, 0.0)


def allowed_hosts(config: ServerConfig) -> frozenset[str]:
    """Names under which the service answers: its own address, localhost, and what is allowed."""
    host = f"[{config.host}]" if ":" in config.host else config.host
    own = () if config.host in ("0.0.0.0", "::") else (host,)
    return frozenset(name.lower() for name in (*_LOOPBACK, *own, *config.allowed_hosts))


def _name_of(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.partition(":")[0]


def _too_large(limit: int) -> RefusedError:
    return RefusedError(413, "body_too_large", f"the body has more than {limit} bytes; send less at once")


class LimitedBody:
    """`receive`, until more arrived than a body may hold; a long one may be refused once it is whole."""

    def __init__(self, receive: Receive, limit: int, held: LoopTime, caller: str | None) -> None:
        self._receive, self._limit, self._held, self._caller = receive, limit, held, caller
        self._bytes = 0

    async def __call__(self) -> Message:
        """The next part of the body; refuses one that is too long, or comes too soon after others."""
        message = await self._receive()
        if message["type"] == "http.request":  # FastAPI lets only HTTPException pass while it reads a body
            self._bytes += len(message.get("body", b""))
            if self._bytes > self._limit:
                raise HTTPException(413, str(_too_large(self._limit)))
            if self._bytes > _LONG and not message.get("more_body", False):
                if self._held.is_spent(self._caller):
                    raise HTTPException(429, _HELD_UP, {"retry-after": "5"})
                self._held.took(self._caller, _READ * self._bytes)
        return message


@coroutine
def _timed(running: Awaitable[None], took: Callable[[float], None]) -> Generator[Any, Any, None]:
    """Await, and tell how long each step held up the event loop, in seconds of the processor."""
    steps: Any = running.__await__()
    step, value = steps.send, None
    while True:
        begun = time.thread_time()
        try:
            waits_for = step(value)
        except StopIteration:
            return
        finally:
            took(time.thread_time() - begun)
        try:
            value, step = (yield waits_for), steps.send
        except BaseException as error:
            value, step = error, steps.throw
