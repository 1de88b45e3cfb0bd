"""One request on its way: the calls made for it, how the answer arrives, and the decision behind it."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from sigma_mem.errors import SigmaMemError, StoreError, UnknownDecisionError, UnrecordedError
from sigma_mem.events import Answer, Decision
from sigma_mem.ledger.lines import Body as LineBody
from sigma_mem.ledger.lines import Line
from sigma_mem.serve.calls import Context
from sigma_mem.serve.config import Upstream
from sigma_mem.serve.failures import RefusedError, refusal
from sigma_mem.serve.gateway.chat import Chat
from sigma_mem.serve.gateway.message import (
    UNREADABLE,
    Body,
    Delta,
    Text,
    Usage,
    clean_unicode,
    encode_json,
    new_id,
    summed_usage,
)
from sigma_mem.serve.gateway.messages import Messages
from sigma_mem.serve.gateway.protocol import Protocol, Request, Stamp, bad_request, headers_of
from sigma_mem.serve.gateway.responses import Responses
from sigma_mem.serve.gateway.upstream import EventStream, Pool, Sent, UpstreamError, UpstreamPeer, price_of
from sigma_mem.serve.memories import ServedMemory, Unrecorded
from sigma_mem.session import SigmaMem
from sigma_mem.session.checks import NewRef

# ---- calls


CHAT, MESSAGES, RESPONSES = Chat(), Messages(), Responses()
Keep = Callable[[str, object, bool], None]  # of a peer, an item, and whether it was translated
_PROTOCOLS: dict[str, Protocol] = {each.name: each for each in (CHAT, MESSAGES, RESPONSES)}


def sent_to(upstream: Upstream, request: Request) -> tuple[Sent, list[str]]:
    """What an upstream is sent: the request as it is if it speaks its protocol, else in one that it speaks.

    With it, what of the request would be lost although the upstream's configuration does not allow it.
    """
    protocol, body, lost = request.protocol, request.body, list[str]()
    if protocol.name not in upstream.protocols:
        protocol = _PROTOCOLS[upstream.protocols[0]]
        try:
            body = protocol.request(request.protocol.prompt(body, lost.append), lost.append)
            allowed = lost if "*" in upstream.may_lose else upstream.may_lose
            lost = [what for what in dict.fromkeys(lost) if what not in allowed]
        except UNREADABLE:
            lost = [f"what is no request of {request.protocol.name}"]
    if upstream.system:
        body = protocol.with_system(body, upstream.system)
    if upstream.effort:
        body = protocol.with_field(body, "effort", upstream.effort)
    forwarded = request.headers if protocol is request.protocol else protocol.headers
    headers = {**forwarded, **request.trace}
    return Sent(protocol, {**body, **upstream.parameters, "model": upstream.model}, headers), lost


class Calls:
    """The calls made for one request; answers come back in the client's protocol. Mappings are by peer."""

    def __init__(self, request: Request, pool: Pool, deadline: float, keep: Keep) -> None:
        self.request, self.pool = request, pool
        keeps = request.protocol is RESPONSES and request.body.get("store") is not False
        self._keep = keep if keeps else None
        self.attempts = 0
        self.failures: dict[str, UpstreamError] = {}
        self.left_out: dict[str, str] = {}  # what would have been lost of the request
        self.costs: dict[str, float] = {}  # of answers of upstreams that have a price
        self.cost = 0.0  # of all of them
        self.seen_tokens: dict[str, int] = {}  # of the conversation, the peer's own answer included
        self.wants_text, self.texts = False, dict[str, str]()
        self.usages: list[object] = []  # as the answers report them
        self._sent: dict[str, Sent] = {}
        self._clock = asyncio.get_running_loop().time
        self._ends = self._clock() + deadline

    def seconds_left(self) -> float:
        """Until the deadline."""
        return max(0.0, self._ends - self._clock())

    async def able(self, names: Iterable[str]) -> list[str]:
        """The peers that can be sent the request without a loss; RefusedError if none can.

        Of the others `left_out` says why. Other requests have their turn between two translations.
        """
        found = []
        for name in names:
            settings, lost = self.pool.peers[name].settings, list[str]()
            if self.request.protocol.name not in settings.protocols:
                self._sent[name], lost = sent_to(settings, self.request)
                await asyncio.sleep(0)
            if lost:
                self.left_out[name] = f"would lose {', '.join(lost)}"
            else:
                found.append(name)
        if not found:
            why = "; ".join(f"{peer} {loss}" for peer, loss in self.left_out.items())
            raise bad_request(
                f"no peer can take this request: {why}; expected another, or may_lose in its settings"
            )
        return found

    def _call(self, name: str) -> tuple[UpstreamPeer, Sent]:
        """A peer to call now, and what it is sent."""
        self.attempts += 1
        peer = self.pool.peers[name]
        return peer, self._sent.get(name) or sent_to(peer.settings, self.request)[0]

    async def complete(self, name: str) -> Body:
        """A peer's whole answer."""
        (peer, sent), protocol = self._call(name), self.request.protocol
        try:
            body = dict(sent.body)
            body.pop("stream", None)
            body.pop("stream_options", None)
            whole = Sent(sent.protocol, body, sent.headers)
            answer = await peer.post(sent.protocol.path, whole, sent.protocol.check, self._ends)
        except UpstreamError as error:
            self.failures[name] = error
            raise
        self.spent(peer, sent.protocol.usage(answer))
        if sent.protocol is not protocol:
            answer = protocol.response(sent.protocol.reply(answer), self.request.body)
        if self.wants_text and (said := protocol.answer(answer)) is not None:
            self.texts[name] = said.text if isinstance(said, Answer) else said
        for item in answer["output"] if self._keep is not None else ():
            self.keep(name, item, sent.protocol)
        self.usages.append(answer.get("usage"))
        return answer

    def keep(self, peer: str, item: object, spoken: Protocol) -> None:
        """Keep an item of an answer, if the client may refer to it."""
        if self._keep is not None:
            self._keep(peer, item, spoken is not self.request.protocol)

    async def stream(self, name: str) -> "AnswerStream":
        """A peer's answer in events, once the first one is there."""
        peer, sent = self._call(name)
        translated = sent.protocol is not self.request.protocol
        body = sent.protocol.streaming(sent.body, usage=translated or peer.has_price)
        try:
            stream = await peer.stream(Sent(sent.protocol, body, sent.headers), self._ends)
        except UpstreamError as error:
            self.failures[name] = error
            raise
        return AnswerStream(self, stream, sent.protocol)

    def spent(self, peer: UpstreamPeer, usage: Usage | None) -> None:
        """A peer reported its usage."""
        if usage is None:
            return
        self.seen_tokens[peer.name] = usage.input + usage.output
        if peer.has_price:
            cost = price_of(peer.settings, usage)
            self.pool.paid(peer.name, cost - self.costs.get(peer.name, 0.0))
            self.costs[peer.name] = cost
            self.cost = math.fsum(self.costs.values())

    def nobody(self) -> RefusedError:
        """The response if nobody answered: 502, or the first refusal if all refused the request itself."""
        errors = list(self.failures.values())
        if errors and all(error.is_refusal for error in errors):
            return errors[0].refused()
        said = "; ".join(map(str, errors)) or "there was no time to ask anyone"
        return RefusedError(502, "no_upstream_answered", f"no upstream answered: {said}")


class AnswerStream:
    """The events of a peer's answer, in the client's protocol; the calls know what it used."""

    def __init__(self, calls: Calls, stream: EventStream, spoken: Protocol) -> None:
        self.peer, self.aclose = stream.peer.name, stream.aclose
        self._calls, self._stream, self._spoken = calls, stream, spoken

    async def __aiter__(self) -> AsyncIterator[Body]:
        """Every event; UpstreamError if the stream breaks off."""
        usage, request, protocol = Usage(), self._calls.request, self._calls.request.protocol
        reader, writer = self._spoken.reader(self._spoken), protocol.writer(request.body)
        async for event in self._stream:
            if (more := self._spoken.usage(event)) is not None:
                usage = usage.or_more(more)
                self._calls.spent(self._stream.peer, usage)
            if self._spoken is protocol:
                self._keep_item(event)
                if self._calls.wants_text:
                    with suppress(*UNREADABLE):
                        for delta in reader.feed(event):
                            self._keep_text(delta)
                yield event
                continue
            try:
                for delta in reader.feed(event):
                    self._keep_text(delta)
                    for written in writer.write(delta):
                        self._keep_item(written)
                        yield written
            except UNREADABLE as error:
                raise UpstreamError(self.peer, "sent a stream that cannot be read") from error
        if self._spoken is not protocol:
            for written in writer.write(reader.end()):
                self._keep_item(written)
                yield written

    def _keep_text(self, delta: Delta) -> None:
        if self._calls.wants_text and isinstance(delta, Text):
            self._calls.texts[self.peer] = self._calls.texts.get(self.peer, "") + clean_unicode(delta.text)

    def _keep_item(self, event: Body) -> None:
        if event.get("type") == "response.output_item.done":
            self._calls.keep(self.peer, event.get("item"), self._spoken)


# ---- delivery


_COMMENT = b": the peers are being asked\n\n"  # clients and proxies see that the connection lives
_EVERY = 1.0  # seconds between comments


Whole = tuple[Body, Mapping[str, str]]  # an answer under our names, and the headers that go with it


async def passed_on(
    calls: Calls, stream: AnswerStream, stamp: Stamp, charge: Callable[[], Awaitable[None]] | None = None
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
    if charge is not None and (calls.costs or calls.texts):
        # The answer is whole. The ledger keeps the cost that was expected, if it has the decision at all.
        with suppress(StoreError, UnknownDecisionError):
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
    headers = task.result()[1] if task.done() else {}
    return EventResponse(_awaited(task, calls.request), headers, stop, calls.seconds_left())


async def _awaited(task: asyncio.Task[Whole], request: Request) -> AsyncIterator[bytes]:
    protocol = request.protocol
    while not task.done():
        yield _COMMENT
        await asyncio.wait((task,), timeout=_EVERY)
    try:
        body, _ = task.result()
    except SigmaMemError as error:
        status, found, _ = refusal(error)
        yield protocol.event(protocol.failure(str(error), found["error"]["code"], status))
        return
    for event in protocol.events(body):
        if not protocol.is_for_us(event, request):
            yield protocol.event(event)
    yield protocol.last


def json_response(body: object, headers: Mapping[str, str]) -> Response:
    """A JSON body."""
    return Response(encode_json(body), headers=dict(headers), media_type="application/json")


class EventResponse(StreamingResponse):
    """Server-sent events; whatever happens to the client, their origin is closed.

    A client that has not read all of them when the time is over is left.
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
                async with asyncio.timeout(self._seconds + _EVERY):
                    await super().__call__(scope, receive, send)
        finally:
            await self._close()


# ---- the decision


class Turn:
    """One request that the memory decides.

    Candidates are peers of the memory that are upstreams, allowed by the request, can take it without a loss,
    and work.
    """

    def __init__(self, context: Context, calls: Calls, memory: ServedMemory, peers: tuple[str, ...]) -> None:
        self.id = new_id(calls.request.protocol.prefix)  # of the response; the `ref` of the decision
        self.request, self.calls, self.memory = calls.request, calls, memory
        self.question = calls.request.question()
        self.peers = peers
        self.candidates: list[str] = []
        self._memories, self._metrics = context.memories, context.metrics
        self._epoch = context.memories.store.epoch(memory.namespace)
        self._saving: asyncio.Future[Any] | None = None
        self._lines: tuple[Line[LineBody], ...] = ()  # of a decision that the store could not take
        self._waiting: Unrecorded | None = None
        self.on_settled: Callable[[str, str, int | None], None] = lambda response, peer, tokens: None
        self.after, self.topic = calls.request.options.after, calls.request.options.topic
        self.held = ""  # what held the conversation on its peer
        self.kept = calls.request.body.get("store") is not False  # by an upstream that keeps responses
        calls.wants_text = memory.mem.keep_text

    async def find_candidates(self) -> None:
        """Find out who can be asked; RefusedError if nobody can."""
        pool, among = self.calls.pool, self.request.options.among
        known = list(filter(pool.peers.__contains__, self.peers))
        if not known:
            raise bad_request(f"no upstream is a peer of {self.memory.namespace!r}; add them to it first")
        if among is not None:
            if unknown := sorted(set(among) - set(known)):
                raise bad_request(f"among names {unknown[0]!r}; expected some of {known}")
            known = [peer for peer in known if peer in among]
        self.candidates = pool.usable(await self.calls.able(known))

    def join(self, response: str | None) -> None:
        """Make the request part of an earlier response's event, whose topic it has then."""
        self.after, self.topic = response, None

    async def peer_of(self, response: str) -> str | None:
        """The peer that gave an earlier response, by the ledger, if it can still be asked."""
        try:
            decision = await self.memory.slow(lambda mem: mem.decision(response))
        except UnknownDecisionError:
            return None
        except StoreError as error:
            await self.memory.lose(error)
            return None
        peer = decision.served or decision.peer
        return peer if peer in self.candidates else None

    async def decide(self, verb: Callable[..., Decision], slow: bool = False, **asked: Any) -> Decision:
        """Have the memory route or vote; without the store, from the state in memory.

        `settle` then reports that. It takes the ledger to find an earlier event (`after`), so that without
        the store there is none.
        """
        store, namespace = self._memories.store, self.memory.namespace

        def made(mem: SigmaMem) -> Decision:
            self._epoch = store.epoch(namespace)
            after = None if mem.journal.suspended else self.after
            return verb(mem, self.question, topic=self.topic, after=after, ref=NewRef(self.id), **asked)

        try:
            return await self.memory.from_state(made, slow)
        except UnrecordedError as error:
            await self.memory.lose(error)
            self._lines, decision = error.lines, error.decision
            return cast(Decision, decision)

    def start_saving(self) -> asyncio.Future[Any]:
        """Have the disk written from now on, while an upstream is called; not if the store is away."""
        if self._lines:
            return asyncio.get_running_loop().create_future()
        self._saving = asyncio.ensure_future(self._memories.flush(self.memory.namespace))
        # If nobody answers, nobody asks how it ended; asyncio would complain.
        self._saving.add_done_callback(lambda saving: saving.cancelled() or saving.exception())
        return self._saving

    async def settle(self, decision: Decision, peer: str) -> Body:
        """Record who served, if that is not who was chosen, and its cost; returns the response's summary.

        Returns once decision and peer are on disk. The cost is written behind: until then the ledger has the
        one that was expected. If the store is away, both wait for it, and the summary says so.
        """
        self._metrics.decided(decision.read)
        unrecorded = await self._record(decision, peer)
        self.on_settled(self.id, peer, self.calls.seen_tokens.get(peer))
        confidence = decision.confidence if peer == decision.peer else decision.probs[peer]
        self._metrics.confidence.observe(confidence)
        failures = self.calls.failures
        return {
            "decision": decision.id,
            "peer": peer,
            "confidence": round(confidence, 6),
            "attempts": self.calls.attempts,
            "cost": self.calls.cost,
            "failed": {name: error.reason for name, error in failures.items()} if failures else {},
            "left_out": self.calls.left_out,
            "held": self.held if peer == decision.peer else "",
            **({"unrecorded": unrecorded} if unrecorded else {}),
        }

    async def _record(self, decision: Decision, peer: str) -> str:
        """Return once decision and peer are on disk; if the store is away, say what becomes of them."""
        if not self._lines:
            try:
                if peer != decision.peer or peer in self.calls.costs or self.calls.texts.get(peer):
                    await self.charge(decision, peer)
                await (self.start_saving() if self._saving is None or peer != decision.peer else self._saving)
                if self._memories.store.epoch(self.memory.namespace) == self._epoch:
                    return ""
                raise StoreError("the store had to drop what was just written; try again")
            except (StoreError, UnknownDecisionError) as error:
                dropped = self._memories.store.epoch(self.memory.namespace) != self._epoch
                if isinstance(error, UnknownDecisionError) and not dropped:
                    raise
                await self.memory.lose(error if isinstance(error, StoreError) else StoreError(str(error)))
                self._lines = self.memory.mem.newest_lines(decision.event)
        self._waiting = Unrecorded(decision, self._lines, peer, self.calls.costs.get(peer))
        return self.memory.keep(self._waiting)

    async def charge(self, decision: Decision, peer: str) -> None:
        """Record who served and, as far as they are known, what it cost and what a route was answered."""
        cost, text = self.calls.costs.get(peer), None if decision.canons else self.calls.texts.get(peer)
        if self._waiting is not None and self._waiting.waits:
            self._waiting.cost = cost
            return
        await self.memory.quick(lambda mem: mem.served(decision, peer, cost=cost, answer=text, wait=False))

    async def reply(self, decision: Decision, peer: str, answer: Body) -> Whole:
        """The peer's answer under our id, once the decision is on disk."""
        summary = await self.settle(decision, peer)
        if len(self.calls.usages) > 1:  # what all that answered used together
            answer = answer | {"usage": summed_usage(self.calls.usages)}
        stamped = self.request.protocol.stamped(answer, Stamp(self.id, peer, summary, self.kept))
        return stamped, headers_of(summary)
