"""One upstream over HTTP: whole answers and streams, with a timeout, a size limit and a circuit.

Its address comes from the configuration only. Redirects are not followed, a client's headers are not
forwarded, and nothing that a request names (an image, a base URL) is fetched here.

The client is aiohttp: a call costs it a fifth of the processor time that httpx2 takes, and a gateway makes
one or more for every request.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from sigma_mem.serve.config import Upstream
from sigma_mem.serve.gateway.circuit import Circuit
from sigma_mem.serve.gateway.failure import UpstreamError
from sigma_mem.serve.gateway.parsing import decode_json
from sigma_mem.serve.gateway.server_events import EventParser
from sigma_mem.serve.tracing import model_span, note_usage

Body = dict[str, Any]

_LARGEST = 32 * 2**20  # bytes of one answer
_CONNECTS_WITHIN = 10.0  # seconds
_LIMIT_PAUSE = 5.0  # seconds after a 429 that does not say how long


class UpstreamPeer:
    """Calls one upstream and remembers whether it works.

    Parameters
    ----------
    upstream : Upstream
        Of the configuration; its key is read from the environment here, once.
    session : callable
        Gives the connections that all upstreams share.
    count : callable
        Is told the name, and how each call ended: "answered", "refused" (the request), "limited" (by its rate
        or by the deadline) or "failed".
    """

    def __init__(
        self,
        upstream: Upstream,
        session: Callable[[], aiohttp.ClientSession],
        count: Callable[[str, str], None],
    ) -> None:
        self.settings = upstream
        self.name = upstream.name
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

    async def post(self, path: str, body: Mapping[str, Any], expected: str, seconds: float) -> Body:
        """The JSON object that it answers with; UpstreamError where it does not, or not in time.

        Parameters
        ----------
        path : str
            Below the base URL: ``"chat/completions"``.
        body : mapping
            The client's request; the upstream's own model name is put in.
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
            self._check_status(response, raw)
            answer = _object(raw, expected, self.name, whole=True)
            note_usage(span, answer)
            return answer

    async def stream(self, path: str, body: Mapping[str, Any], seconds: float) -> "ChunkStream":
        """Its answer in chunks; returns once the first one is there."""
        with model_span(self.settings, path), _Watched(self, seconds):
            async with asyncio.timeout(min(seconds, self.settings.timeout)):
                response = await self._send(path, body)
                try:
                    if response.status != 200:
                        self._check_status(response, await _read(response, self.name))
                    if response.content_type != "text/event-stream":
                        raise UpstreamError(self.name, "sent no stream")
                    chunks = ChunkStream(self, response)
                    await chunks.read_first()
                except BaseException:
                    response.close()
                    raise
        return chunks

    async def _send(self, path: str, body: Mapping[str, Any]) -> aiohttp.ClientResponse:
        return await self._session().post(
            f"{self._base}/{path}",
            data=json.dumps({**body, "model": self.settings.model}).encode(),
            headers=self._headers,
            timeout=self._timeout,
            allow_redirects=False,
            proxy=self._proxy,
        )

    def _check_status(self, response: aiohttp.ClientResponse, raw: bytes) -> None:
        if response.status == 200:
            return
        error = UpstreamError.of_status(self.name, response.status, raw)
        if response.status == 429:
            error.pause = self.circuit.limited(_retry_after(response))
        raise error


class ChunkStream:
    """The chunks of a streamed answer; the first one is read before anything is promised to the client."""

    def __init__(self, peer: UpstreamPeer, response: aiohttp.ClientResponse) -> None:
        self.peer = peer
        self._response = response
        self._events = _events(response, peer.name)
        self._first: Body | None = None
        self._finished = False

    async def read_first(self) -> None:
        """Wait for the first chunk; UpstreamError where there is none."""
        self._first = await self._next()
        if self._first is None:
            raise UpstreamError(self.peer.name, "sent an empty stream")

    async def __aiter__(self) -> AsyncIterator[Body]:
        """Every chunk; UpstreamError where the stream is cut or stalls."""
        with _Watched(self.peer, math.inf):
            chunk = self._first
            while chunk is not None:
                yield chunk
                chunk = await self._next()
            if not self._finished:
                raise UpstreamError(self.peer.name, "cut the stream before the end")

    async def aclose(self) -> None:
        """Release the connection, for another call if everything was read; idempotent."""
        self._response.release()

    async def _next(self) -> Body | None:
        data = await anext(self._events, None)
        if data is None:
            return None
        if data.startswith("[DONE]"):
            self._finished = True
            return None
        chunk = _object(data, "choices", self.peer.name, whole=False)
        self._finished |= any(isinstance(c, dict) and c.get("finish_reason") for c in chunk["choices"])
        return chunk


async def _events(response: aiohttp.ClientResponse, name: str) -> AsyncIterator[str]:
    parser = EventParser()
    async for part in response.content.iter_any():
        try:
            found = parser.feed(part)
        except ValueError as error:
            raise UpstreamError(name, f"sent {error}") from None
        for data in found:
            yield data


class _Watched:
    """Tells the circuit how a call ended, and turns what went wrong into UpstreamError.

    A call that had less than half of the upstream's own timeout, because others before it took the rest, is
    not held against it.
    """

    def __init__(self, peer: UpstreamPeer, seconds: float) -> None:
        self._peer = peer
        self._had_time = seconds >= 0.5 * peer.settings.timeout

    def __enter__(self) -> None:
        self._peer.circuit.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        name = self._peer.name
        match error:
            case None:
                self._ended("answered")
            case UpstreamError():
                limited = "limited" if error.status == 429 else "failed"
                self._ended("refused" if error.is_refusal else limited)
            case TimeoutError():  # aiohttp's are among them
                self._ended("failed" if self._had_time else "limited")
                raise UpstreamError(name, "took too long") from error
            case aiohttp.ClientError() | OSError():
                self._ended("failed")
                raise UpstreamError(name, "could not be reached, or broke off") from error

    def _ended(self, outcome: str) -> None:
        if outcome in ("answered", "refused"):
            self._peer.circuit.succeeded()
        elif outcome == "failed":
            self._peer.circuit.failed()
        self._peer.count(self._peer.name, outcome)


async def _read(response: aiohttp.ClientResponse, name: str) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > _LARGEST:
            response.close()
            raise UpstreamError(name, f"sent an answer of more than {_LARGEST} bytes")
        parts.append(part)
    return b"".join(parts)


def _object(raw: bytes | str, expected: str, name: str, whole: bool) -> Body:
    """A JSON object with a list of that name, as every answer and chunk is; of a whole one, not empty."""
    try:
        found = decode_json(raw)
    except ValueError:
        raise UpstreamError(name, "sent what is no JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get(expected), list):
        raise UpstreamError(name, f"sent JSON without {expected}")
    if whole and not found[expected]:
        raise UpstreamError(name, f"sent no {expected}")
    return found


def _proxy_of(url: str) -> str | None:
    """The proxy that the environment names for an address ; aiohttp would ask again for each call."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _retry_after(response: aiohttp.ClientResponse) -> float:
    try:
        return float(response.headers.get("retry-after", _LIMIT_PAUSE))
    except ValueError:  # a date
        return _LIMIT_PAUSE
