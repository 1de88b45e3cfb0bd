"""Anthropic's Messages."""

from collections.abc import Iterable, Iterator
from typing import Any

from sigma_mem.serve.failures import anthropic_error
from sigma_mem.serve.gateway.message import (
    Body,
    Call,
    CallDelta,
    Delta,
    End,
    Image,
    Lose,
    Message,
    ModelReply,
    ModelRequest,
    Part,
    Result,
    Stop,
    Text,
    TextDelta,
    Tool,
    Usage,
    count,
    lose_others,
    losing,
    mapping,
    names,
    new_id,
)
from sigma_mem.serve.gateway.protocol import (
    EventReader,
    EventWriter,
    Protocol,
    Stamp,
    bad_request,
    marked,
    unmarked,
)
from sigma_mem.serve.gateway.wire import decode_json, encode_json

_MAX_TOKENS = 8192  # of an answer, if the request of another protocol sets no limit: here one is required
_KNOWN = names(
    "system messages tools tool_choice max_tokens temperature top_p stop_sequences output_config thinking"
)
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_CHOICES = {"auto": "auto", "any": "required", "none": "none", "tool": "named"}
_STOPS: dict[str, Stop] = {
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


class Messages(Protocol):
    """``POST /v1/messages``."""

    name, path, prefix, answers = "messages", "messages", "msg_", "content"
    headers, key_header = {"anthropic-version": "2023-06-01", "anthropic-beta": ""}, "x-api-key"

    def items(self, body: Body) -> list[Any]:
        """The messages."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise bad_request("messages is missing or empty; expected a list of messages (messages)")
        return messages

    def unmarked(self, body: Body) -> Body:
        """With the upstream's ids of tool calls."""
        return body | {"messages": unmarked(body["messages"])}

    def prompt(self, body: Body, lose: Lose) -> ModelRequest:
        """Read a request."""
        lose_others(body, _KNOWN, lose)
        if mapping(body.get("thinking")).get("type", "disabled") != "disabled":
            lose("thinking")
        output = body.get("output_config") or {}
        lose_others(output, ("effort", "format"), lose, "output_config.")
        if body.get("stop_sequences"):
            lose("stop_sequences")  # no other protocol says which one ended the answer
        choice, system = body.get("tool_choice") or {}, body.get("system")
        format = output.get("format")
        first = (Message("system", tuple(_parts(system, lose))),) if system else ()
        return ModelRequest(
            (*first, *(Message(m["role"], tuple(_parts(m["content"], lose))) for m in body["messages"])),
            tuple(_tools(body.get("tools") or (), lose)),
            _CHOICES[choice["type"]] if choice else None,
            choice.get("name", ""),
            not choice["disable_parallel_tool_use"] if "disable_parallel_tool_use" in choice else None,
            body.get("max_tokens"),
            body.get("temperature"),
            body.get("top_p"),
            (),
            output.get("effort"),
            None,
            {"type": "json_schema", "name": "answer", "schema": format["schema"]} if format else None,
        )

    def request(self, prompt: ModelRequest, lose: Lose) -> Body:
        """Write a request."""
        messages, system = list(prompt.messages), list[Part]()
        while messages and messages[0].role in ("system", "developer"):
            system += messages.pop(0).parts
        body: Body = {"max_tokens": prompt.max_tokens or _MAX_TOKENS}
        body["messages"] = [
            {"role": "system" if m.role == "developer" else m.role, "content": _blocks(m.parts, lose)}
            for m in messages
        ]
        if system:
            body["system"] = _blocks(system, lose)
        if prompt.tools:
            body["tools"] = [_written_tool(tool) for tool in prompt.tools]
        if prompt.choice is not None or prompt.parallel is False:
            kind = next(key for key, choice in _CHOICES.items() if choice == (prompt.choice or "auto"))
            body["tool_choice"] = {"type": kind} | ({"name": prompt.named} if prompt.named else {})
            if prompt.parallel is False:
                body["tool_choice"]["disable_parallel_tool_use"] = True
        if prompt.temperature is not None and prompt.temperature > 1.0:
            lose("temperature above 1")
        if prompt.verbosity is not None:
            lose("verbosity")
        output: Body = {}
        if prompt.effort is not None:
            output["effort"] = prompt.effort
            if prompt.effort not in _EFFORTS:
                lose(f"effort {prompt.effort}")
        if prompt.format is not None:
            if prompt.format["type"] != "json_schema":
                lose("JSON without a schema")
            output["format"] = {"type": "json_schema", "schema": prompt.format.get("schema") or {}}
        others = {
            "temperature": prompt.temperature,
            "top_p": prompt.top_p,
            "stop_sequences": list(prompt.stop) or None,
            "output_config": output or None,
        }
        return body | {key: value for key, value in others.items() if value is not None}

    def adjusted(self, body: Body, system: str, effort: str) -> Body:
        """With an upstream's system prompt and effort."""
        if system:
            given = body.get("system") or []
            blocks = [{"type": "text", "text": given}] if isinstance(given, str) else given
            body = body | {"system": [{"type": "text", "text": system}, *blocks]}
        if effort:
            body = body | {"output_config": mapping(body.get("output_config")) | {"effort": effort}}
        return body

    def reply(self, body: Body) -> ModelReply:
        """Read a response; what the model thought is not part of its answer."""
        parts: list[Text | Call] = []
        for block in map(mapping, body["content"]):
            if block.get("type") == "text" and isinstance(block.get("text"), str):
                parts.append(Text(block["text"]))
            elif block.get("type") == "tool_use":
                parts.append(_call(block))
        return ModelReply(tuple(parts), _STOPS.get(str(body.get("stop_reason")), "end"), self.usage(body))

    def response(self, reply: ModelReply, request: Body) -> Body:
        """Write a response."""
        return _message(_REASONS.get(reply.stop, "end_turn"), _usage(reply.usage or Usage())) | {
            "content": _blocks(reply.parts, losing(()))
        }

    def stamped(self, body: Body, stamp: Stamp) -> Body:
        """Under the gateway's names."""
        content = [_marked(block, stamp) for block in body.get("content") or ()]
        return stamp.on(body) | {"content": content}

    def usage(self, body: Body) -> Usage | None:
        """Of a response or an event."""
        found = mapping(body.get("message")).get("usage") or body.get("usage")
        if not isinstance(found, dict):
            return None
        cached = count(found.get("cache_read_input_tokens"))
        written = count(found.get("cache_creation_input_tokens"))
        return Usage(
            count(found.get("input_tokens")) + cached + written,
            count(found.get("output_tokens")),
            cached,
            written,
            count(mapping(found.get("output_tokens_details")).get("thinking_tokens")),
        )

    def is_last(self, event: Body) -> bool:
        """Whether the message is whole."""
        if event.get("type") == "error" or not isinstance(event.get("type"), str):
            raise ValueError("an error in its stream" if event.get("type") else "events without a type")
        return bool(event["type"] == "message_stop")

    def reader(self) -> EventReader:
        """For its events."""
        return _MessagesReader(self)

    def writer(self, request: Body) -> EventWriter:
        """For its events."""
        return _MessagesWriter()

    def stamped_event(self, event: Body, stamp: Stamp) -> Body:
        """An event under the gateway's names."""
        if isinstance(message := event.get("message"), dict):
            return event | {"message": self.stamped(message, stamp)}
        if event.get("type") == "content_block_start":
            return event | {"content_block": _marked(event.get("content_block"), stamp)}
        if event.get("type") == "message_delta" and stamp.summary is not None:
            return event | {"sigma_mem": stamp.summary}
        return event

    def events(self, body: Body) -> Iterator[Body]:
        """Every block at once, and how the message ended."""
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

    def error(self, message: str, code: str, status: int) -> Body:
        """Anthropic's error; the code, which it has no field for, is behind the type."""
        return anthropic_error(super().error(message, code, status), status)


def _marked(block: Any, stamp: Stamp) -> Any:
    """A block with the response's id in its call."""
    if mapping(block).get("type") != "tool_use":
        return block
    return block | {"id": marked(block.get("id"), stamp.id)}


def _deltas(block: Body) -> Iterator[Body]:
    """What fills a block that began empty."""
    match block.get("type"):
        case "text":
            yield {"type": "text_delta", "text": block.get("text", "")}
        case "tool_use":
            yield {"type": "input_json_delta", "partial_json": encode_json(block.get("input")).decode()}
        case "thinking":
            yield {"type": "thinking_delta", "thinking": block.get("thinking", "")}
            yield {"type": "signature_delta", "signature": block.get("signature", "")}


# ---- messages


def _parts(content: Any, lose: Lose) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(content)
        return
    for block in content:
        match block["type"]:
            case "text":
                lose_others(block, ("type", "text"), lose, "messages.")
                yield Text(block["text"])
            case "image":
                lose_others(block, ("type", "source"), lose, "messages.")
                yield _image(block["source"], lose)
            case "tool_use":
                lose_others(block, ("type", "id", "name", "input", "caller"), lose, "messages.")
                yield _call(block)
            case "tool_result":
                given = tuple(_parts(block.get("content") or (), lose))
                shown = tuple(part for part in given if isinstance(part, Text | Image))
                yield Result(block["tool_use_id"], shown, bool(block.get("is_error")))
            case "thinking" | "redacted_thinking":
                lose("thinking")
            case other:
                lose(f"messages.{other}")


def _image(source: Body, lose: Lose) -> Image:
    if source["type"] == "base64":
        return Image(f"data:{source['media_type']};base64,{source['data']}")
    if source["type"] != "url":
        lose(f"messages.image.{source['type']}")
    return Image(source.get("url", ""))


def _call(block: Body) -> Call:
    return Call(str(block.get("id")), str(block.get("name")), encode_json(block.get("input")).decode())


def _tools(tools: Iterable[Body], lose: Lose) -> Iterator[Tool]:
    known = ("type", "name", "description", "input_schema", "strict", "eager_input_streaming")
    for tool in tools:
        if tool.get("type") not in (None, "custom"):
            lose(f"tools.{tool['type']}")
            continue
        lose_others(tool, known, lose, "tools.")
        schema = tool.get("input_schema") or {}
        yield Tool(tool["name"], tool.get("description"), schema, tool.get("strict"))


def _written_tool(tool: Tool) -> Body:
    found: Body = {"name": tool.name, "input_schema": tool.schema or {"type": "object", "properties": {}}}
    if tool.description is not None:
        found["description"] = tool.description
    return found | {"strict": True} if tool.strict else found


def _blocks(parts: Iterable[Part], lose: Lose) -> list[Body]:
    blocks: list[Body] = []
    for part in parts:
        match part:
            case Text(text):
                if text:  # an empty text block is refused
                    blocks.append({"type": "text", "text": text})
            case Image(url, detail):
                if detail != "auto":
                    lose("the detail of an image")
                blocks.append({"type": "image", "source": _source(url)})
            case Call(id, name, arguments):
                call = {"type": "tool_use", "id": id, "name": name, "input": _input(arguments)}
                blocks.append(call)
            case Result(id, given, failed):
                result: Body = {"type": "tool_result", "tool_use_id": id, "content": _blocks(given, lose)}
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
        return decode_json(arguments or "{}")
    except ValueError:
        return {"arguments": arguments}


def _usage(usage: Usage) -> Body:
    return {
        "input_tokens": max(0, usage.input - usage.cached - usage.written),
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.written,
    }


def _message(reason: str | None, usage: Body) -> Body:
    head = {"id": new_id("msg_"), "type": "message", "role": "assistant", "model": "", "content": []}
    return head | {"stop_reason": reason, "stop_sequence": None, "usage": usage}


# ---- streams


class _MessagesReader(EventReader):
    def __init__(self, protocol: Messages) -> None:
        self._protocol = protocol
        self._stop: Stop = "end"
        self._usage = Usage()
        self._calls = -1

    def feed(self, event: Body) -> Iterator[Delta]:
        block, delta = mapping(event.get("content_block")), mapping(event.get("delta"))
        self._usage = self._usage.or_more(self._protocol.usage(event))
        if event["type"] == "content_block_start" and block.get("type") == "tool_use":
            self._calls += 1
            yield CallDelta(self._calls, str(block.get("id")), str(block.get("name")), "")
        elif event["type"] == "content_block_delta" and delta.get("type") == "text_delta":
            yield TextDelta(str(delta.get("text", "")))
        elif event["type"] == "content_block_delta" and delta.get("type") == "input_json_delta":
            yield CallDelta(self._calls, "", "", str(delta.get("partial_json", "")))
        elif event["type"] == "message_delta":
            self._stop = _STOPS.get(str(delta.get("stop_reason")), "end")

    def end(self) -> End:
        return End(self._stop, self._usage)


class _MessagesWriter(EventWriter):
    """Opens a block when its first delta comes, and closes it when another begins."""

    def __init__(self) -> None:
        self._open: int | str | None = None  # "text", or the index of a call
        self._seen: set[int] = set()
        self._index = -1

    def write(self, delta: Delta) -> Iterator[Body]:
        if self._index < 0 and self._open is None:
            self._index = 0
            yield {"type": "message_start", "message": _message(None, _usage(Usage()))}
        match delta:
            case TextDelta(text):
                if text:
                    yield from self._block("text", {"type": "text", "text": ""})
                    yield self._delta({"type": "text_delta", "text": text})
            case CallDelta(index, id, name, arguments):
                if self._open != index and index in self._seen:
                    raise ValueError("calls of tools that are mixed with each other")
                self._seen.add(index)
                yield from self._block(index, {"type": "tool_use", "id": id, "name": name, "input": {}})
                if arguments:
                    yield self._delta({"type": "input_json_delta", "partial_json": arguments})
            case End(stop, usage):
                yield from self._close()
                ended = {"stop_reason": _REASONS.get(stop, "end_turn"), "stop_sequence": None}
                yield {"type": "message_delta", "delta": ended, "usage": _usage(usage or Usage())}
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
