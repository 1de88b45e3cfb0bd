"""A completion as the client gets it: our id, the peer that served, what all upstreams used."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from sigma_mem.events import Decision
from sigma_mem.serve.gateway.tool_loop import mark_calls
from sigma_mem.serve.gateway.turn import Turn

Body = dict[str, Any]
_IN_HEADERS = ("decision", "peer", "confidence", "attempts", "cost")


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A whole completion, and the headers that go with it."""

    completion: Body
    headers: Mapping[str, str]


async def whole_reply(turn: Turn, decision: Decision, peer: str, completion: Body) -> ChatReply:
    """The peer's completion, once the decision is on disk: its id leaves with it."""
    await turn.settle(decision, peer)
    summary = turn.summary(decision, peer)
    body = {**completion, "id": turn.id, "model": peer, "sigma_mem": summary}
    if (usage := turn.calls.usage()) is not None:
        body["usage"] = usage
    mark_calls(body["choices"], turn.id)
    return ChatReply(body, headers_of(summary))


def headers_of(summary: Mapping[str, Any], without: str = "") -> dict[str, str]:
    """The headers of a response; values of no decision are left out."""
    named = {key: summary[key] for key in _IN_HEADERS if summary.get(key) is not None and key != without}
    return {f"x-sigma-mem-{key}": _text(value) for key, value in named.items()}


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def json_response(reply: ChatReply) -> Response:
    """The whole completion as one body."""
    return Response(json.dumps(reply.completion), headers=dict(reply.headers), media_type="application/json")
