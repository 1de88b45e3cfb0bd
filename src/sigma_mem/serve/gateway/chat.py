"""``POST /v1/chat/completions``: which way a request is answered."""

from starlette.responses import Response

from sigma_mem.serve.context import Context
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway.ask import answer_by_panel
from sigma_mem.serve.gateway.calls import Calls, refused_by
from sigma_mem.serve.gateway.chat_request import ChatRequest
from sigma_mem.serve.gateway.failure import UpstreamError
from sigma_mem.serve.gateway.pool import Pool
from sigma_mem.serve.gateway.pricing import Pricing
from sigma_mem.serve.gateway.reply import ChatReply, headers_of, json_response
from sigma_mem.serve.gateway.route import answer_by_route
from sigma_mem.serve.gateway.streaming import chunks_when_there, untouched_chunks
from sigma_mem.serve.gateway.turn import Turn
from sigma_mem.serve.gateway.vote import answer_by_vote

ROUTE = "sigma-mem"
WHOLE = {
    "sigma-mem/vote": answer_by_vote,
    "sigma-mem/ask": answer_by_panel,
}  # models that wait for several peers' whole answers


def model_names(pool: Pool) -> list[str]:
    """Every name that a request's `model` may have."""
    return [ROUTE, *WHOLE, *pool.names] if pool.names else []


async def answer_chat(
    context: Context, pool: Pool, pricing: Pricing, namespace: str, chat: ChatRequest
) -> Response:
    """The response to a chat request: by the peer that it names, or as the memory decides."""
    config = context.config
    if chat.model not in model_names(pool):
        raise unknown_model(chat.model)
    calls = Calls(chat, pool, config.deadline)
    if chat.model in pool:
        await require_peer(context, namespace, chat.model)
        return await _answer_by_name(calls, chat.model)
    memory = await context.memories.get(namespace)
    await pricing.tell(memory)
    turn = Turn(context, calls, memory)
    candidates = turn.candidates()
    stays = await turn.peer_in_loop(candidates)
    if chat.model == ROUTE or stays is not None:
        return await answer_by_route(turn, candidates, stays=stays, observe=config.observe)
    answer = WHOLE[chat.model](turn, candidates)
    return await chunks_when_there(answer, chat.wants_usage) if chat.stream else json_response(await answer)


async def _answer_by_name(calls: Calls, peer: str) -> Response:
    """Pass a request through to the peer that it names: nothing is decided and nothing is recorded."""
    try:
        if calls.chat.stream:
            return untouched_chunks(calls, await calls.stream(peer))
        completion = await calls.complete(peer)
    except UpstreamError as error:
        raise refused_by(error) from error
    headers = headers_of({"peer": peer, "attempts": calls.attempts, "cost": calls.cost})
    return json_response(ChatReply({**completion, "model": peer}, headers))


async def require_peer(context: Context, namespace: str, model: str) -> None:
    """Refuse a key of another namespace than the usual one a model that is no peer there."""
    usual = context.config.namespace
    if namespace != usual and model not in (await context.memories.get(namespace)).mem.peers:
        raise unknown_model(model)


def unknown_model(model: str) -> RefusedError:
    """The response where nobody has this name."""
    return RefusedError(
        404, "model_not_found", f"model {model!r:.200} is not here; expected one of GET /v1/models"
    )
