"""``model="sigma-mem/ask"``: peers are asked one after the other, until the answer is sure enough."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sigma_mem.events import Answer
from sigma_mem.serve.gateway.completion import answer_in
from sigma_mem.serve.gateway.failure import UpstreamError
from sigma_mem.serve.gateway.pool import best_first
from sigma_mem.serve.gateway.pricing import affordable, expected_costs
from sigma_mem.serve.gateway.reply import ChatReply, whole_reply
from sigma_mem.serve.gateway.turn import Turn
from sigma_mem.session import SigmaMem
from sigma_mem.session.panel import Panel

Body = dict[str, Any]


async def answer_by_panel(turn: Turn, candidates: Sequence[str]) -> ChatReply:
    """Ask whom the panel names until it has enough or time is up, and reply with the answer it chose."""
    options, question = turn.chat.options, turn.chat.question
    most, costs = options.max_cost, {}
    if most is not None:
        costs = await turn.memory.slow(lambda mem: expected_costs(mem, question))
        affordable(candidates, costs, most)  # raises where there is no money for anyone
        candidates = [peer for peer in candidates if costs.get(peer, 0.0) <= most]
    panel = await turn.memory.slow(
        lambda mem: mem.ask(
            question,
            topic=options.topic,
            among=candidates,
            explore=turn.explore,
            after=options.after,
            ref=turn.id,
        )
    )
    completions: dict[str, Body] = {}
    while (peer := panel.next) is not None and turn.calls.seconds_left():
        if most is not None and turn.calls.cost + costs.get(peer, 0.0) > most:
            break
        with suppress(UpstreamError):  # it is then among the failures of the calls
            completions[peer] = await turn.calls.complete(peer)
        answer = answer_in(completions[peer]) if peer in completions else None
        await turn.memory.slow(partial(_add, panel, peer, answer))
    if not completions:
        raise turn.calls.nobody()
    decision = panel.decision
    chosen = decision.peer if decision.peer in completions else None
    served = chosen or best_first(list(completions), decision.probs)[0]
    return await whole_reply(turn, decision, served, completions[served])


def _add(panel: Panel, peer: str, answer: Answer | str | None, mem: SigmaMem) -> bool:
    return panel.add(peer, answer)
