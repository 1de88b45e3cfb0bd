"""In front of every route: Host and Origin, sizes and rates, who calls, and what is said of each request."""

import re
import secrets
import time
from collections.abc import Callable
from itertools import count
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.failures import RefusedError, error_response, refusal
from sigma_mem.serve.keys import LOCAL, KeyRing, Principal
from sigma_mem.serve.logs import log_event
from sigma_mem.serve.metrics import Metrics

_MOST_CALLERS = 10_000  # whose rates are remembered; beyond that all are forgotten at once
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
PAGE = "/dashboard/"
HEALTH = frozenset(("/healthz", "/readyz"))  # no load or rate may stop these: they say if the process lives
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_OF_EVERY_RESPONSE = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class Guard:
    """The outermost application: refuses what no route should see, and finds out who calls.

    Parameters
    ----------
    app : ASGI application
        What it guards.
    config : ServerConfig
    keys : KeyRing
    metrics : Metrics
        Where requests are counted.
    """

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
        self._request_id = _RequestIds()
        self._rate = RateLimit(config.limits.rate, clock)
        self._refused = RateLimit(config.limits.refused_rate, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets here
            return
        body = _LimitedBody(receive, self._limits.body_bytes)
        request_id, begun, status = self._request_id(scope), self._clock(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                there = dict(headers)
                headers += [pair for pair in _OF_EVERY_RESPONSE if pair[0] not in there]
                headers.append((b"x-request-id", request_id.encode()))
            await send(message)

        self._metrics.running += 1
        try:
            if scope["path"] not in HEALTH:
                self._check_load()
            self._check(scope)
            await self._app(scope, body, answer)
        except SigmaMemError as error:
            if status:
                raise
            code, content, more = refusal(error)
            await error_response(scope["path"], code, content, more)(scope, receive, answer)
        finally:
            self._metrics.running -= 1
            self._report(scope, status or 500, self._clock() - begun, request_id)

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

    def _check_load(self) -> None:
        if self._metrics.running > self._limits.concurrency:
            wait = {"retry-after": "1"}
            raise RefusedError(503, "overloaded", "too many requests at once; try again", wait)

    def _check(self, scope: Scope) -> None:
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

    def take(self, caller: str) -> bool:
        """Whether one more is allowed now."""
        if not self._rate:
            return True
        now = self._clock()
        tokens, then = self._left.get(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        if len(self._left) >= _MOST_CALLERS and caller not in self._left:
            self._left.clear()
        self._left[caller] = (tokens - 1.0 if tokens >= 1.0 else tokens, now)
        return tokens >= 1.0


class _RequestIds:
    """Ids of requests: the caller's own where it is harmless, else one that no other request has."""

    def __init__(self) -> None:
        self._boot, self._count = secrets.token_hex(5), count(1)  # to ask for chance every time costs more

    def __call__(self, scope: Scope) -> str:
        for name, value in scope["headers"]:
            if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                return str(value.decode())
        return f"{self._boot}-{next(self._count):x}"


def allowed_hosts(config: ServerConfig) -> frozenset[str]:
    """Names under which the service answers: its own address, localhost, and what is allowed."""
    own = () if config.host in ("0.0.0.0", "::") else (_bracketed(config.host),)
    return frozenset(name.lower() for name in (*_LOOPBACK, *own, *config.allowed_hosts))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _name_of(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.partition(":")[0]


def _too_large(limit: int) -> RefusedError:
    return RefusedError(413, "body_too_large", f"the body has more than {limit} bytes; send less at once")


class _LimitedBody:
    """`receive`, until more arrived than a body may hold."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._left, self._limit = receive, limit, limit

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:  # FastAPI lets only this kind of error pass while it reads a body
                raise HTTPException(413, str(_too_large(self._limit)))
        return message
