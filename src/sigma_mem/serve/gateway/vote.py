"""``model="sigma-mem/vote"``: all peers, or those named, answer at once, and the memory votes."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sigma_mem.serve.gateway.completion import answer_in
from sigma_mem.serve.gateway.failure import UpstreamError
from sigma_mem.serve.gateway.pool import best_first
from sigma_mem.serve.gateway.pricing import affordable, expected_costs
from sigma_mem.serve.gateway.reply import ChatReply, whole_reply
from sigma_mem.serve.gateway.turn import Turn
from sigma_mem.session import SigmaMem

Body = dict[str, Any]


async def answer_by_vote(turn: Turn, candidates: Sequence[str]) -> ChatReply:
    """Ask every candidate, vote among those that answered, and reply with the winner's answer.

    Where no answer can be read, the vote abstains; the reply is then that of the most competent peer.
    """
    completions = await _ask_all(turn, await _panel(turn, candidates))
    if not completions:
        raise turn.calls.nobody()
    answers = {peer: answer_in(completion) for peer, completion in completions.items()}
    options, question = turn.chat.options, turn.chat.question
    decision = await turn.memory.slow(
        lambda mem: mem.vote(question, answers, topic=options.topic, after=options.after, ref=turn.id)
    )
    peer = decision.peer or best_first(list(completions), decision.probs)[0]
    return await whole_reply(turn, decision, peer, completions[peer])


async def _panel(turn: Turn, candidates: Sequence[str]) -> Sequence[str]:
    """All candidates or, with a limit on the cost, the most trusted that can be asked together for that."""
    options, question = turn.chat.options, turn.chat.question
    most = options.max_cost
    if most is None:
        return candidates

    def choose(mem: SigmaMem) -> list[str]:
        trust = mem.trust(question, topic=options.topic)
        order = best_first(candidates, {peer: trust[peer].prob for peer in candidates})
        return affordable(order, expected_costs(mem, question), most)

    return await turn.memory.slow(choose)


async def _ask_all(turn: Turn, peers: Sequence[str]) -> Mapping[str, Body]:
    """Whole answers of those that gave one before the deadline, in the order of the pool."""
    async with asyncio.TaskGroup() as group:
        tasks = {peer: group.create_task(_ask(turn, peer)) for peer in peers}
    return {peer: found for peer, task in tasks.items() if (found := task.result()) is not None}


async def _ask(turn: Turn, peer: str) -> Body | None:
    try:
        return await turn.calls.complete(peer)
    except UpstreamError:
        return None  # it is among the failures of the calls
