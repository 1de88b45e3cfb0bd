"""Calling upstreams over HTTP: whole answers and streams, with timeouts, a size limit and a circuit for each.

What an upstream says of a failure stays here. What it says of a request that it refuses is passed on, unless
it quotes keys, addresses or headers.

Addresses come from the configuration only. Redirects are not followed, a client's headers are not forwarded,
and nothing that a request names (an image, a base URL) is fetched here.

The client is aiohttp: a call costs it a fifth of the processor time that httpx2 takes, and a gateway makes
one or more for every request.
"""

import asyncio
import errno
import math
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from sigma_mem.errors import SigmaMemError
from sigma_mem.serve.config import Upstream, is_no_servers
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway.accounting import Circuit
from sigma_mem.serve.gateway.message import Body, mapping
from sigma_mem.serve.gateway.protocol import Protocol
from sigma_mem.serve.gateway.wire import EventParser, clean_unicode, decode_json, encode_json
from sigma_mem.serve.tracing import model_span, note_usage

_LARGEST = 32 * 2**20  # bytes of one answer
_LONGEST_WORDS = 500  # characters of what an upstream says of a refusal
_QUOTES = re.compile(
    r"authorization|bearer|api[-_ ]?key|cookie|://", re.IGNORECASE
)  # of our headers, or a URL
_CONNECTS_WITHIN = 10.0  # seconds
_LIMIT_PAUSE = 5.0  # seconds after a 429 that does not say how long
_REFUSALS = (400, 413, 415, 422)  # about the request; every other status is about the upstream or its key


class UpstreamError(SigmaMemError):
    """An upstream gave no answer. This says nothing about whether its answers are right.

    Attributes
    ----------
    peer : str
    reason : str
        A short text without addresses or keys, which a client may see.
    status : int, optional
        The status of its response.
    said : str
        Its own words, if it refused the request and they hold nothing of ours.
    pause : float, optional
        Seconds that it asked to be left alone, if it limits its rate.
    """

    def __init__(self, peer: str, reason: str, status: int | None = None, said: str = "") -> None:
        super().__init__(f"{peer} {reason}")
        self.peer, self.reason, self.status, self.said = peer, reason, status, said
        self.pause: float | None = None

    @property
    def is_refusal(self) -> bool:
        """Whether the upstream works and did not accept the request: too long, an image, an unknown field."""
        return self.status in _REFUSALS

    def refused(self) -> RefusedError:
        """The response if the upstream that a request names gave no answer.

        Its own words if it refused the request, 429 if it limits its rate, else 502.
        """
        if self.pause is not None:
            wait = {"retry-after": str(math.ceil(self.pause))}
            return RefusedError(429, "limited_by_upstream", f"{self.peer} limits its rate; try later", wait)
        if self.is_refusal and self.status is not None:
            return RefusedError(
                self.status, "refused_by_upstream", f"{self.peer}: {self.said or self.reason}"
            )
        return RefusedError(502, "no_upstream_answered", f"no upstream answered: {self}")


def words_in(raw: bytes, secrets: Iterable[str]) -> str:
    """The message of an error's body, in one short line; empty if it may quote what we sent along.

    >>> words_in(b'{"error": {"message": "too long"}}', ["sk-1"])
    'too long'
    >>> words_in(b'{"detail": "got x-api-key: 1"}', []) + words_in(b'{"error": "bad sk-1"}', ["sk-1"])
    ''
    """
    try:
        found = decode_json(raw)
    except ValueError:
        return ""
    error = found.get("error") if isinstance(found, dict) else None
    said = error.get("message") if isinstance(error, dict) else error or mapping(found).get("detail")
    if not isinstance(said, str) or _QUOTES.search(said) or any(secret in said for secret in secrets):
        return ""
    return clean_unicode(" ".join(said.split())[:_LONGEST_WORDS])


class UpstreamPeer:
    """Calls one upstream and remembers whether it works.

    Parameters
    ----------
    upstream : Upstream
        Of the configuration; its key is read from the environment here, once.
    session : callable
        Gives the connections that all upstreams share.
    count : callable
        Gets the name, and how each call ended: "answered", "refused" (the request), "limited" (by its rate
        or by the deadline) or "failed".
    """

    def __init__(
        self,
        upstream: Upstream,
        session: Callable[[], aiohttp.ClientSession],
        count: Callable[[str, str], None],
    ) -> None:
        self.settings, self.name, self.has_price = upstream, upstream.name, upstream.has_price
        self.circuit = Circuit()
        self.count = count
        self._session = session
        self._base = upstream.base_url.rstrip("/")
        self._proxy = _proxy_of(upstream.base_url)
        self._key = upstream.key()
        self._secrets = [secret for secret in (self._key, urlsplit(upstream.base_url).netloc) if secret]
        seconds = upstream.timeout
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=min(seconds, _CONNECTS_WITHIN), sock_read=seconds
        )

    async def post(self, path: str, sent: "Sent", check: Callable[[Body], None], seconds: float) -> Body:
        """The JSON object that it answers with; UpstreamError if it does not, or not in time.

        Parameters
        ----------
        path : str
            Below the base URL: ``"chat/completions"``.
        sent : Sent
        check : callable
            Raises ValueError for an object that is no answer.
        seconds : float
            What is left of the whole request's time; the upstream's own timeout may be shorter.
        """
        with model_span(self.settings, path) as span, _Watched(self, seconds):
            async with asyncio.timeout(min(seconds, self.settings.timeout)):
                response = await self._send(path, sent)
                try:
                    raw = await _read(response, self.name)
                finally:
                    response.release()
            if response.status != 200:
                raise self._failure(response, raw)
            answer = _object(raw, check, self.name)
            note_usage(span, answer)
            return answer

    async def stream(self, sent: "Sent", ends: float) -> "EventStream":
        """Its answer in events, until the event loop's clock says `ends`; returns once the first is there."""
        path, seconds = sent.protocol.path, ends - asyncio.get_running_loop().time()
        with model_span(self.settings, path), _Watched(self, seconds):
            async with asyncio.timeout(min(seconds, self.settings.timeout)):
                response = await self._send(path, sent)
                try:
                    if response.status != 200:
                        raise self._failure(response, await _read(response, self.name))
                    if response.content_type != "text/event-stream":
                        raise UpstreamError(self.name, "sent no stream")
                    events = EventStream(self, response, sent.protocol, ends)
                    await events.read_first()
                except BaseException:
                    response.close()
                    raise
        return events

    async def _send(self, path: str, sent: "Sent") -> aiohttp.ClientResponse:
        headers = {"content-type": "application/json"}
        headers |= {header: value for header, value in sent.headers.items() if value}
        if self._key is not None:
            name = self.settings.key_header or sent.protocol.key_header
            headers[name] = f"Bearer {self._key}" if name == "authorization" else self._key
        return await self._session().post(
            f"{self._base}/{path}",
            data=encode_json(sent.body),
            headers=headers,
            timeout=self._timeout,
            allow_redirects=False,
            proxy=self._proxy,
        )

    def _failure(self, response: aiohttp.ClientResponse, raw: bytes) -> UpstreamError:
        status = response.status
        said = words_in(raw, self._secrets) if status in _REFUSALS else ""
        error = UpstreamError(self.name, f"answered {status}", status, said)
        if status == 429:
            try:
                pause = float(response.headers.get("retry-after", _LIMIT_PAUSE))
            except ValueError:  # a date
                pause = _LIMIT_PAUSE
            error.pause = self.circuit.limited(pause)
        return error


@dataclass(frozen=True, slots=True)
class Sent:
    """What one upstream is sent, in the protocol that it speaks."""

    protocol: Protocol
    body: Body
    headers: Mapping[str, str]


class _Watched:
    """Reports to the circuit how a call ended, and turns what went wrong into UpstreamError.

    A call that had less than half of the upstream's own timeout, because others before it took the rest, is
    not held against it.
    """

    def __init__(self, peer: UpstreamPeer, seconds: float) -> None:
        self._peer = peer
        self._had_time = seconds >= 0.5 * peer.settings.timeout

    def __enter__(self) -> None:
        self._peer.circuit.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        failure = None
        match error:
            case None:
                outcome = "answered"
            case UpstreamError():
                outcome = "refused" if error.is_refusal else "limited" if error.status == 429 else "failed"
            case TimeoutError():  # aiohttp's are among them
                outcome, failure = "failed" if self._had_time else "limited", "took too long"
            case aiohttp.ClientError() | OSError():
                outcome, failure = "failed", "could not be reached, or broke off"
            case _:
                return
        if outcome in ("answered", "refused"):
            self._peer.circuit.succeeded()
        elif outcome == "failed":
            self._peer.circuit.failed()
        self._peer.count(self._peer.name, outcome)
        if failure is not None:
            raise UpstreamError(self._peer.name, failure) from error


async def _read(response: aiohttp.ClientResponse, name: str) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > _LARGEST:
            response.close()
            raise UpstreamError(name, f"sent an answer of more than {_LARGEST} bytes")
        parts.append(part)
    return b"".join(parts)


def _object(raw: bytes | str, check: Callable[[Body], object], name: str) -> Body:
    """A JSON object that passes a check, as every answer and event is."""
    try:
        found = decode_json(raw)
    except ValueError:
        raise UpstreamError(name, "sent what is no JSON") from None
    try:
        check(body := mapping(found))
    except ValueError as error:
        raise UpstreamError(name, f"sent {error}") from None
    return body


def _proxy_of(url: str) -> str | None:
    """The proxy that the environment names for an address; aiohttp would look it up for each call."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


class EventStream:
    """The events of a streamed answer; the first one is read before anything is promised to the client."""

    def __init__(
        self, peer: UpstreamPeer, response: aiohttp.ClientResponse, protocol: Protocol, ends: float
    ) -> None:
        self.peer = peer
        self._response, self._protocol, self._ends = response, protocol, ends
        self._events = self._read()
        self._first: Body | None = None

    async def read_first(self) -> None:
        """Wait for the first event; UpstreamError if there is none."""
        self._first = await anext(self._events, None)
        if self._first is None:
            raise UpstreamError(self.peer.name, "sent an empty stream")

    async def __aiter__(self) -> AsyncIterator[Body]:
        """Every event; UpstreamError if the stream is cut, stalls, or goes on after its time."""
        with _Watched(self.peer, math.inf):
            event = self._first
            while event is not None:
                yield event
                async with asyncio.timeout_at(self._ends):
                    event = await anext(self._events, None)

    async def aclose(self) -> None:
        """Release the connection, for another call if everything was read; idempotent."""
        self._response.release()

    async def _read(self) -> AsyncIterator[Body]:
        parser, name, finished = EventParser(), self.peer.name, False

        def check(event: Body) -> None:
            nonlocal finished
            finished |= self._protocol.is_last(event)

        async for part in self._response.content.iter_any():
            try:
                events = parser.feed(part)
            except ValueError as error:
                raise UpstreamError(name, f"sent {error}") from None
            for data in events:
                if data.startswith("[DONE]"):
                    return
                yield _object(data, check, name)
        if not finished:
            raise UpstreamError(name, "cut the stream before the end")


class Pool:
    """Every configured upstream, by name, and the connections that they share.

    Parameters
    ----------
    upstreams : iterable of Upstream
    count : callable
        Gets an upstream's name and how a call ended.

    Attributes
    ----------
    peers : mapping by name
        In the order of the configuration.
    """

    def __init__(self, upstreams: Iterable[Upstream], count: Callable[[str, str], None]) -> None:
        self._opened: aiohttp.ClientSession | None = None
        self.peers = {each.name: UpstreamPeer(each, self._session, count) for each in upstreams}

    def usable(self, names: list[str]) -> list[str]:
        """Those whose circuit is closed; all, if no circuit is: a last try is better than none."""
        return [name for name in names if self.peers[name].circuit.is_closed()] or names

    async def close(self) -> None:
        """Close all connections."""
        if self._opened is not None:
            await self._opened.close()

    def _session(self) -> aiohttp.ClientSession:
        """Opened with the first call, since it belongs to the event loop that runs then."""
        if self._opened is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0, socket_factory=_socket)
            # No cookies are kept: they would carry one client's session to another.
            self._opened = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._opened


def _socket(info: aiohttp.AddrInfoType) -> socket.socket:
    """A socket for an address that a name led to; OSError for an address that no server has."""
    family, kind, protocol, _, address = info
    if is_no_servers(str(address[0])):
        raise OSError(errno.EACCES, f"{address[0]} is a link-local, multicast or empty address")
    return socket.socket(family, kind, protocol)
