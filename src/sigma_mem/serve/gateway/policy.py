"""What happens with a request: a route, a vote, peers asked in turn, or the peer that it names."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from sigma_mem.errors import InputError, SigmaMemError, StoreError, UnknownDecisionError, UnrecordedError
from sigma_mem.events import Decision
from sigma_mem.judges import EndpointJudge
from sigma_mem.ledger.lines import Body as LineBody
from sigma_mem.ledger.lines import Line
from sigma_mem.serve.calls import Context
from sigma_mem.serve.failures import RefusedError, refusal
from sigma_mem.serve.gateway import protocol as p
from sigma_mem.serve.gateway.chat import CHAT
from sigma_mem.serve.gateway.conversation import Conversation, Conversations, KeptItems, Signals, Trail
from sigma_mem.serve.gateway.messages import MESSAGES
from sigma_mem.serve.gateway.protocol import Body, Request, bad_request
from sigma_mem.serve.gateway.responses import RESPONSES
from sigma_mem.serve.gateway.upstream import Calls, EventStream, Pool, Sent, UpstreamError, price_of
from sigma_mem.serve.memories import ServedMemory, Unrecorded, bill
from sigma_mem.session import SigmaMem
from sigma_mem.session.checks import NewRef

# ---- one request


Whole = tuple[Body, Mapping[str, str]]  # an answer under our names, and the headers that go with it


class Turn:
    """One request that the memory decides.

    Candidates are peers of the memory that are upstreams, allowed by the request, can take it without a loss,
    and work.
    """

    def __init__(self, context: Context, calls: Calls, memory: ServedMemory, peers: tuple[str, ...]) -> None:
        self.id = p.new_id(calls.request.protocol.prefix)  # of the response; the `ref` of the decision
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
        used = self.calls.usages.get(peer)
        self.on_settled(self.id, peer, None if used is None else used.input + used.output)
        confidence = decision.confidence if peer == decision.peer else decision.probs[peer]
        self._metrics.confidence.observe(confidence)
        failures = self.calls.failures
        return {
            "decision": decision.id,
            "peer": peer,
            "confidence": round(confidence, 6),
            "attempts": self.calls.attempts,
            "cost": self.calls.cost + _of_judges(decision),
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
        self._waiting = Unrecorded(decision, self._lines, peer, self.calls.costs)
        return self.memory.keep(self._waiting)

    async def charge(self, decision: Decision, peer: str) -> None:
        """Record who served and, as far as they are known, what calls cost and what a route was answered."""
        costs, text = self.calls.costs, None if decision.canons else self.calls.texts.get(peer)
        if self._waiting is None or not self._waiting.waits:  # what waits knows the costs as they come
            await self.memory.quick(lambda mem: bill(mem, decision, peer, costs, text))

    async def reply(self, decision: Decision, peer: str, answer: Body) -> Whole:
        """The peer's answer under our id, once the decision is on disk."""
        summary = await self.settle(decision, peer)
        protocol, usages = self.request.protocol, self.calls.usages
        if len(usages) > 1:  # what all that answered used together
            answer = answer | {"usage": protocol.written_usage(sum(usages.values(), p.Usage()))}
        stamped = protocol.stamped(answer, p.Stamp(self.id, peer, summary, self.kept))
        return stamped, p.headers_of(summary)


# ---- all requests


class Policy:
    """Answers requests over the upstreams of a service.

    `models` is every name that a request's `model` may have; none without upstreams.
    """

    def __init__(self, context: Context) -> None:
        self._context, upstreams = context, context.config.upstreams
        self.pool = Pool(
            upstreams, self._called, lambda peer, cost: context.metrics.cost.labels(peer).inc(max(cost, 0.0))
        )
        topics = [f"{p.ROUTE}:{topic.name}" for topic in context.config.topics]
        self.models = [*p.VIRTUAL, *dict.fromkeys(topics), *self.pool.peers] if upstreams else []
        self._broken: set[str] = set()
        for name in self.pool.peers:
            context.metrics.circuit_open.labels(name).set(False)
        self._priced = [upstream for upstream in upstreams if upstream.has_price]
        self._told: dict[str, tuple[str, ...]] = {}  # the peers of each memory that was told their prices
        config = context.config
        self._modes = [topic for topic in config.topics if topic.mode]
        self._usual = config.usual or (upstreams[0].name if upstreams else "")
        self._judges = [judge.opened(config.value) for judge in config.judges]
        self._conversations = Conversations(upstreams, config.value, config.switch_margin)
        self._signals = Signals(config.signals)
        self._items = KeptItems()

    def _called(self, peer: str, outcome: str, seconds: float) -> None:
        """Count a call to an upstream, and tell of one that failed too often."""
        self._context.metrics.called(peer, outcome, seconds)
        was_broken = peer in self._broken
        if outcome == "failed" or was_broken:
            is_broken = self.pool.peers[peer].circuit.is_broken
            if is_broken != was_broken:
                self._broken ^= {peer}
                self._context.metrics.circuit_open.labels(peer).set(is_broken)
                text = f"{peer} failed several times in a row, and is left alone for a while"
                self._context.alarms.say("circuit", "", peer, text if is_broken else "")

    async def answer(self, namespace: str, request: Request) -> Response:
        """The response to a request: by the peer that it names, or as the memory decides."""
        context, model = self._context, request.model
        if model not in (*p.VIRTUAL, *self.pool.peers) or not self.models:
            raise unknown_model(model)
        holder = None
        if request.protocol is RESPONSES:
            request, holder = self._items.resolved(namespace, request)
        keep = partial(self._items.keep, namespace)
        calls, is_named = Calls(request, self.pool, context.config.deadline, keep), model in self.pool.peers
        mode, usual = self._mode(request.options.topic) if self._modes else (context.config.mode, self._usual)
        serves = model if is_named else usual
        if is_named:
            await self.require_peer(namespace, model)
        if mode == "bypass" or (mode == "apply" and is_named):
            return await _by_name(calls, serves)
        memory = await context.memories.get(namespace)
        peers = await memory.peers()
        if mode == "observe" and serves not in peers:
            return await _by_name(calls, serves)  # there is no decision to make for this memory
        turn = Turn(context, calls, memory, peers)
        await turn.find_candidates()
        trail = Trail(namespace, request)
        turn.on_settled = partial(self._conversations.remember, trail)
        if context.config.signals:
            await self._signals.learn(memory, request, *self._conversations.answered(trail))
        if self._priced:
            await self._tell_prices(memory, peers)
        explore = context.config.explore if request.options.explore is None else request.options.explore
        stays = None
        if request.in_loop or request.earlier or holder:
            stays = await self._peer_that_must_go_on(turn, holder)
        if mode == "observe":
            return await _by_route(turn, False, stays, serves)
        known = self._conversations.find(trail) if stays is None else None
        if known is not None or request.in_loop is not None:
            explore = False
        if known is not None and model == p.ROUTE:
            stays = await self._peer_that_goes_on(known, turn)
        if known is not None and request.options.event == "conversation":
            turn.join(known.response)
        if model == p.ROUTE or stays is not None:
            return await _by_route(turn, explore, stays)
        if model == p.ASK and memory.is_away:  # every step of a panel is a line of the ledger
            return await _by_route(turn, explore, None)
        answer = _by_vote(turn, self._judges) if model == p.VOTE else _by_panel(turn, explore)
        if request.stream:
            return await events_when_there(answer, calls)
        return json_response(*await answer)

    async def _tell_prices(self, memory: ServedMemory, peers: tuple[str, ...]) -> None:
        """Tell a memory once what its peers cost; prices that the configuration leaves out stay."""

        def set_prices(mem: SigmaMem) -> None:
            for upstream in self._priced:
                if upstream.name in mem.peers:
                    prices = upstream.input_price / 1e6, upstream.output_price / 1e6
                    mem.set_price(upstream.name, per_input_token=prices[0], per_output_token=prices[1])

        if self._told.get(memory.namespace) != peers and not memory.is_away:
            try:
                await memory.slow(set_prices)
            except StoreError as error:
                await memory.lose(error)
                return
            self._told[memory.namespace] = peers

    def _mode(self, topic: str | list[str] | None) -> tuple[str, str]:
        """The mode of a request with these topics, and the peer that serves if it names none."""
        given = [topic] if isinstance(topic, str) else topic or []
        for each in self._modes:
            if each.name in given:
                return each.mode, each.peer or self._usual
        return self._context.config.mode, self._usual

    async def _peer_that_must_go_on(self, turn: Turn, holder: str | None) -> str | None:
        """The peer that called the tools, gave the response, or has the items that a request refers to."""
        request, stays = turn.request, None
        if request.in_loop is not None:
            stays = await self._peer_that_gave(request.in_loop, turn)
            turn.held = "its peer called the tool"
            if stays is not None and request.options.event != "turn":
                turn.join(request.in_loop)
        if request.earlier is not None:
            stays = await self._peer_that_gave(request.earlier, turn)
            if stays is None:
                raise bad_request(
                    f"{request.earlier} is not here, or its peer cannot be asked now; expected the whole "
                    "conversation in input (previous_response_id)"
                )
            turn.held = "only its peer has the response before"
            if request.options.event == "conversation":
                turn.join(request.earlier)
        if holder is not None:
            if holder not in turn.candidates:
                raise bad_request(
                    f"only {holder} has the items that input refers to, and it cannot be asked now"
                )
            stays, turn.held = holder, "only its peer has the items"
        if stays is None:
            turn.held = ""
        elif request.earlier is not None or holder is not None:
            turn.candidates = [stays]  # nobody else has what was said before
        return stays

    async def _peer_that_gave(self, response: str, turn: Turn) -> str | None:
        """The peer that gave an earlier response, if it can still be asked."""
        known = self._conversations.peer_of(turn.memory.namespace, response)
        if known is None:
            return await turn.peer_of(response)
        return known if known in turn.candidates else None

    async def _peer_that_goes_on(self, known: Conversation, turn: Turn) -> str | None:
        """The peer that goes on with the conversation that a request belongs to; None if its peer cannot."""
        if known.peer not in turn.candidates:
            return None
        trust = await turn.memory.from_state(
            lambda mem: mem.trust(turn.question, topic=turn.topic), slow=True
        )
        probs = {peer: trust[peer].prob for peer in turn.candidates}
        peer, turn.held = self._conversations.choose(known, turn.request, probs)
        return peer

    async def count_tokens(self, namespace: str, request: Request) -> Response:
        """How many tokens a request of Messages has, by the peer that it names or the first that can say."""
        speak = [name for name, peer in self.pool.peers.items() if MESSAGES.name in peer.settings.protocols]
        named = [request.model] if request.model in self.pool.peers else self.pool.usable(speak)
        found = [name for name in named if name in speak]
        if request.model not in (*p.VIRTUAL, *self.pool.peers) or not found:
            raise unknown_model(request.model, " whose upstream counts tokens of messages")
        await self.require_peer(namespace, found[0])
        sent = Sent(MESSAGES, request.body, {**request.headers, **request.trace})
        counted = await self._passed(found[0], "messages/count_tokens", sent, _check_count)
        return json_response(counted, p.headers_of({"peer": found[0]}))

    async def embed(self, namespace: str, model: str, body: Body, trace: Mapping[str, str]) -> Response:
        """The response to a request for embeddings, which passes through to the peer that it names."""
        if model not in self.pool.peers:
            raise unknown_model(model)
        await self.require_peer(namespace, model)
        found = await self._passed(model, "embeddings", Sent(CHAT, body, trace), _check_embeddings)
        usage = CHAT.usage(found)
        cost = 0.0 if usage is None else price_of(self.pool.peers[model].settings, usage)
        self.pool.paid(model, cost)
        headers = p.headers_of({"peer": model, "attempts": 1, "cost": cost})
        return json_response({**found, "model": model}, headers)

    async def _passed(self, name: str, path: str, sent: Sent, check: Callable[[Body], None]) -> Body:
        """What a peer answers to a request that is no question."""
        peer = self.pool.peers[name]
        sent = replace(sent, body=sent.body | {"model": peer.settings.model})
        try:
            ends = asyncio.get_running_loop().time() + self._context.config.deadline
            return await peer.post(path, sent, check, ends)
        except UpstreamError as error:
            raise error.refused() from error

    async def require_peer(self, namespace: str, model: str) -> None:
        """Refuse a key of another namespace than the usual one a model that is no peer there."""
        if namespace != self._context.config.namespace:
            memory = await self._context.memories.get(namespace)
            if model not in await memory.peers():
                raise unknown_model(model)


def unknown_model(model: str, which: str = "") -> RefusedError:
    """The response if nobody has this name."""
    message = f"there is no model {model!r:.200}{which}; GET /v1/models lists the models"
    return RefusedError(404, "model_not_found", message)


def _check_embeddings(body: Body) -> None:
    if not isinstance(data := body.get("data"), list) or not data:
        raise ValueError("no data")


def _check_count(body: Body) -> None:
    if not isinstance(body.get("input_tokens"), int):
        raise ValueError("no input_tokens")


def best_first(names: Sequence[str], probs: Mapping[str, float], first: str | None = None) -> list[str]:
    """The chosen peer, then the others by p̂."""
    order = sorted(names, key=probs.__getitem__, reverse=True)
    if first is not None:
        order.remove(first)
        order.insert(0, first)
    return order


# ---- delivery


_COMMENT = b": the peers are being asked\n\n"  # clients and proxies see that the connection lives
_EVERY = 1.0  # seconds between comments


async def passed_on(
    calls: Calls, stream: EventStream, stamp: p.Stamp, charge: Callable[[], Awaitable[None]] | None = None
) -> AsyncIterator[bytes]:
    """The peer's events under our names; an error in the middle is an event too."""
    request, protocol, summary = calls.request, calls.request.protocol, stamp.summary
    bare, said = replace(stamp, summary=None), stamp
    try:
        async for event in calls.events(stream):
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
    return Response(p.encode_json(body), headers=dict(headers), media_type="application/json")


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


# ---- one peer


async def _by_name(calls: Calls, peer: str) -> Response:
    """Pass a request through to the peer that it names: nothing is decided and nothing is recorded."""
    await calls.able([peer])
    request, stamp = calls.request, p.Stamp(None, peer)
    try:
        if request.stream:
            stream = await calls.stream(peer)
            headers = p.headers_of({"peer": peer, "attempts": calls.attempts})
            return EventResponse(
                passed_on(calls, stream, stamp), headers, stream.aclose, calls.seconds_left()
            )
        answer = await calls.complete(peer)
    except UpstreamError as error:
        raise error.refused() from error
    headers = p.headers_of({"peer": peer, "attempts": calls.attempts, "cost": calls.cost})
    return json_response(request.protocol.stamped(answer, stamp), headers)


async def _by_route(turn: Turn, explore: bool, stays: str | None, observe: str = "") -> Response:
    """Route, ask the chosen peer and, if it fails before its first byte, the next best.

    `stays` goes on with the conversation, if it can; `observe` serves whatever the memory chooses.
    """
    request, calls, options = turn.request, turn.calls, turn.request.options
    asked: dict[str, Any]
    if stays is None:
        asked = {"among": turn.candidates, "explore": explore, "max_cost": options.max_cost}
    else:
        asked = {"among": [stays], "note": turn.held}
    decision = await turn.decide(SigmaMem.route, **asked)
    allowed = turn.candidates if stays else decision.details["among"]  # those within max_cost
    turn.start_saving()
    if observe:
        await calls.able([observe])
    for peer in [observe] if observe else best_first(allowed, decision.probs, decision.peer):
        if not calls.seconds_left():
            break
        with suppress(UpstreamError):  # it is then among the failures of the calls
            if request.stream:
                return await _routed_stream(turn, decision, await calls.stream(peer))
            return json_response(*await turn.reply(decision, peer, await calls.complete(peer)))
    raise calls.nobody()


async def _routed_stream(turn: Turn, decision: Decision, stream: EventStream) -> Response:
    """A routed stream, once the decision is on disk; its cost is known only at its end."""
    try:
        summary = await turn.settle(decision, stream.peer.name)
    except BaseException:
        await stream.aclose()
        raise
    stamp = p.Stamp(turn.id, stream.peer.name, summary, turn.kept)
    events = passed_on(turn.calls, stream, stamp, partial(turn.charge, decision, stream.peer.name))
    headers = p.headers_of(summary, without="cost")
    return EventResponse(events, headers, stream.aclose, turn.calls.seconds_left())


# ---- several peers


async def _by_vote(turn: Turn, judges: Sequence[EndpointJudge] = ()) -> Whole:
    """Ask every candidate at once, vote among those that answered, and reply with the winner's answer.

    Judges are asked if their word may change the vote. If no answer can be read, the vote abstains; the reply
    is then that of the most competent peer.
    """
    options = turn.request.options
    asked = turn.candidates if options.max_cost is None else await _affordable(turn, options.max_cost)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_completed(turn.calls, peer)) for peer in asked]
    completions = {peer: done for peer, task in zip(asked, tasks, strict=True) if (done := task.result())}
    if not completions:
        raise turn.calls.nobody()
    return await _voted(turn, completions, judges)


async def _voted(turn: Turn, completions: Mapping[str, Body], judges: Sequence[EndpointJudge] = ()) -> Whole:
    """Vote among whole answers, and reply with the winner's."""
    answers = {peer: turn.request.protocol.answer(completion) for peer, completion in completions.items()}
    most = turn.request.options.max_cost
    if most is not None:
        left = most - turn.calls.cost
        judges = [judge for judge in judges if judge.price * len(answers) <= left]
    asked = {"judges": judges} if judges else {}
    decision = await turn.decide(SigmaMem.vote, slow=True, answers=answers, **asked)
    peer = decision.peer or best_first(list(completions), decision.probs)[0]
    return await turn.reply(decision, peer, completions[peer])


async def _affordable(turn: Turn, most: float) -> list[str]:
    """The most trusted candidates that can be asked together for that much."""

    def choose(mem: SigmaMem) -> list[str]:
        trust = mem.trust(turn.question, topic=turn.topic)
        order = best_first(turn.candidates, {peer: trust[peer].prob for peer in turn.candidates})
        return affordable(order, expected_costs(mem, turn.question), most)

    return await turn.memory.from_state(choose, slow=True)


async def _completed(calls: Calls, peer: str) -> Body | None:
    """A peer's whole answer; None if it gave none, which is then among the failures of the calls."""
    try:
        return await calls.complete(peer)
    except UpstreamError:
        return None


async def _by_panel(turn: Turn, explore: bool) -> Whole:
    """Ask whom the panel names until it has enough or time is up, and reply with the answer it chose.

    If the store fails meanwhile, the answers so far are voted on; before the first one, everyone is asked.
    """
    completions: dict[str, Body] = {}
    try:
        return await _asked(turn, explore, completions)
    except StoreError as error:
        await turn.memory.lose(error)
    if completions:
        return await _voted(turn, completions)
    return await _by_vote(turn)


async def _asked(turn: Turn, explore: bool, completions: dict[str, Body]) -> Whole:
    """A panel; whole answers go into `completions` as they come."""
    options, calls, candidates = turn.request.options, turn.calls, turn.candidates
    most, costs = options.max_cost, {}
    if most is not None:
        costs = await turn.memory.slow(lambda mem: expected_costs(mem, turn.question))
        affordable(candidates, costs, most)  # raises if there is no money for anyone
        candidates = [peer for peer in candidates if costs.get(peer, 0.0) <= most]
    panel = await turn.memory.slow(
        lambda mem: mem.ask(
            turn.question,
            topic=turn.topic,
            among=candidates,
            explore=explore,
            after=turn.after,
            ref=turn.id,
        )
    )
    while (peer := panel.next) is not None and calls.seconds_left():
        if most is not None and calls.cost + costs.get(peer, 0.0) > most:
            break
        completion, answer = await _completed(calls, peer), None
        if completion is not None:
            completions[peer], answer = completion, turn.request.protocol.answer(completion)
        await turn.memory.slow(lambda mem: panel.add(peer, answer))  # noqa: B023
    if not completions:
        raise calls.nobody()
    decision = panel.decision
    chosen = decision.peer if decision.peer in completions else None
    served = chosen or best_first(list(completions), decision.probs)[0]
    return await turn.reply(decision, served, completions[served])


# ---- costs


def _of_judges(decision: Decision) -> float:
    """What was paid for verdicts."""
    return math.fsum(judge.get("cost", 0.0) for judge in decision.details.get("judges", {}).values())


def expected_costs(mem: SigmaMem, question: str) -> dict[str, float]:
    """What a call to each peer with a price is expected to cost."""
    with mem.journal as fold:
        return {peer: price.of_call(len(question)) for peer, price in fold.costs.prices.items()}


def affordable(names: Sequence[str], costs: Mapping[str, float], most: float) -> list[str]:
    """The peers, in this order, that can be called together for that much.

    >>> affordable(["a", "b", "c"], {"a": 3.0, "b": 9.0}, 4.0)
    ['a', 'c']
    """
    chosen, left = [], most
    for name in names:
        if costs.get(name, 0.0) <= left:
            chosen.append(name)
            left -= costs.get(name, 0.0)
    if not chosen:
        least = min(names, key=lambda name: costs.get(name, 0.0))
        raise InputError(
            f"max_cost is {most:g}; a call to the cheapest candidate, {least!r}, is expected to cost "
            f"{costs[least]:g}: expected at least that"
        )
    return chosen
