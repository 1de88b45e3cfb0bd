"""How an answer reaches the client: as one body, event by event as it comes, or whole after a wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from sigma_mem.errors import SigmaMemError, StoreError
from sigma_mem.serve.failures import refusal
from sigma_mem.serve.gateway.calls import AnswerStream, Calls
from sigma_mem.serve.gateway.message import Body
from sigma_mem.serve.gateway.protocol import Request, Stamp
from sigma_mem.serve.gateway.upstream import UpstreamError
from sigma_mem.serve.gateway.wire import EventResponse

_COMMENT = b": the peers are being asked\n\n"  # clients and proxies see that the connection lives
_EVERY = 1.0  # seconds between comments


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole answer under our names, and the headers that go with it."""

    body: Body
    headers: Mapping[str, str]


def events_as_they_come(
    calls: Calls,
    stream: AnswerStream,
    headers: Mapping[str, str],
    stamp: Stamp,
    charge: Callable[[], Awaitable[None]] | None = None,
) -> Response:
    """A peer's stream, passed on."""
    events = _passed_on(calls, stream, stamp, charge)
    return EventResponse(events, headers, stream.aclose, calls.seconds_left() + _EVERY)


async def _passed_on(
    calls: Calls, stream: AnswerStream, stamp: Stamp, charge: Callable[[], Awaitable[None]] | None
) -> AsyncIterator[bytes]:
    """The peer's events under our names; an error in the middle is an event too."""
    request, protocol, summary = calls.request, calls.request.protocol, stamp.summary
    bare, said = replace(stamp, summary=None), stamp
    try:
        async for event in stream:
            if protocol.is_for_us(event, request):
                continue
            if said is bare and summary is not None and protocol.usage(event) is not None:
                said = replace(stamp, summary=summary | {"cost": calls.cost})
            yield protocol.event(protocol.stamped_event(event, said))
            said = bare
    except UpstreamError as error:
        failure = protocol.failure(f"the answer broke off: {error}", "upstream_broke_off", 502)
        yield protocol.event(failure)
        return
    if charge is not None and calls.costs:
        with suppress(StoreError):  # the answer is whole, and the ledger keeps the cost that was expected
            await charge()
    yield protocol.last


async def events_when_there(answer: Coroutine[Any, Any, Whole], calls: Calls) -> Response:
    """A whole answer as a stream: comments while it is waited for, then all of it.

    A failure before the first comment has its own status; after it, it is an event.
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
    return EventResponse(_awaited(task, calls.request), headers, stop, calls.seconds_left() + _EVERY)


async def _awaited(task: asyncio.Task[Whole], request: Request) -> AsyncIterator[bytes]:
    protocol = request.protocol
    while not task.done():
        yield _COMMENT
        await asyncio.wait((task,), timeout=_EVERY)
    try:
        body = task.result().body
    except SigmaMemError as error:
        status, found, _ = refusal(error)
        yield protocol.event(protocol.failure(str(error), found["error"]["code"], status))
        return
    for event in protocol.events(body):
        if not protocol.is_for_us(event, request):
            yield protocol.event(event)
    yield protocol.last
