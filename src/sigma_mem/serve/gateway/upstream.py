"""One upstream over HTTP: whole answers and streams, with a timeout, a size limit and a circuit.

Its address comes from the configuration only. Redirects are not followed, a client's headers are not
forwarded, and nothing that a request names (an image, a base URL) is fetched here.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import httpx2

from sigma_mem.serve.config import Upstream
from sigma_mem.serve.gateway.circuit import Circuit
from sigma_mem.serve.gateway.failure import UpstreamError
from sigma_mem.serve.gateway.parsing import parse_json

Body = dict[str, Any]

_LARGEST = 32 * 2**20  # bytes of one answer
_LARGEST_EVENT = 4 * 2**20  # bytes of one event of a stream
_LIMIT_PAUSE = 5.0  # seconds after a 429 that does not say how long


def open_http_client() -> httpx2.AsyncClient:
    """The connections of all upstreams."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=256, keepalive_expiry=30.0)
    return httpx2.AsyncClient(limits=limits, follow_redirects=False)


class UpstreamPeer:
    """Calls one upstream and remembers whether it works.

    Parameters
    ----------
    upstream : Upstream
        Of the configuration; its key is read from the environment here, once.
    client : AsyncClient
        Shared connections.
    """

    def __init__(self, upstream: Upstream, client: httpx2.AsyncClient) -> None:
        self.settings = upstream
        self.name = upstream.name
        self.circuit = Circuit()
        self._client = client
        self._base = upstream.base_url.rstrip("/")
        self._headers = {"content-type": "application/json", "accept": "application/json"}
        if key := upstream.key():
            self._headers["authorization"] = f"Bearer {key}"

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
        with _Watched(self, seconds):
            async with asyncio.timeout(min(seconds, self.settings.timeout)):
                response = await self._send(path, body, stream=False)
                try:
                    raw = await _read(response)
                finally:
                    await response.aclose()
            self._check_status(response, raw)
            return _object(raw, expected, self.name)

    async def stream(self, path: str, body: Mapping[str, Any], seconds: float) -> "ChunkStream":
        """Its answer in chunks; returns once the first one is there."""
        with _Watched(self, seconds):
            async with asyncio.timeout(min(seconds, self.settings.timeout)):
                response = await self._send(path, body, stream=True)
                try:
                    if response.status_code != 200:
                        self._check_status(response, await _read(response))
                    chunks = ChunkStream(self, response)
                    await chunks.read_first()
                except BaseException:
                    await response.aclose()
                    raise
        return chunks

    async def _send(self, path: str, body: Mapping[str, Any], stream: bool) -> httpx2.Response:
        content = json.dumps({**body, "model": self.settings.model}).encode()
        headers = self._headers | {"accept": "text/event-stream"} if stream else self._headers
        request = self._client.build_request(
            "POST", f"{self._base}/{path}", content=content, headers=headers, timeout=self.settings.timeout
        )
        return await self._client.send(request, stream=True)

    def _check_status(self, response: httpx2.Response, raw: bytes) -> None:
        if response.status_code == 200:
            return
        if response.status_code == 429:
            self.circuit.limited(_retry_after(response))
        raise UpstreamError.of_status(self.name, response.status_code, raw)


class ChunkStream:
    """The chunks of a streamed answer; the first one is read before anything is promised to the client."""

    def __init__(self, peer: UpstreamPeer, response: httpx2.Response) -> None:
        self.peer = peer
        self._response = response
        self._events = aiter(httpx2.EventSource(response, max_event_size=_LARGEST_EVENT))
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
        """Release the connection; idempotent."""
        await self._response.aclose()

    async def _next(self) -> Body | None:
        event = await anext(self._events, None)
        if event is None:
            return None
        if event.data.startswith("[DONE]"):
            self._finished = True
            return None
        chunk = _object(event.data, "choices", self.peer.name)
        self._finished |= any(isinstance(c, dict) and c.get("finish_reason") for c in chunk["choices"])
        return chunk


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
        circuit, name = self._peer.circuit, self._peer.name
        match error:
            case None:
                circuit.succeeded()
            case UpstreamError():
                if error.is_refusal:
                    circuit.succeeded()
                elif error.status != 429:
                    circuit.failed()
            case TimeoutError() | httpx2.TimeoutException():
                if self._had_time:
                    circuit.failed()
                raise UpstreamError(name, "took too long") from error
            case httpx2.HTTPError() | httpx2.InvalidURL() | httpx2.StreamError():
                circuit.failed()
                raise UpstreamError(
                    name, f"could not be reached or broke off ({type(error).__name__})"
                ) from error


async def _read(response: httpx2.Response) -> bytes:
    parts, size = [], 0
    async with aclosing(response.aiter_bytes()) as chunks:
        async for part in chunks:
            size += len(part)
            if size > _LARGEST:
                raise httpx2.DecodingError(f"an answer of more than {_LARGEST} bytes")
            parts.append(part)
    return b"".join(parts)


def _object(raw: bytes | str, expected: str, name: str) -> Body:
    """A JSON object with a list of that name, as every answer and chunk is."""
    try:
        found = parse_json(raw)
    except ValueError:
        raise UpstreamError(name, "sent what is no JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get(expected), list):
        raise UpstreamError(name, f"sent JSON without {expected}")
    return found


def _retry_after(response: httpx2.Response) -> float:
    try:
        return float(response.headers.get("retry-after", _LIMIT_PAUSE))
    except ValueError:  # a date
        return _LIMIT_PAUSE
