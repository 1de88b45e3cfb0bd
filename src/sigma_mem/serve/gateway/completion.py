"""Chat completions as values: what was used, what it cost, what was said, and what the client gets to see."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from sigma_mem.events import Answer
from sigma_mem.serve.config import Upstream
from sigma_mem.serve.gateway.parsing import clean_unicode, decode_json

Body = dict[str, Any]


def summed_usage(usages: Iterable[object]) -> Body | None:
    """Token counts of several answers, added up key by key; None where none was reported.

    >>> summed_usage([{"total_tokens": 3, "details": {"cached": 1}}, None, {"total_tokens": 4}])
    {'total_tokens': 7, 'details': {'cached': 1}}
    """
    found = [usage for usage in usages if isinstance(usage, Mapping)]
    return _added(found) if found else None


def _added(counts: list[Mapping[str, Any]]) -> Body:
    total: Body = {}
    for key in dict.fromkeys(key for count in counts for key in count):
        values = [count[key] for count in counts if count.get(key) is not None]
        nested = [value for value in values if isinstance(value, Mapping)]
        if nested:
            total[key] = _added(nested)
        elif values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            total[key] = sum(values)
        else:
            total[key] = values[0] if values else None
    return total


def price_of(upstream: Upstream, usage: object) -> float:
    """What a call cost at the upstream's prices, which are those of a million tokens."""
    counts = usage if isinstance(usage, Mapping) else {}
    prompt, answered = (_count(counts.get(key)) for key in ("prompt_tokens", "completion_tokens"))
    return (prompt * upstream.input_price + answered * upstream.output_price) / 1e6


def _count(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e12 else 0.0


def answer_in(completion: Mapping[str, Any]) -> Answer | str | None:
    """What the first choice says, to be voted on; calls of tools are equal where name and arguments are."""
    message = first_message(completion)
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        canon = json.dumps([_call(call) for call in calls], sort_keys=True)
        return Answer(canon, canon)
    content = message.get("content")
    if isinstance(content, list):  # parts, as some servers send them
        content = "\n".join(
            p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str)
        )
    return clean_unicode(content) if isinstance(content, str) and content.strip() else None


def first_message(completion: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message of the first choice; empty where there is none."""
    choices = completion.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return message if isinstance(message, dict) else {}


def _call(call: object) -> object:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    arguments = function.get("arguments")
    with suppress(ValueError):  # compared as the text that it is
        arguments = decode_json(arguments) if isinstance(arguments, str) else arguments
    return [function.get("name"), arguments]


def as_chunks(completion: Mapping[str, Any], with_usage: bool) -> Iterator[Body]:
    """A whole completion as the chunks of a stream: every choice at once, how it ended, and what it used."""
    head = {key: completion[key] for key in completion if key not in ("choices", "usage", "sigma_mem")}
    head["object"] = "chat.completion.chunk"
    choices = [choice for choice in completion["choices"] if isinstance(choice, dict)]
    said = [
        {"index": c.get("index", 0), "delta": _delta(c.get("message")), "finish_reason": None}
        | ({"logprobs": c["logprobs"]} if c.get("logprobs") else {})
        for c in choices
    ]
    yield {**head, "choices": said, "sigma_mem": completion.get("sigma_mem")}
    ends = [
        {"index": c.get("index", 0), "delta": {}, "finish_reason": c.get("finish_reason") or "stop"}
        for c in choices
    ]
    yield {**head, "choices": ends}
    if with_usage:
        yield {**head, "choices": [], "usage": completion.get("usage")}


def _delta(message: object) -> Body:
    delta = dict(message) if isinstance(message, dict) else {}
    if isinstance(delta.get("tool_calls"), list):
        delta["tool_calls"] = [
            {"index": i, **call} for i, call in enumerate(delta["tool_calls"]) if isinstance(call, dict)
        ]
    return delta
