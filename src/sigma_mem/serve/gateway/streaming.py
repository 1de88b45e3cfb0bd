"""Streams to the client: chunks that pass through, and answers that are waited for."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from sigma_mem.errors import SigmaMemError, StoreError
from sigma_mem.events import Decision
from sigma_mem.serve.failures import error_body, refusal
from sigma_mem.serve.gateway.calls import Calls
from sigma_mem.serve.gateway.completion import as_chunks
from sigma_mem.serve.gateway.failure import UpstreamError
from sigma_mem.serve.gateway.reply import ChatReply, headers_of
from sigma_mem.serve.gateway.tool_loop import mark_calls
from sigma_mem.serve.gateway.turn import Turn
from sigma_mem.serve.gateway.upstream import ChunkStream

Body = dict[str, Any]

_DONE = b"data: [DONE]\n\n"
_COMMENT = b": the peers are being asked\n\n"  # clients and proxies see that the connection lives
_EVERY = 1.0  # seconds between comments


class EventResponse(StreamingResponse):
    """Server-sent events; whatever happens to the client, what they come from is closed."""

    def __init__(
        self, events: AsyncIterator[bytes], headers: Mapping[str, str], close: Callable[[], Awaitable[None]]
    ) -> None:
        unbuffered = {"x-accel-buffering": "no"}  # a proxy in between passes chunks on as they come
        super().__init__(events, headers={**headers, **unbuffered}, media_type="text/event-stream")
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, then close."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._close()


async def passing_chunks(turn: Turn, decision: Decision, stream: ChunkStream) -> Response:
    """A routed stream, once the decision is on disk; its cost is known only at its end."""
    peer = stream.peer.name
    try:
        await turn.settle(decision, peer)
    except BaseException:
        await stream.aclose()
        raise
    summary = turn.summary(decision, peer)

    async def charge() -> None:
        await turn.charge(decision, peer)

    events = _chunks(turn.calls, stream, {"id": turn.id, "model": peer}, summary, charge)
    return EventResponse(events, headers_of(summary, without="cost"), stream.aclose)


def untouched_chunks(calls: Calls, stream: ChunkStream) -> Response:
    """The stream of a peer that the client chose itself."""
    peer = stream.peer.name
    events = _chunks(calls, stream, {"model": peer})
    return EventResponse(events, headers_of({"peer": peer, "attempts": calls.attempts}), stream.aclose)


async def _chunks(
    calls: Calls,
    stream: ChunkStream,
    renamed: Body,
    summary: Body | None = None,
    charge: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[bytes]:
    """The upstream's chunks under our names; an error in the middle is an event too."""
    first = True
    try:
        async for chunk in stream:
            if chunk.get("usage"):
                calls.spent(stream.peer.name, chunk["usage"])
                if not chunk["choices"] and not calls.chat.wants_usage:
                    continue  # it was asked for by us
                if summary is not None and not chunk["choices"]:
                    chunk["sigma_mem"] = summary | {"cost": calls.cost}
            if summary is not None:
                mark_calls(chunk["choices"], renamed["id"])
                if first:
                    chunk["sigma_mem"] = summary
            first = False
            yield event_of({**chunk, **renamed})
    except UpstreamError as error:
        yield event_of(error_body(f"the answer broke off: {error}", "upstream_broke_off", 502))
        return
    if charge is not None and calls.costs:
        with suppress(StoreError):  # the answer is whole, and the ledger keeps the cost that was expected
            await charge()
    yield _DONE


async def chunks_when_there(answer: Coroutine[Any, Any, ChatReply], with_usage: bool) -> Response:
    """A whole answer as a stream: comments while it is waited for, then all of it.

    What goes wrong before the first comment has its own status; after it, it is an event.
    """
    task = asyncio.create_task(answer)

    async def stop() -> None:
        task.cancel()

    try:
        await asyncio.wait((task,), timeout=_EVERY)
    except asyncio.CancelledError:
        task.cancel()
        raise
    headers = task.result().headers if task.done() else {}
    return EventResponse(_awaited(task, with_usage), headers, stop)


async def _awaited(task: asyncio.Task[ChatReply], with_usage: bool) -> AsyncIterator[bytes]:
    while not task.done():
        yield _COMMENT
        await asyncio.wait((task,), timeout=_EVERY)
    try:
        completion = task.result().completion
    except SigmaMemError as error:
        yield event_of(refusal(error)[1])
        return
    for chunk in as_chunks(completion, with_usage):
        yield event_of(chunk)
    yield _DONE


def event_of(body: Mapping[str, Any]) -> bytes:
    """A JSON object as one event."""
    return b"data: " + json.dumps(body).encode() + b"\n\n"
