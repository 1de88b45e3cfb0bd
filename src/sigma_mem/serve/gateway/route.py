"""``model="sigma-mem"``: one peer answers, the one that the memory trusts most here."""

from starlette.responses import Response

from sigma_mem.events import Decision
from sigma_mem.serve.gateway.failure import UpstreamError
from sigma_mem.serve.gateway.pool import best_first
from sigma_mem.serve.gateway.reply import json_response, whole_reply
from sigma_mem.serve.gateway.streaming import passing_chunks
from sigma_mem.serve.gateway.turn import Turn


async def answer_by_route(
    turn: Turn, candidates: list[str], *, stays: str | None = None, observe: str = ""
) -> Response:
    """Route, ask the chosen peer and, where it fails before its first byte, the next best.

    Parameters
    ----------
    turn : Turn
    candidates : list of str
        Who may answer.
    stays : str, optional
        The peer that the conversation stays with while it can.
    observe : str
        A peer that serves whatever the memory chooses; empty to let the memory choose.
    """
    decision = await _decide(turn, candidates, turn.explore and not observe, stays)
    turn.start_saving()
    allowed = candidates if stays is not None else decision.details["among"]  # those within max_cost
    order = [observe] if observe else best_first(allowed, decision.probs, decision.peer)
    for peer in order:
        if not turn.calls.seconds_left():
            break
        try:
            if turn.chat.stream:
                return await passing_chunks(turn, decision, await turn.calls.stream(peer))
            return json_response(await whole_reply(turn, decision, peer, await turn.calls.complete(peer)))
        except UpstreamError:
            continue  # it is among the failures of the calls
    raise turn.calls.nobody()


async def _decide(turn: Turn, candidates: list[str], explore: bool, stays: str | None) -> Decision:
    options, question = turn.chat.options, turn.chat.question
    if stays is not None:
        return await turn.memory.quick(
            lambda mem: mem.route(question, among=[stays], after=turn.chat.in_loop, ref=turn.id)
        )
    return await turn.memory.quick(
        lambda mem: mem.route(
            question,
            topic=options.topic,
            among=candidates,
            explore=explore,
            max_cost=options.max_cost,
            after=options.after,
            ref=turn.id,
        )
    )
