"""Tool loops: a conversation that comes back with a tool's result stays with the peer that called the tool.

The id of a tool call carries the id of the completion that it came with. So no memory of open conversations
is needed: any replica, also after a restart, finds the decision in the ledger. The upstream sees its own ids.
"""

import re
from collections.abc import Sequence
from typing import Any

_MARKED = re.compile(r"(?s)(.*)~(chatcmpl-[0-9a-f]{1,64})")  # the call's own id, the completion's
_RESULTS = ("tool", "function")


def mark_calls(choices: Sequence[Any], completion: str) -> None:
    """Put the completion's id into the tool calls of an answer's or a chunk's choices; in place."""
    for choice in choices:
        said = choice.get("message") or choice.get("delta") if isinstance(choice, dict) else None
        calls = said.get("tool_calls") if isinstance(said, dict) else None
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict) and isinstance(call.get("id"), str) and call["id"]:
                call["id"] = f"{call['id']}~{completion}"


def unmarked(messages: Sequence[Any]) -> list[Any]:
    """The messages with the ids that the upstream gave its calls."""
    return [_unmarked(message) for message in messages]


def _unmarked(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    if isinstance(message.get("tool_call_id"), str):
        message = {**message, "tool_call_id": _own(message["tool_call_id"])}
    if isinstance(message.get("tool_calls"), list):
        calls = [
            {**call, "id": _own(call["id"])}
            if isinstance(call, dict) and isinstance(call.get("id"), str)
            else call
            for call in message["tool_calls"]
        ]
        message = {**message, "tool_calls": calls}
    return message


def _own(id: str) -> str:
    found = _MARKED.fullmatch(id)
    return found[1] if found else id


def completion_in_loop(messages: Sequence[Any]) -> str | None:
    """The id of the completion whose tool calls the last messages answer; None outside a loop.

    >>> completion_in_loop([{"role": "user"}, {"role": "tool", "tool_call_id": "call_1~chatcmpl-7"}])
    'chatcmpl-7'
    """
    last = messages[-1] if messages else None
    if not isinstance(last, dict) or last.get("role") not in _RESULTS:
        return None
    id = last.get("tool_call_id")
    found = _MARKED.fullmatch(id) if isinstance(id, str) else None
    return found[2] if found else None
