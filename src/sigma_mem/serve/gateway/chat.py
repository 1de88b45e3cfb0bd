"""OpenAI's Chat Completions."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from sigma_mem.serve.gateway.message import (
    FAILED,
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
    mapping,
    names,
    new_id,
    text_of,
)
from sigma_mem.serve.gateway.protocol import (
    EventReader,
    EventWriter,
    Protocol,
    Request,
    Stamp,
    bad_request,
    marked,
    unmarked,
)
from sigma_mem.serve.gateway.wire import event_bytes

_KNOWN = names(
    "messages tools tool_choice parallel_tool_calls max_tokens max_completion_tokens temperature top_p stop "
    "reasoning_effort verbosity response_format n"
)
_STOPS: dict[str, Stop] = {"length": "length", "tool_calls": "tool", "content_filter": "refusal"}
_FINISHES = {"length": "length", "tool": "tool_calls", "refusal": "content_filter"}


class Chat(Protocol):
    """``POST /v1/chat/completions``."""

    name, path, prefix, answers = "chat", "chat/completions", "chatcmpl-", "choices"
    last = b"data: [DONE]\n\n"

    def items(self, body: Body) -> list[Any]:
        """The messages."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise bad_request("messages is missing or empty; expected a list of chat messages (messages)")
        return messages

    def unmarked(self, body: Body) -> Body:
        """With the upstream's ids of tool calls."""
        return body | {"messages": unmarked(body["messages"])}

    def prompt(self, body: Body, lose: Lose) -> ModelRequest:
        """Read a request."""
        lose_others(body, _KNOWN, lose)
        if body.get("n") not in (None, 1):
            lose("n")
        choice, stop = body.get("tool_choice"), body.get("stop") or ()
        return ModelRequest(
            tuple(_messages(body["messages"], lose)),
            tuple(_tools(body.get("tools") or (), lose)),
            "named" if isinstance(choice, dict) else choice,
            choice["function"]["name"] if isinstance(choice, dict) else "",
            body.get("parallel_tool_calls"),
            body.get("max_completion_tokens") or body.get("max_tokens"),
            body.get("temperature"),
            body.get("top_p"),
            (stop,) if isinstance(stop, str) else tuple(stop),
            body.get("reasoning_effort"),
            body.get("verbosity"),
            _format(body.get("response_format")),
        )

    def request(self, prompt: ModelRequest, lose: Lose) -> Body:
        """Write a request."""
        messages = [written for message in prompt.messages for written in _written(message, lose)]
        body: Body = {"messages": messages}
        if prompt.tools:
            body["tools"] = [{"type": "function", "function": _function(tool)} for tool in prompt.tools]
        if prompt.choice is not None:
            named = {"type": "function", "function": {"name": prompt.named}}
            body["tool_choice"] = named if prompt.choice == "named" else prompt.choice
        if prompt.format is not None:
            body["response_format"] = dict(prompt.format)
            if (kind := prompt.format["type"]) == "json_schema":
                schema = {key: value for key, value in prompt.format.items() if key != "type"}
                body["response_format"] = {"type": kind, "json_schema": schema}
        others = {
            "parallel_tool_calls": prompt.parallel,
            "max_completion_tokens": prompt.max_tokens,
            "temperature": prompt.temperature,
            "top_p": prompt.top_p,
            "stop": list(prompt.stop) or None,
            "reasoning_effort": prompt.effort,
            "verbosity": prompt.verbosity,
        }
        return body | {key: value for key, value in others.items() if value is not None}

    def adjusted(self, body: Body, system: str, effort: str) -> Body:
        """With an upstream's system prompt and effort."""
        if system:
            body = body | {"messages": [{"role": "system", "content": system}, *body["messages"]]}
        return body | {"reasoning_effort": effort} if effort else body

    def streaming(self, body: Body, usage: bool) -> Body:
        """For a stream; the usage is sent to who asks for it."""
        if usage:
            asked = mapping(body.get("stream_options")) | {"include_usage": True}
            body = body | {"stream_options": asked}
        return body | {"stream": True}

    def check(self, body: Body) -> None:
        """Refuse what is no answer."""
        super().check(body)
        if not body["choices"]:
            raise ValueError("no choices")

    def reply(self, body: Body) -> ModelReply:
        """Read a response; only its first choice."""
        choices = body.get("choices")
        choice = mapping(choices[0]) if isinstance(choices, list) and choices else {}
        message = mapping(choice.get("message"))
        content, calls, parts = message.get("content"), message.get("tool_calls"), list[Text | Call]()
        if isinstance(content, str) and content:
            parts.append(Text(content))
        elif isinstance(content, list):  # parts, as some servers send them
            texts = (mapping(part).get("text") for part in content)
            parts += [Text(text) for text in texts if isinstance(text, str)]
        if isinstance(refusal := message.get("refusal"), str) and refusal:
            parts.append(Text(refusal))
            return ModelReply(tuple(parts), "refusal", self.usage(body))
        parts += [_call(call) for call in (calls if isinstance(calls, list) else ())]
        return ModelReply(tuple(parts), _STOPS.get(str(choice.get("finish_reason")), "end"), self.usage(body))

    def response(self, reply: ModelReply, request: Body) -> Body:
        """Write a response."""
        calls = [part for part in reply.parts if isinstance(part, Call)]
        message: Body = {"role": "assistant", "content": text_of(reply.parts) or None, "refusal": None}
        if calls:
            message["tool_calls"] = [_written_call(call) for call in calls]
        choice = {"index": 0, "message": message, "logprobs": None}
        choice["finish_reason"] = _FINISHES.get(reply.stop, "stop")
        head = {
            "id": new_id("chatcmpl-"),
            "object": "chat.completion",
            "created": int(time.time()),
            "model": "",
        }
        return head | {"choices": [choice], "usage": reply.usage and _usage(reply.usage)}

    def stamped(self, body: Body, stamp: Stamp) -> Body:
        """Under the gateway's names."""
        return stamp.on(body) | {"choices": [_marked(choice, stamp) for choice in body["choices"]]}

    def usage(self, body: Body) -> Usage | None:
        """Of a response or a chunk."""
        if not isinstance(found := body.get("usage"), dict):
            return None
        prompt = mapping(found.get("prompt_tokens_details"))
        return Usage(
            count(found.get("prompt_tokens")),
            count(found.get("completion_tokens")),
            count(prompt.get("cached_tokens")),
            count(prompt.get("cache_write_tokens")),
            count(mapping(found.get("completion_tokens_details")).get("reasoning_tokens")),
        )

    def is_last(self, event: Body) -> bool:
        """Whether a chunk has a choice that ended."""
        if not isinstance(choices := event.get("choices"), list):
            raise ValueError("JSON without choices")
        return any(mapping(choice).get("finish_reason") for choice in choices)

    def reader(self) -> EventReader:
        """For its chunks."""
        return _ChatReader(self)

    def writer(self, request: Body) -> EventWriter:
        """For its chunks."""
        return _ChatWriter(mapping(request.get("stream_options")).get("include_usage") is True)

    def stamped_event(self, event: Body, stamp: Stamp) -> Body:
        """A chunk under the gateway's names."""
        return self.stamped(event, stamp)

    def is_for_us(self, event: Body, request: Request) -> bool:
        """Whether this is the chunk with the usage, and the client did not ask for it."""
        wanted = mapping(request.body.get("stream_options")).get("include_usage") is True
        return "usage" in event and not event["choices"] and not wanted

    def events(self, body: Body) -> Iterator[Body]:
        """Every choice at once, how it ended, and the usage."""
        head = {key: body[key] for key in body if key not in ("choices", "usage", "sigma_mem")}
        head["object"] = "chat.completion.chunk"
        said, ends = [], []
        for choice in filter(None, map(mapping, body["choices"])):
            index = {"index": choice.get("index", 0)}
            logprobs = {"logprobs": choice["logprobs"]} if choice.get("logprobs") else {}
            delta = dict(mapping(choice.get("message")))
            if isinstance(calls := delta.get("tool_calls"), list):
                delta["tool_calls"] = [{"index": i} | mapping(call) for i, call in enumerate(calls)]
            said.append({**index, "delta": delta, "finish_reason": None, **logprobs})
            ends.append({**index, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"})
        yield {**head, "choices": said, "sigma_mem": body.get("sigma_mem")}
        yield {**head, "choices": ends}
        yield {**head, "choices": [], "usage": body.get("usage")}

    def event(self, body: Body) -> bytes:
        """Its events have no names."""
        return event_bytes(body)


def _head(kind: str) -> Body:
    return {"id": new_id("chatcmpl-"), "object": kind, "created": int(time.time()), "model": ""}


def _marked(choice: Any, stamp: Stamp) -> Any:
    """A choice of a response or a chunk with the response's id in its calls."""
    field = next((key for key in ("message", "delta") if isinstance(mapping(choice).get(key), dict)), None)
    if field is None or not isinstance(calls := choice[field].get("tool_calls"), list):
        return choice
    named = [
        call | {"id": marked(call["id"], stamp.id)} if isinstance(call, dict) and call.get("id") else call
        for call in calls
    ]
    return choice | {field: choice[field] | {"tool_calls": named}}


# ---- messages


def _messages(messages: list[Any], lose: Lose) -> Iterator[Message]:
    results: list[Part] = []
    for message in messages:
        if message["role"] == "tool":
            results.append(Result(message["tool_call_id"], tuple(_parts(message["content"], lose))))
            continue
        if results:
            yield Message("user", tuple(results))
            results = []
        known = ("role", "content", "tool_calls", "annotations")
        lose_others(message, known, lose, "messages.")
        calls = [_call(call) for call in message.get("tool_calls") or ()]
        if any(call["type"] != "function" for call in message.get("tool_calls") or ()):
            lose("messages.tool_calls")
        yield Message(message["role"], (*_parts(message.get("content"), lose), *calls))
    if results:
        yield Message("user", tuple(results))


def _parts(content: Any, lose: Lose) -> Iterator[Text | Image]:
    if isinstance(content, str):
        yield Text(content)
        return
    for part in content or ():
        match part["type"]:
            case "text":
                yield Text(part["text"])
            case "image_url":
                yield Image(part["image_url"]["url"], part["image_url"].get("detail") or "auto")
            case other:
                lose(f"messages.{other}")


def _call(call: Any) -> Call:
    function = mapping(mapping(call).get("function"))
    return Call(
        str(mapping(call).get("id", "")), str(function.get("name", "")), str(function.get("arguments", ""))
    )


def _tools(tools: Iterable[Body], lose: Lose) -> Iterator[Tool]:
    for tool in tools:
        if tool["type"] != "function":
            lose(f"tools.{tool['type']}")
            continue
        found = tool["function"]
        schema = found.get("parameters") or {}
        yield Tool(found["name"], found.get("description"), schema, found.get("strict"))


def _function(tool: Tool) -> Body:
    found: Body = {"name": tool.name, "parameters": tool.schema}
    if tool.description is not None:
        found["description"] = tool.description
    return found if tool.strict is None else found | {"strict": tool.strict}


def _format(given: Any) -> Body | None:
    if given is None or given["type"] == "text":
        return None
    return {"type": given["type"]} | mapping(given.get("json_schema"))


def _written(message: Message, lose: Lose) -> Iterator[Body]:
    """The messages of chat that say what one turn says."""
    results = [part for part in message.parts if isinstance(part, Result)]
    calls = [part for part in message.parts if isinstance(part, Call)]
    others = [part for part in message.parts if isinstance(part, Text | Image)]
    if list(message.parts) != [*results, *others, *calls]:
        lose("the order of texts and tool calls")
    for result in results:
        if any(isinstance(part, Image) for part in result.parts):
            lose("images in the results of tools")
        texts = [Text(FAILED), *result.parts] if result.failed else result.parts
        yield {"role": "tool", "tool_call_id": result.id, "content": _content(texts)}
    if calls:
        content = _content(others) if others else None
        yield {"role": message.role, "content": content, "tool_calls": [_written_call(c) for c in calls]}
    elif others or not results:
        yield {"role": message.role, "content": _content(others)}


def _content(parts: Any) -> Any:
    """One text as it is; several parts as a list."""
    if all(isinstance(part, Text) for part in parts) and len(parts) <= 1:
        return text_of(parts)
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": {"url": part.url, "detail": part.detail}}
        for part in parts
    ]


def _written_call(call: Call) -> Body:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _usage(usage: Usage) -> Body:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.written},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


# ---- streams


class _ChatReader(EventReader):
    def __init__(self, protocol: Chat) -> None:
        self._protocol = protocol
        self._stop: Stop = "end"
        self._usage: Usage | None = None

    def feed(self, event: Body) -> Iterator[Delta]:
        self._usage = self._protocol.usage(event) or self._usage
        for choice in map(mapping, event["choices"][:1]):
            delta = mapping(choice.get("delta"))
            if isinstance(text := delta.get("content") or delta.get("refusal"), str):
                yield TextDelta(text)
            for call in delta.get("tool_calls") or ():
                found = _call(call)
                yield CallDelta(count(call.get("index")), found.id, found.name, found.arguments)
            if isinstance(finish := choice.get("finish_reason"), str):
                self._stop = _STOPS.get(finish, "end")

    def end(self) -> End:
        return End(self._stop, self._usage)


class _ChatWriter(EventWriter):
    def __init__(self, with_usage: bool) -> None:
        self._with_usage, self._begun = with_usage, False
        head = {
            "id": new_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": "",
        }
        self._head: Body = head

    def write(self, delta: Delta) -> Iterator[Body]:
        if not self._begun:
            self._begun = True
            yield self._chunk({"role": "assistant", "content": ""})
        match delta:
            case TextDelta(text):
                yield self._chunk({"content": text})
            case CallDelta(index, id, name, arguments):
                call: Body = {"index": index, "function": {"arguments": arguments}}
                if id:
                    call |= {"id": id, "type": "function"}
                    call["function"]["name"] = name
                yield self._chunk({"tool_calls": [call]})
            case End(stop, usage):
                yield self._chunk({}, _FINISHES.get(stop, "stop"))
                if usage is not None and self._with_usage:
                    yield self._head | {"choices": [], "usage": _usage(usage)}

    def _chunk(self, delta: Body, finish: str | None = None) -> Body:
        return self._head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
