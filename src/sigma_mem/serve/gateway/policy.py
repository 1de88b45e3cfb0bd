"""What happens with a request: a route, a vote, peers asked in turn, or the peer that it names."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.responses import Response

from sigma_mem.errors import InputError, StoreError
from sigma_mem.events import Answer, Decision
from sigma_mem.serve.calls import Context
from sigma_mem.serve.config import Upstream
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway.conversation import Conversation, Conversations, KeptItems, Signals, Trail
from sigma_mem.serve.gateway.message import Body
from sigma_mem.serve.gateway.protocol import (
    ASK,
    ROUTE,
    VIRTUAL,
    VOTE,
    Request,
    Stamp,
    bad_request,
    headers_of,
)
from sigma_mem.serve.gateway.turn import (
    CHAT,
    MESSAGES,
    RESPONSES,
    AnswerStream,
    Calls,
    EventResponse,
    Turn,
    Whole,
    events_when_there,
    json_response,
    passed_on,
)
from sigma_mem.serve.gateway.upstream import Pool, Sent, UpstreamError, price_of
from sigma_mem.serve.memories import ServedMemory
from sigma_mem.session import SigmaMem
from sigma_mem.session.judgement import Judge
from sigma_mem.session.panel import Panel


class Policy:
    """Answers requests over the upstreams of a service.

    `models` is every name that a request's `model` may have; none without upstreams.
    """

    def __init__(self, context: Context) -> None:
        self._context, upstreams = context, context.config.upstreams
        self.pool = Pool(
            upstreams, self._called, lambda peer, cost: context.metrics.cost.labels(peer).inc(max(cost, 0.0))
        )
        topics = [f"{ROUTE}:{topic.name}" for topic in context.config.topics]
        self.models = [*VIRTUAL, *dict.fromkeys(topics), *self.pool.peers] if upstreams else []
        self._broken: set[str] = set()
        for name in self.pool.peers:
            context.metrics.circuit_open.labels(name).set(False)
        self._pricing = Pricing(upstreams)
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
        if model not in (*VIRTUAL, *self.pool.peers) or not self.models:
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
        if self._pricing.priced:
            await self._pricing.tell(memory, turn.peers)
        explore = context.config.explore if request.options.explore is None else request.options.explore
        stays = None
        if request.in_loop or request.earlier or holder:
            stays = await self._peer_that_must_go_on(turn, holder)
        if mode == "observe":
            return await _by_route(turn, False, stays, serves)
        known = self._conversations.find(trail) if stays is None else None
        if known is not None or request.in_loop is not None:
            explore = False
        if known is not None and model == ROUTE:
            stays = await self._peer_that_goes_on(known, turn)
        if known is not None and request.options.event == "conversation":
            turn.join(known.response)
        if model == ROUTE or stays is not None:
            return await _by_route(turn, explore, stays)
        if model == ASK and memory.is_away:  # every step of a panel is a line of the ledger
            return await _by_route(turn, explore, None)
        answer = _by_vote(turn, self._judges) if model == VOTE else _by_panel(turn, explore)
        if request.stream:
            return await events_when_there(answer, calls)
        return json_response(*await answer)

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
        if request.model not in (*VIRTUAL, *self.pool.peers) or not found:
            raise unknown_model(request.model, " whose upstream counts tokens of messages")
        await self.require_peer(namespace, found[0])
        sent = Sent(MESSAGES, request.body, {**request.headers, **request.trace})
        counted = await self._passed(found[0], "messages/count_tokens", sent, _check_count)
        return json_response(counted, headers_of({"peer": found[0]}))

    async def embed(self, namespace: str, model: str, body: Body, trace: Mapping[str, str]) -> Response:
        """The response to a request for embeddings, which passes through to the peer that it names."""
        if model not in self.pool.peers:
            raise unknown_model(model)
        await self.require_peer(namespace, model)
        found = await self._passed(model, "embeddings", Sent(CHAT, body, trace), _check_embeddings)
        usage = CHAT.usage(found)
        cost = 0.0 if usage is None else price_of(self.pool.peers[model].settings, usage)
        self.pool.paid(model, cost)
        headers = headers_of({"peer": model, "attempts": 1, "cost": cost})
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


# ---- one peer


async def _by_name(calls: Calls, peer: str) -> Response:
    """Pass a request through to the peer that it names: nothing is decided and nothing is recorded."""
    await calls.able([peer])
    request, stamp = calls.request, Stamp(None, peer)
    try:
        if request.stream:
            stream = await calls.stream(peer)
            headers = headers_of({"peer": peer, "attempts": calls.attempts})
            return EventResponse(
                passed_on(calls, stream, stamp), headers, stream.aclose, calls.seconds_left()
            )
        answer = await calls.complete(peer)
    except UpstreamError as error:
        raise error.refused() from error
    headers = headers_of({"peer": peer, "attempts": calls.attempts, "cost": calls.cost})
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


async def _routed_stream(turn: Turn, decision: Decision, stream: AnswerStream) -> Response:
    """A routed stream, once the decision is on disk; its cost is known only at its end."""
    try:
        summary = await turn.settle(decision, stream.peer)
    except BaseException:
        await stream.aclose()
        raise
    stamp, charge = (
        Stamp(turn.id, stream.peer, summary, turn.kept),
        partial(turn.charge, decision, stream.peer),
    )
    events = passed_on(turn.calls, stream, stamp, charge)
    headers = headers_of(summary, without="cost")
    return EventResponse(events, headers, stream.aclose, turn.calls.seconds_left())


# ---- several peers


async def _by_vote(turn: Turn, judges: Sequence[Judge] = ()) -> Whole:
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


async def _voted(turn: Turn, completions: Mapping[str, Body], judges: Sequence[Judge] = ()) -> Whole:
    """Vote among whole answers, and reply with the winner's."""
    answers = {peer: turn.request.protocol.answer(completion) for peer, completion in completions.items()}
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
        await turn.memory.slow(partial(_add, panel, peer, answer))
    if not completions:
        raise calls.nobody()
    decision = panel.decision
    chosen = decision.peer if decision.peer in completions else None
    served = chosen or best_first(list(completions), decision.probs)[0]
    return await turn.reply(decision, served, completions[served])


def _add(panel: Panel, peer: str, answer: Answer | str | None, mem: SigmaMem) -> bool:
    return panel.add(peer, answer)


# ---- costs


class Pricing:
    """Tells a memory what its peers cost, once; prices that the configuration leaves out stay."""

    def __init__(self, upstreams: Iterable[Upstream]) -> None:
        self.priced = [upstream for upstream in upstreams if upstream.has_price]
        self._told: dict[str, tuple[str, ...]] = {}

    async def tell(self, memory: ServedMemory, peers: tuple[str, ...]) -> None:
        """Set the prices of this memory's peers, unless that was done for the same pool."""
        if self._told.get(memory.namespace) != peers and not memory.is_away:
            try:
                await memory.slow(self._set_prices)
            except StoreError as error:
                await memory.lose(error)
                return
            self._told[memory.namespace] = peers

    def _set_prices(self, mem: SigmaMem) -> None:
        for upstream in self.priced:
            if upstream.name in mem.peers:
                mem.set_price(
                    upstream.name,
                    per_input_token=upstream.input_price / 1e6,
                    per_output_token=upstream.output_price / 1e6,
                )


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
