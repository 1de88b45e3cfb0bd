"""Anthropic's Messages."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from sigma_mem.serve.failures import anthropic_error
from sigma_mem.serve.gateway import protocol as p
from sigma_mem.serve.gateway.protocol import (
    Body,
    EventReader,
    EventWriter,
    Lose,
    Protocol,
    Stamp,
    kind_of,
    mapping,
)

_MAX_TOKENS = 8192  # of an answer, if the request of another protocol sets no limit: here one is required
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_CHOICES = {"auto": "auto", "any": "required", "none": "none", "tool": "named"}
_STOPS: dict[str, p.Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "sequence",
    "tool_use": "tool",
    "refusal": "refusal",
}
_REASONS = {"length": "max_tokens", "sequence": "stop_sequence", "tool": "tool_use", "refusal": "refusal"}
_EMPTY: dict[str, Body] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}


# ---- streams


class _MessagesReader(EventReader):
    _calls = -1

    def feed(self, event: Body) -> Iterator[p.Delta]:
        block, delta = mapping(event.get("content_block")), mapping(event.get("delta"))
        self.usage = (self.usage or p.Usage()).or_more(self.protocol.usage(event))
        if event["type"] == "content_block_start" and block.get("type") == "tool_use":
            self._calls += 1
            yield p.CallDelta(self._calls, str(block.get("id")), str(block.get("name")), "")
        elif event["type"] == "content_block_delta" and delta.get("type") == "text_delta":
            yield p.Text(str(delta.get("text", "")))
        elif event["type"] == "content_block_delta" and delta.get("type") == "input_json_delta":
            yield p.CallDelta(self._calls, "", "", str(delta.get("partial_json", "")))
        elif event["type"] == "message_delta":
            self.stop = _STOPS.get(str(delta.get("stop_reason")), "end")


class _MessagesWriter(EventWriter):
    """Opens a block when its first delta comes, and closes it when another begins."""

    def __init__(self, request: Body) -> None:
        self._open: int | str | None = None  # "text", or the index of a call
        self._seen: set[int] = set()
        self._index = -1

    def write(self, delta: p.Delta) -> Iterator[Body]:
        if self._index < 0 and self._open is None:
            self._index = 0
            yield {"type": "message_start", "message": _message(None, None)}
        match delta:
            case p.Text(text):
                if text:
                    yield from self._block("text", {"type": "text", "text": ""})
                    yield self._delta({"type": "text_delta", "text": text})
            case p.CallDelta(index, id, name, arguments):
                if self._open != index and index in self._seen:
                    raise ValueError("calls of tools that are mixed with each other")
                self._seen.add(index)
                yield from self._block(index, {"type": "tool_use", "id": id, "name": name, "input": {}})
                if arguments:
                    yield self._delta({"type": "input_json_delta", "partial_json": arguments})
            case p.End(stop, usage):
                yield from self._close()
                ended = {"stop_reason": _REASONS.get(stop, "end_turn"), "stop_sequence": None}
                used = MESSAGES.written_usage(usage or p.Usage())
                yield {"type": "message_delta", "delta": ended, "usage": used}
                yield {"type": "message_stop"}

    def _block(self, which: int | str, empty: Body) -> Iterator[Body]:
        if self._open != which:
            yield from self._close()
            self._open = which
            yield {"type": "content_block_start", "index": self._index, "content_block": empty}

    def _delta(self, delta: Body) -> Body:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _close(self) -> Iterator[Body]:
        if self._open is not None:
            yield {"type": "content_block_stop", "index": self._index}
            self._open, self._index = None, self._index + 1


# ---- the protocol


class _Messages(Protocol):
    """``POST /v1/messages``."""

    name, path, prefix, answers, holder = "messages", "messages", "msg_", "content", "message"
    headers, key_header = {"anthropic-version": "2023-06-01", "anthropic-beta": ""}, "x-api-key"
    functions, schema = (None, "custom"), "input_schema"
    known = p.names("system messages tools tool_choice thinking context_management")
    fields: ClassVar = {
        "max_tokens": "max_tokens",
        "temperature": "temperature",
        "top_p": "top_p",
        "stop": "stop_sequences",
        "effort": "output_config.effort",
        "format": "output_config.format",
    }
    reader, writer = _MessagesReader, _MessagesWriter

    def prompt(self, body: Body, lose: Lose) -> p.ModelRequest:
        found, choice = self.plain_fields(body, lose), body.get("tool_choice") or {}
        if mapping(body.get("thinking")).get("type", "disabled") not in ("disabled", "adaptive"):
            lose("thinking")  # adaptive leaves it to the model
        for edit in mapping(body.get("context_management")).get("edits") or ():
            if not edit["type"].startswith("clear_thinking"):  # of which no other protocol has any
                lose("context_management")
        if found.pop("stop"):
            lose("stop_sequences")  # no other protocol says which one ended the answer
        if found["format"]:
            found["format"] = {"type": "json_schema", "name": "answer", "schema": found["format"]["schema"]}
        if "disable_parallel_tool_use" in choice:
            found["parallel"] = not choice["disable_parallel_tool_use"]
        system = body.get("system")
        first = (p.Message("system", tuple(_parts(system, lose))),) if system else ()
        return p.ModelRequest(
            (*first, *(p.Message(x["role"], tuple(_parts(x["content"], lose))) for x in body["messages"])),
            self.tools(body, lose),
            _CHOICES[choice["type"]] if choice else None,
            choice.get("name", ""),
            **found,
        )

    def request(self, prompt: p.ModelRequest, lose: Lose) -> Body:
        messages, system = list(prompt.messages), list[p.Part]()
        while messages and messages[0].role in ("system", "developer"):
            system += messages.pop(0).parts
        choice: Body | None = None
        if prompt.choice is not None or prompt.parallel is False:
            kind = next(key for key, name in _CHOICES.items() if name == (prompt.choice or "auto"))
            named = {"name": prompt.named} if prompt.named else {}
            alone = {"disable_parallel_tool_use": True} if prompt.parallel is False else {}
            choice = {"type": kind, **named, **alone}
        if prompt.temperature is not None and prompt.temperature > 1.0:
            lose("temperature above 1")
        if prompt.effort is not None and prompt.effort not in _EFFORTS:
            lose(f"effort {prompt.effort}")
        format = prompt.format
        if format is not None:
            if format["type"] != "json_schema":
                lose("JSON without a schema")
            format = {"type": "json_schema", "schema": format.get("schema") or {}}
        body = {
            "max_tokens": _MAX_TOKENS,
            "messages": [
                {"role": "system" if x.role == "developer" else x.role, "content": _blocks(x.parts, lose)}
                for x in messages
            ],
            "system": _blocks(system, lose) if system else None,
            "tools": [_written_tool(tool) for tool in prompt.tools] or None,
            "tool_choice": choice,
        }
        return self.with_plain_fields(body, replace(prompt, parallel=None, format=format), lose)

    def with_system(self, body: Body, system: str) -> Body:
        given = body.get("system") or []
        blocks = [{"type": "text", "text": given}] if isinstance(given, str) else given
        return body | {"system": [{"type": "text", "text": system}, *blocks]}

    def reply(self, body: Body) -> p.ModelReply:
        parts: list[p.Text | p.Call] = []
        for block in map(mapping, body["content"]):
            if block.get("type") == "text" and isinstance(block.get("text"), str):
                parts.append(p.Text(block["text"]))
            elif block.get("type") == "tool_use":
                parts.append(_call(block))
        return p.ModelReply(tuple(parts), _STOPS.get(str(body.get("stop_reason")), "end"), self.usage(body))

    def response(self, reply: p.ModelReply, request: Body) -> Body:
        content = _blocks(reply.parts, str, str)  # nothing is lost, and ids stay those that the peer gave
        return _message(_REASONS.get(reply.stop, "end_turn"), reply.usage) | {"content": content}

    def read_usage(self, found: Body) -> p.Usage:
        usage = p.usage_of(
            found.get("input_tokens"),
            found.get("output_tokens"),
            found.get("cache_read_input_tokens"),
            found.get("cache_creation_input_tokens"),
            mapping(found.get("output_tokens_details")).get("thinking_tokens"),
        )
        return replace(usage, input=usage.input + usage.cached + usage.written)

    def written_usage(self, usage: p.Usage) -> Body:
        return {
            "input_tokens": max(0, usage.input - usage.cached - usage.written),
            "output_tokens": usage.output,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": usage.written,
        }

    def is_last(self, event: Body) -> bool:
        return kind_of(event) == "message_stop"

    def stamped_event(self, event: Body, stamp: Stamp) -> Body:
        if event.get("type") == "message_delta" and stamp.summary is not None:
            return event | {"sigma_mem": stamp.summary}
        return super().stamped_event(event, stamp)

    def events(self, body: Body) -> Iterator[Body]:
        ends = {"stop_reason": None, "stop_sequence": None}
        yield {"type": "message_start", "message": {**body, **ends, "content": []}}
        for index, block in enumerate(map(mapping, body["content"])):
            empty = block | _EMPTY.get(block.get("type", ""), {})
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            for delta in _deltas(block):
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        ended = {key: body.get(key) for key in ends}
        yield {"type": "message_delta", "delta": ended, "usage": body.get("usage")}
        yield {"type": "message_stop"}

    def failure(self, message: str, code: str, status: int) -> Body:
        return anthropic_error(super().failure(message, code, status), status)


def _deltas(block: Body) -> Iterator[Body]:
    """What fills a block that began empty."""
    match block.get("type"):
        case "text":
            yield {"type": "text_delta", "text": block.get("text", "")}
        case "tool_use":
            yield {"type": "input_json_delta", "partial_json": p.encode_json(block.get("input")).decode()}
        case "thinking":
            yield {"type": "thinking_delta", "thinking": block.get("thinking", "")}
            yield {"type": "signature_delta", "signature": block.get("signature", "")}


# ---- messages


def _parts(content: Any, lose: Lose) -> Iterator[p.Part]:
    for block in p.blocks_in(content):
        match block["type"]:
            case "text":
                p.lose_others(block, ("type", "text"), lose, "messages.")
                yield p.Text(block["text"])
            case "image":
                p.lose_others(block, ("type", "source"), lose, "messages.")
                yield _image(block["source"], lose)
            case "tool_use":
                p.lose_others(block, ("type", "id", "name", "input", "caller"), lose, "messages.")
                yield _call(block)
            case "tool_result":
                given = tuple(_parts(block.get("content") or (), lose))
                shown = tuple(part for part in given if isinstance(part, p.Text | p.Image))
                yield p.Result(block["tool_use_id"], shown, bool(block.get("is_error")))
            case "thinking" | "redacted_thinking":
                lose("thinking")
            case other:
                lose(f"messages.{other}")


def _image(source: Body, lose: Lose) -> p.Image:
    if source["type"] == "base64":
        return p.Image(f"data:{source['media_type']};base64,{source['data']}")
    if source["type"] != "url":
        lose(f"messages.image.{source['type']}")
    return p.Image(source.get("url", ""))


def _call(block: Body) -> p.Call:
    return p.Call(str(block.get("id")), str(block.get("name")), p.encode_json(block.get("input")).decode())


def _written_tool(tool: p.Tool) -> Body:
    found = p.written_tool(tool, "input_schema")
    found["input_schema"] = tool.schema or {"type": "object", "properties": {}}
    return found | {"strict": True} if tool.strict else found


def _id(id: str) -> str:
    """The id of a call in the characters that Anthropic takes."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id)


def _blocks(parts: Iterable[p.Part], lose: Lose, written: Callable[[str], str] = _id) -> list[Body]:
    blocks: list[Body] = []
    for part in parts:
        match part:
            case p.Text(text):
                if text:  # an empty text block is refused
                    blocks.append({"type": "text", "text": text})
            case p.Image(url, detail):
                if detail != "auto":
                    lose("the detail of an image")
                blocks.append({"type": "image", "source": _source(url)})
            case p.Call(id, name, arguments):
                call = {"type": "tool_use", "id": written(id), "name": name, "input": _input(arguments)}
                blocks.append(call)
            case p.Result(id, given, failed):
                result: Body = {"type": "tool_result", "tool_use_id": written(id)}
                result["content"] = _blocks(given, lose)
                blocks.append(result | {"is_error": True} if failed else result)
    return blocks


def _source(url: str) -> Body:
    head, comma, data = url.partition(",")
    if head.startswith("data:") and head.endswith(";base64") and comma:
        kind = head.removeprefix("data:").removesuffix(";base64")
        return {"type": "base64", "media_type": kind, "data": data}
    return {"type": "url", "url": url}


def _input(arguments: str) -> object:
    """The arguments of a call as a value; if the model wrote no JSON, as the text that it wrote."""
    try:
        return p.decode_json(arguments or "{}")
    except ValueError:
        return {"arguments": arguments}


def _message(reason: str | None, usage: p.Usage | None) -> Body:
    head = {"id": p.new_id("msg_"), "type": "message", "role": "assistant", "model": "", "content": []}
    used = MESSAGES.written_usage(usage or p.Usage())
    return head | {"stop_reason": reason, "stop_sequence": None, "usage": used}


MESSAGES = _Messages()
