"""Calling upstreams over HTTP: whole answers and streams, with timeouts, a size limit and a circuit for each.

Addresses come from the configuration only. Redirects are not followed, a client's headers are not forwarded,
and nothing that a request names (an image, a base URL) is fetched here.

The client is aiohttp: a call costs it a fifth of the processor time that httpx2 takes, and a gateway makes
one or more for every request.
"""

import asyncio
import errno
import math
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from sigma_mem.errors import SigmaMemError
from sigma_mem.serve.config import Upstream, is_no_servers
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway.accounting import Circuit, price_of, summed_usage
from sigma_mem.serve.gateway.protocol import Body, ChatRequest, decode_json
from sigma_mem.serve.tracing import model_span, note_usage

_CHAT = "chat/completions"
_LARGEST = 32 * 2**20  # bytes of one answer
_LARGEST_EVENT = 4 * 2**20
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
    body : mapping, optional
        The error it sent, if it refused the request.
    pause : float, optional
        Seconds that it asked to be left alone, if it limits its rate.
    """

    def __init__(self, peer: str, reason: str, status: int | None = None, body: Body | None = None) -> None:
        super().__init__(f"{peer} {reason}")
        self.peer, self.reason, self.status, self.body = peer, reason, status, body
        self.pause: float | None = None

    @classmethod
    def of_status(cls, peer: str, status: int, raw: bytes) -> Self:
        """The error for a response that is not 200; the body is kept if the request was refused."""
        return cls(peer, f"answered {status}", status, _error_in(raw) if status in _REFUSALS else None)

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
            message = (self.body or {}).get("message") or self.reason
            return RefusedError(self.status, "refused_by_upstream", f"{self.peer}: {message}")
        return RefusedError(502, "no_upstream_answered", f"no upstream answered: {self}")


def _error_in(raw: bytes) -> Body:
    """OpenAI's error object; other servers' errors become its message."""
    try:
        found = decode_json(raw)
    except ValueError:
        found = None
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return {key: error.get(key) for key in ("message", "type", "param", "code")}
    detail = error if isinstance(error, str) else found.get("detail") if isinstance(found, dict) else None
    message = detail if isinstance(detail, str) else "the upstream refused the request"
    return {"message": message, "type": "invalid_request_error", "param": None, "code": None}


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
        self._headers = {"content-type": "application/json"}
        if key := upstream.key():
            self._headers["authorization"] = f"Bearer {key}"
        seconds = upstream.timeout
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=min(seconds, _CONNECTS_WITHIN), sock_read=seconds
        )

    async def post(self, path: str, body: bytes, expected: str, seconds: float) -> Body:
        """The JSON object that it answers with; UpstreamError if it does not, or not in time.

        Parameters
        ----------
        path : str
            Below the base URL: ``"chat/completions"``.
        body : bytes
            JSON, with the upstream's own name of the model.
        expected : str
            The list that an answer must have: ``"choices"``, ``"data"``.
        seconds : float
            What is left of the whole request's time; the upstream's own timeout may be shorter.
        """
        with model_span(self.settings, path) as span, _Watched(self, seconds):
            async with asyncio.timeout(min(seconds, self.settings.timeout)):
                response = await self._send(path, body)
                try:
                    raw = await _read(response, self.name)
                finally:
                    response.release()
            if response.status != 200:
                raise self._failure(response, raw)
            answer = _object(raw, expected, self.name)
            if not answer[expected]:
                raise UpstreamError(self.name, f"sent no {expected}")
            note_usage(span, answer)
            return answer

    async def stream(self, path: str, body: bytes, seconds: float) -> "ChunkStream":
        """Its answer in chunks; returns once the first one is there."""
        with model_span(self.settings, path), _Watched(self, seconds):
            async with asyncio.timeout(min(seconds, self.settings.timeout)):
                response = await self._send(path, body)
                try:
                    if response.status != 200:
                        raise self._failure(response, await _read(response, self.name))
                    if response.content_type != "text/event-stream":
                        raise UpstreamError(self.name, "sent no stream")
                    chunks = ChunkStream(self, response)
                    await chunks.read_first()
                except BaseException:
                    response.close()
                    raise
        return chunks

    async def _send(self, path: str, body: bytes) -> aiohttp.ClientResponse:
        return await self._session().post(
            f"{self._base}/{path}",
            data=body,
            headers=self._headers,
            timeout=self._timeout,
            allow_redirects=False,
            proxy=self._proxy,
        )

    def _failure(self, response: aiohttp.ClientResponse, raw: bytes) -> UpstreamError:
        error = UpstreamError.of_status(self.name, response.status, raw)
        if response.status == 429:
            try:
                pause = float(response.headers.get("retry-after", _LIMIT_PAUSE))
            except ValueError:  # a date
                pause = _LIMIT_PAUSE
            error.pause = self.circuit.limited(pause)
        return error


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


def _object(raw: bytes | str, expected: str, name: str) -> Body:
    """A JSON object with a list of that name, as every answer and chunk is."""
    try:
        found = decode_json(raw)
    except ValueError:
        raise UpstreamError(name, "sent what is no JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get(expected), list):
        raise UpstreamError(name, f"sent JSON without {expected}")
    return found


def _proxy_of(url: str) -> str | None:
    """The proxy that the environment names for an address; aiohttp would look it up for each call."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


class ChunkStream:
    """The chunks of a streamed answer; the first one is read before anything is promised to the client."""

    def __init__(self, peer: UpstreamPeer, response: aiohttp.ClientResponse) -> None:
        self.peer = peer
        self._response = response
        self._chunks = self._read()
        self._first: Body | None = None

    async def read_first(self) -> None:
        """Wait for the first chunk; UpstreamError if there is none."""
        self._first = await anext(self._chunks, None)
        if self._first is None:
            raise UpstreamError(self.peer.name, "sent an empty stream")

    async def __aiter__(self) -> AsyncIterator[Body]:
        """Every chunk; UpstreamError if the stream is cut or stalls."""
        with _Watched(self.peer, math.inf):
            if self._first is not None:
                yield self._first
            async for chunk in self._chunks:
                yield chunk

    async def aclose(self) -> None:
        """Release the connection, for another call if everything was read; idempotent."""
        self._response.release()

    async def _read(self) -> AsyncIterator[Body]:
        parser, name, finished = EventParser(), self.peer.name, False
        async for part in self._response.content.iter_any():
            try:
                events = parser.feed(part)
            except ValueError as error:
                raise UpstreamError(name, f"sent {error}") from None
            for data in events:
                if data.startswith("[DONE]"):
                    return
                chunk = _object(data, "choices", name)
                finished |= any(isinstance(c, dict) and c.get("finish_reason") for c in chunk["choices"])
                yield chunk
        if not finished:
            raise UpstreamError(name, "cut the stream before the end")


class EventParser:
    r"""Cuts bytes into the data of server-sent events; comments and other fields are left out.

    Examples
    --------
    >>> parser = EventParser()
    >>> parser.feed(b": hello\ndata: 1\n\ndata: 2\r\n")
    ['1']
    >>> parser.feed(b"data:3\r\n\r\n")
    ['2\n3']
    """

    def __init__(self) -> None:
        self._rest = b""  # a line that has not ended
        self._data: list[str] = []
        self._size = 0

    def feed(self, part: bytes) -> list[str]:
        """The data of events that end in this part; ValueError for an event that has grown too large."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        found = []
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._size += len(line)
                self._data.append(line[5:].removeprefix(b" ").decode("utf-8", "replace"))
            elif not line and self._data:
                found.append("\n".join(self._data))
                self._data, self._size = [], 0
        if self._size + len(self._rest) > _LARGEST_EVENT:
            raise ValueError(f"an event of more than {_LARGEST_EVENT} bytes")
        return found


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


class Calls:
    """The calls made for one chat request: how long they may take, whom they asked, and what that cost.

    Attributes
    ----------
    attempts : int
        How many were made.
    failures : mapping by peer
        What went wrong with those that gave no answer.
    costs : mapping by peer
        Of the answers of upstreams that have a price.
    """

    def __init__(self, chat: ChatRequest, pool: Pool, deadline: float) -> None:
        self.chat, self.pool = chat, pool
        self.attempts = 0
        self.failures: dict[str, UpstreamError] = {}
        self.costs: dict[str, float] = {}
        self._usages: list[object] = []
        self._clock = asyncio.get_running_loop().time
        self._ends = self._clock() + deadline

    def seconds_left(self) -> float:
        """Until the deadline."""
        return max(0.0, self._ends - self._clock())

    async def complete(self, name: str) -> Body:
        """A peer's whole answer."""
        peer = self.pool.peers[name]
        self.attempts += 1
        try:
            body = self.chat.whole(peer.settings.model)
            completion = await peer.post(_CHAT, body, "choices", self.seconds_left())
        except UpstreamError as error:
            self.failures[name] = error
            raise
        self.spent(peer, completion.get("usage"))
        return completion

    async def stream(self, name: str) -> ChunkStream:
        """A peer's answer in chunks, once the first one is there."""
        peer = self.pool.peers[name]
        self.attempts += 1
        try:  # what it costs is in the last chunk
            body = self.chat.streamed(peer.settings.model, with_usage=peer.has_price)
            return await peer.stream(_CHAT, body, self.seconds_left())
        except UpstreamError as error:
            self.failures[name] = error
            raise

    def spent(self, peer: UpstreamPeer, usage: object) -> None:
        """A peer reported its usage."""
        self._usages.append(usage)
        if usage is not None and peer.has_price:
            self.costs[peer.name] = price_of(peer.settings, usage)

    @property
    def cost(self) -> float:
        """Of all answers, at the prices of the configuration."""
        return math.fsum(self.costs.values())

    def usage(self) -> Body | None:
        """What all upstreams used together."""
        return summed_usage(self._usages)

    def nobody(self) -> RefusedError:
        """The response if nobody answered: 502, or the first refusal if all refused the request itself."""
        errors = list(self.failures.values())
        if errors and all(error.is_refusal for error in errors):
            return errors[0].refused()
        said = "; ".join(map(str, errors)) or "there was no time to ask anyone"
        return RefusedError(502, "no_upstream_answered", f"no upstream answered: {said}")
