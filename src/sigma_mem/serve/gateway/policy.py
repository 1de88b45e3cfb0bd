"""What happens with a request: a route, a vote, peers asked in turn, or the peer that it names."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.responses import Response

from sigma_mem.events import Answer, Decision
from sigma_mem.serve.context import Context
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway.accounting import Pricing, affordable, expected_costs, price_of
from sigma_mem.serve.gateway.calls import CHAT, MESSAGES, AnswerStream, Calls
from sigma_mem.serve.gateway.conversation import Conversations
from sigma_mem.serve.gateway.delivery import Whole, events_as_they_come, events_when_there
from sigma_mem.serve.gateway.message import Body
from sigma_mem.serve.gateway.protocol import Request, Stamp, bad_request, headers_of
from sigma_mem.serve.gateway.turn import Turn
from sigma_mem.serve.gateway.upstream import Pool, Sent, UpstreamError
from sigma_mem.serve.gateway.wire import json_response
from sigma_mem.session import SigmaMem
from sigma_mem.session.names import NewRef
from sigma_mem.session.panel import Panel

ROUTE, VOTE, ASK = "sigma-mem", "sigma-mem/vote", "sigma-mem/ask"


class Policy:
    """Answers requests over the upstreams of a service.

    Attributes
    ----------
    pool : Pool
    models : list of str
        Every name that a request's `model` may have; none without upstreams.
    """

    def __init__(self, context: Context) -> None:
        self._context, upstreams = context, context.config.upstreams
        counted = context.metrics.upstream_calls
        self.pool = Pool(upstreams, lambda peer, outcome: counted.labels(peer, outcome).inc())
        self.models = [ROUTE, VOTE, ASK, *self.pool.peers] if upstreams else []
        self._pricing = Pricing(upstreams)
        config = context.config
        self._conversations = Conversations(upstreams, config.value, config.switch_margin)

    async def answer(self, namespace: str, request: Request) -> Response:
        """The response to a request: by the peer that it names, or as the memory decides."""
        context, model = self._context, request.model
        if model not in self.models:
            raise unknown_model(model)
        calls, is_named = Calls(request, self.pool, context.config.deadline), model in self.pool.peers
        mode, usual = context.config.mode_for(request.options.topic)
        serves = model if is_named else usual
        if is_named:
            await self.require_peer(namespace, model)
        if mode == "bypass" or (mode == "apply" and is_named):
            return await _by_name(calls, serves)
        memory = await context.memories.get(namespace)
        if mode == "observe" and serves not in memory.mem.peers:
            return await _by_name(calls, serves)  # there is no decision to make for this memory
        turn = Turn(context, calls, memory)
        turn.on_settled = partial(self._conversations.remember, namespace, request)
        await self._pricing.tell(memory, turn.peers)
        explore = context.config.explore if request.options.explore is None else request.options.explore
        stays = None if request.in_loop is None else await turn.peer_of(request.in_loop)
        if request.earlier is not None:
            stays = await turn.peer_of(request.earlier)
            if stays is None:
                raise bad_request(
                    f"{request.earlier} is not here, or its peer cannot be asked now; expected the whole "
                    "conversation in input (previous_response_id)"
                )
            turn.candidates = [stays]  # nobody else has what was said before
        if mode == "observe":
            return await _by_route(turn, False, stays, serves)
        if model == ROUTE and stays is None:
            stays = await self._peer_that_goes_on(namespace, turn)
        if model == ROUTE or stays is not None:
            return await _by_route(turn, explore, stays)
        answer = _by_vote(turn) if model == VOTE else _by_panel(turn, explore)
        if request.stream:
            return await events_when_there(answer, calls)
        whole = await answer
        return json_response(whole.body, whole.headers)

    async def _peer_that_goes_on(self, namespace: str, turn: Turn) -> str | None:
        """Who goes on with the conversation that a request belongs to; None for a new one."""
        known = self._conversations.find(namespace, turn.request)
        if known is None or known.peer not in turn.candidates:
            return None
        topic = turn.request.options.topic
        trust = await turn.memory.slow(lambda mem: mem.trust(turn.question, topic=topic))
        probs = {peer: trust[peer].prob for peer in turn.candidates}
        peer, turn.held = self._conversations.choose(known, turn.request, probs)
        return peer

    async def count_tokens(self, namespace: str, request: Request) -> Response:
        """How many tokens a request of Messages has, by the peer that it names or the first that can say."""
        speak = [name for name, peer in self.pool.peers.items() if MESSAGES.name in peer.settings.protocols]
        named = [request.model] if request.model in self.pool.peers else self.pool.usable(speak)
        found = [name for name in named if name in speak]
        if request.model not in self.models or not found:
            raise unknown_model(request.model, "whose upstream counts tokens of messages")
        await self.require_peer(namespace, found[0])
        peer, deadline = self.pool.peers[found[0]], self._context.config.deadline
        body = request.body | {"model": peer.settings.model}
        sent = Sent(MESSAGES, body, request.headers)
        try:
            counted = await peer.post("messages/count_tokens", sent, _check_count, deadline)
        except UpstreamError as error:
            raise error.refused() from error
        return json_response(counted, headers_of({"peer": found[0]}))

    async def embed(self, namespace: str, model: str, body: Body) -> Response:
        """The response to a request for embeddings, which passes through to the peer that it names."""
        if model not in self.pool.peers:
            raise unknown_model(model)
        await self.require_peer(namespace, model)
        peer, deadline = self.pool.peers[model], self._context.config.deadline
        sent = Sent(CHAT, {**body, "model": peer.settings.model}, {})
        try:
            found = await peer.post("embeddings", sent, _check_embeddings, deadline)
        except UpstreamError as error:
            raise error.refused() from error
        usage = CHAT.usage(found)
        cost = 0.0 if usage is None else price_of(peer.settings, usage)
        headers = headers_of({"peer": model, "attempts": 1, "cost": cost})
        return json_response({**found, "model": model}, headers)

    async def require_peer(self, namespace: str, model: str) -> None:
        """Refuse a key of another namespace than the usual one a model that is no peer there."""
        memories, usual = self._context.memories, self._context.config.namespace
        if namespace != usual and model not in (await memories.get(namespace)).mem.peers:
            raise unknown_model(model)


def unknown_model(model: str, which: str = "") -> RefusedError:
    """The response if nobody has this name."""
    expected = f"expected one of GET /v1/models {which}".rstrip()
    return RefusedError(404, "model_not_found", f"model {model!r:.200} is not here; {expected}")


def _check_embeddings(body: Body) -> None:
    if not isinstance(data := body.get("data"), list) or not data:
        raise ValueError("no data")


def _check_count(body: Body) -> None:
    if not isinstance(body.get("input_tokens"), int):
        raise ValueError("no input_tokens")


def best_first(names: Sequence[str], probs: Mapping[str, float], first: str | None = None) -> list[str]:
    """The chosen peer, then the others by p̂."""
    order = sorted(names, key=probs.__getitem__, reverse=True)
    return order if first is None else [first] + [name for name in order if name != first]


# ---- one peer


async def _by_name(calls: Calls, peer: str) -> Response:
    """Pass a request through to the peer that it names: nothing is decided and nothing is recorded."""
    if not calls.can_take(peer):
        raise calls.taken_by_nobody()
    request, stamp = calls.request, Stamp(None, peer)
    try:
        if request.stream:
            stream = await calls.stream(peer)
            headers = headers_of({"peer": peer, "attempts": calls.attempts})
            return events_as_they_come(calls, stream, headers, stamp)
        answer = await calls.complete(peer)
    except UpstreamError as error:
        raise error.refused() from error
    headers = headers_of({"peer": peer, "attempts": calls.attempts, "cost": calls.cost})
    return json_response(request.protocol.stamped(answer, stamp), headers)


async def _by_route(turn: Turn, explore: bool, stays: str | None, observe: str = "") -> Response:
    """Route, ask the chosen peer and, if it fails before its first byte, the next best.

    Parameters
    ----------
    turn : Turn
    explore : bool
        Whether peers that are not the best so far are tried as well.
    stays : str, optional
        The peer that goes on with the conversation, if it can.
    observe : str
        A peer that serves whatever the memory chooses; empty to let the memory choose.
    """
    options, request, calls = turn.request.options, turn.request, turn.calls
    if stays is not None:
        in_loop = request.in_loop is not None
        topic, after = (None, request.in_loop) if in_loop else (options.topic, options.after)
        decision = await turn.memory.quick(
            lambda mem: mem.route(turn.question, topic=topic, among=[stays], after=after, ref=NewRef(turn.id))
        )
        allowed = turn.candidates
    else:
        decision = await turn.memory.quick(
            lambda mem: mem.route(
                turn.question,
                topic=options.topic,
                among=turn.candidates,
                explore=explore,
                max_cost=options.max_cost,
                after=options.after,
                ref=NewRef(turn.id),
            )
        )
        allowed = decision.details["among"]  # those within max_cost
    turn.start_saving()
    if observe and not calls.can_take(observe):
        raise calls.taken_by_nobody()
    for peer in [observe] if observe else best_first(allowed, decision.probs, decision.peer):
        if not calls.seconds_left():
            break
        with suppress(UpstreamError):  # it is then among the failures of the calls
            if request.stream:
                return await _routed_stream(turn, decision, await calls.stream(peer))
            whole = await turn.reply(decision, peer, await calls.complete(peer))
            return json_response(whole.body, whole.headers)
    raise calls.nobody()


async def _routed_stream(turn: Turn, decision: Decision, stream: AnswerStream) -> Response:
    """A routed stream, once the decision is on disk; its cost is known only at its end."""
    try:
        summary = await turn.settle(decision, stream.peer)
    except BaseException:
        await stream.aclose()
        raise
    charge = partial(turn.charge, decision, stream.peer)
    headers = headers_of(summary, without="cost")
    return events_as_they_come(turn.calls, stream, headers, turn.stamp(stream.peer, summary), charge)


# ---- several peers


async def _by_vote(turn: Turn) -> Whole:
    """Ask every candidate at once, vote among those that answered, and reply with the winner's answer.

    If no answer can be read, the vote abstains; the reply is then that of the most competent peer.
    """
    options = turn.request.options
    asked = turn.candidates if options.max_cost is None else await _affordable(turn, options.max_cost)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_completed(turn.calls, peer)) for peer in asked]
    completions = {peer: done for peer, task in zip(asked, tasks, strict=True) if (done := task.result())}
    if not completions:
        raise turn.calls.nobody()
    answers = {peer: turn.request.protocol.answer(completion) for peer, completion in completions.items()}
    said: dict[str, Any] = {"topic": options.topic, "after": options.after, "ref": NewRef(turn.id)}
    decision = await turn.memory.slow(lambda mem: mem.vote(turn.question, answers, **said))
    peer = decision.peer or best_first(list(completions), decision.probs)[0]
    return await turn.reply(decision, peer, completions[peer])


async def _affordable(turn: Turn, most: float) -> list[str]:
    """The most trusted candidates that can be asked together for that much."""

    def choose(mem: SigmaMem) -> list[str]:
        trust = mem.trust(turn.question, topic=turn.request.options.topic)
        order = best_first(turn.candidates, {peer: trust[peer].prob for peer in turn.candidates})
        return affordable(order, expected_costs(mem, turn.question), most)

    return await turn.memory.slow(choose)


async def _completed(calls: Calls, peer: str) -> Body | None:
    """A peer's whole answer; None if it gave none, which is then among the failures of the calls."""
    try:
        return await calls.complete(peer)
    except UpstreamError:
        return None


async def _by_panel(turn: Turn, explore: bool) -> Whole:
    """Ask whom the panel names until it has enough or time is up, and reply with the answer it chose."""
    options, calls, candidates = turn.request.options, turn.calls, turn.candidates
    most, costs = options.max_cost, {}
    if most is not None:
        costs = await turn.memory.slow(lambda mem: expected_costs(mem, turn.question))
        affordable(candidates, costs, most)  # raises if there is no money for anyone
        candidates = [peer for peer in candidates if costs.get(peer, 0.0) <= most]
    panel = await turn.memory.slow(
        lambda mem: mem.ask(
            turn.question,
            topic=options.topic,
            among=candidates,
            explore=explore,
            after=options.after,
            ref=turn.id,
        )
    )
    completions: dict[str, Body] = {}
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
