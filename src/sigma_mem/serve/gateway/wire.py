"""JSON and server-sent events, as bytes: what is read from upstreams, and what is sent to clients."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

_LARGEST_EVENT = 4 * 2**20  # bytes


def decode_json(raw: bytes | str) -> object:
    """The value of a JSON text; ValueError for anything else, NaN and infinities included.

    >>> decode_json(b'{"a": 1}')
    {'a': 1}
    """
    try:
        return from_json(raw, allow_inf_nan=False)  # a tenth of json's time for small texts
    except ValueError:  # not JSON; or UTF-16, or lone surrogates, which only json reads
        text = raw if isinstance(raw, str) else raw.decode(json.detect_encoding(raw), "surrogatepass")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def encode_json(value: object) -> bytes:
    """A JSON value as bytes; lone surrogates, which UTF-8 does not have, are escaped."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        return json.dumps(value).encode()


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def clean_unicode(text: str) -> str:
    """The text with a question mark for every lone surrogate, which JSON can carry and no encoder takes."""
    return text.encode("utf-8", "replace").decode()


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


def json_response(body: object, headers: Mapping[str, str]) -> Response:
    """A JSON body."""
    return Response(encode_json(body), headers=dict(headers), media_type="application/json")


class EventResponse(StreamingResponse):
    """Server-sent events; whatever happens to the client, their origin is closed.

    A client that has not read all of them some seconds after the start is left.
    """

    def __init__(
        self,
        events: AsyncIterator[bytes],
        headers: Mapping[str, str],
        close: Callable[[], Awaitable[None]],
        seconds: float,
    ) -> None:
        unbuffered = {"x-accel-buffering": "no"}  # a proxy in between passes chunks on as they come
        super().__init__(events, headers={**headers, **unbuffered}, media_type="text/event-stream")
        self._close, self._seconds = close, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, then close."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await super().__call__(scope, receive, send)
        finally:
            await self._close()


def event_bytes(body: Mapping[str, Any], name: str = "") -> bytes:
    """A JSON object as one event, with the event's name if it has one."""
    head = b"event: %b\n" % name.encode() if name else b""
    return b"%bdata: %b\n\n" % (head, encode_json(body))
