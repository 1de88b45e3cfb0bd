"""OpenAI's Chat Completions."""

import time
from collections.abc import Collection, Iterator
from typing import Any, ClassVar

from sigma_mem.serve.gateway import protocol as p
from sigma_mem.serve.gateway.protocol import Body, EventReader, EventWriter, Lose, Protocol, Request, mapping

_STOPS: dict[str, p.Stop] = {"length": "length", "tool_calls": "tool", "content_filter": "refusal"}
_BELOW = "The images of this result are in the user's next message."
_FINISHES = {"length": "length", "tool": "tool_calls", "refusal": "content_filter"}


# ---- streams


def _stop(finish: object, called: bool) -> p.Stop:
    """How an answer ended; some servers say "stop" after calls of tools."""
    stop = _STOPS.get(str(finish), "end")
    return "tool" if called and stop == "end" else stop


class _ChatReader(EventReader):
    """Numbers calls by their ids: some servers give each the index 0."""

    def __init__(self, protocol: Protocol) -> None:
        super().__init__(protocol)
        self._ids: list[str] = []
        self._at: dict[object, int] = {}  # the call that an index stands for now

    def feed(self, event: Body) -> Iterator[p.Delta]:
        self.usage = self.protocol.usage(event) or self.usage
        for choice in map(mapping, event["choices"][:1]):
            delta = mapping(choice.get("delta"))
            if isinstance(text := delta.get("content") or delta.get("refusal"), str):
                yield p.Text(text)
            for call in map(mapping, delta.get("tool_calls") or ()):
                index, found = call.get("index"), _call(call)
                if index not in self._at or (found.id and found.id != self._ids[self._at[index]]):
                    self._at[index] = len(self._ids)
                    self._ids.append(found.id)
                yield p.CallDelta(self._at[index], found.id, found.name, found.arguments)
            if finish := choice.get("finish_reason"):
                self.stop = _stop(finish, bool(self._ids))


class _ChatWriter(EventWriter):
    def __init__(self, request: Body) -> None:
        self._with_usage = mapping(request.get("stream_options")).get("include_usage") is True
        self._begun = False
        self._head = _head("chat.completion.chunk")

    def write(self, delta: p.Delta) -> Iterator[Body]:
        if not self._begun:
            self._begun = True
            yield self._chunk({"role": "assistant", "content": ""})
        match delta:
            case p.Text(text):
                yield self._chunk({"content": text})
            case p.CallDelta(index, id, name, arguments):
                call: Body = {"index": index, "function": {"arguments": arguments}}
                if id:
                    call |= {"id": id, "type": "function"}
                    call["function"]["name"] = name
                yield self._chunk({"tool_calls": [call]})
            case p.End(stop, usage):
                yield self._chunk({}, _FINISHES.get(stop, "stop"))
                if usage is not None and self._with_usage:
                    yield self._head | {
                        "choices": [],
                        "usage": CHAT.written_usage(usage),
                    }

    def _chunk(self, delta: Body, finish: str | None = None) -> Body:
        return self._head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


# ---- the protocol


class _Chat(Protocol):
    """``POST /v1/chat/completions``."""

    name, path, prefix, answers = "chat", "chat/completions", "chatcmpl-", "choices"
    tokens = "prompt_tokens", "completion_tokens"
    known = p.names("messages tools tool_choice max_tokens modalities n")
    fields: ClassVar = {
        "parallel": "parallel_tool_calls",
        "max_tokens": "max_completion_tokens",
        "temperature": "temperature",
        "top_p": "top_p",
        "stop": "stop",
        "effort": "reasoning_effort",
        "verbosity": "verbosity",
        "format": "response_format",
    }
    last, reader, writer = b"data: [DONE]\n\n", _ChatReader, _ChatWriter

    def prompt(self, body: Body, lose: Lose) -> p.ModelRequest:
        found, choice = self.plain_fields(body, lose), body.get("tool_choice")
        for field, usual in (("n", 1), ("modalities", ["text"])):
            if body.get(field) not in (None, usual):
                lose(field)
        found["max_tokens"] = found["max_tokens"] or body.get("max_tokens")
        found["stop"] = [found["stop"]] if isinstance(found["stop"], str) else found["stop"] or None
        found["format"] = _format(found["format"])
        return p.ModelRequest(
            tuple(_messages(body["messages"], lose)),
            self.tools(body, lose),
            "named" if isinstance(choice, dict) else choice,
            choice["function"]["name"] if isinstance(choice, dict) else "",
            **found,
        )

    def request(self, prompt: p.ModelRequest, lose: Lose) -> Body:
        named = {"type": "function", "function": {"name": prompt.named}}
        body = {
            "messages": [said for message in prompt.messages for said in _written(message, lose)],
            "tools": [{"type": "function", "function": _function(tool)} for tool in prompt.tools] or None,
            "tool_choice": named if prompt.choice == "named" else prompt.choice,
        }
        body = self.with_plain_fields(body, prompt, lose)
        if prompt.format is not None and prompt.format["type"] == "json_schema":
            schema = {key: value for key, value in prompt.format.items() if key != "type"}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def with_system(self, body: Body, system: str) -> Body:
        return body | {"messages": [{"role": "system", "content": system}, *body["messages"]]}

    def streaming(self, body: Body, usage: bool) -> Body:
        if usage:
            asked = mapping(body.get("stream_options")) | {"include_usage": True}
            body = body | {"stream_options": asked}
        return body | {"stream": True}

    def check(self, body: Body) -> None:
        if not isinstance(choices := body.get("choices"), list) or not choices:
            raise ValueError("JSON without choices" if choices != [] else "no choices")

    def reply(self, body: Body) -> p.ModelReply:
        choices = body.get("choices")
        choice = mapping(choices[0]) if isinstance(choices, list) and choices else {}
        message = mapping(choice.get("message"))
        content, calls, parts = message.get("content"), message.get("tool_calls"), list[p.Text | p.Call]()
        if isinstance(content, str) and content:
            parts.append(p.Text(content))
        elif isinstance(content, list):  # parts, as some servers send them
            texts = (mapping(part).get("text") for part in content)
            parts += [p.Text(text) for text in texts if isinstance(text, str)]
        if isinstance(refusal := message.get("refusal"), str) and refusal:
            parts.append(p.Text(refusal))
            return p.ModelReply(tuple(parts), "refusal", self.usage(body))
        called = [_call(call) for call in (calls if isinstance(calls, list) else ())]
        stop = _stop(choice.get("finish_reason"), bool(called))
        return p.ModelReply((*parts, *called), stop, self.usage(body))

    def response(self, reply: p.ModelReply, request: Body) -> Body:
        calls = [part for part in reply.parts if isinstance(part, p.Call)]
        message: Body = {"role": "assistant", "content": p.text_of(reply.parts) or None, "refusal": None}
        if calls:
            message["tool_calls"] = [_written_call(call) for call in calls]
        choice = {"index": 0, "message": message, "logprobs": None}
        choice["finish_reason"] = _FINISHES.get(reply.stop, "stop")
        usage = reply.usage and self.written_usage(reply.usage)
        return _head("chat.completion") | {"choices": [choice], "usage": usage}

    def is_last(self, event: Body) -> bool:
        if not isinstance(choices := event.get("choices"), list):
            raise ValueError("JSON without choices")
        return any(mapping(choice).get("finish_reason") for choice in choices)

    def is_for_us(self, event: Body, request: Request) -> bool:
        wanted = mapping(request.body.get("stream_options")).get("include_usage") is True
        return "usage" in event and not event["choices"] and not wanted

    def events(self, body: Body) -> Iterator[Body]:
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


def _head(kind: str) -> Body:
    return {"id": p.new_id("chatcmpl-"), "object": kind, "created": int(time.time()), "model": ""}


# ---- messages


def _messages(messages: list[Any], lose: Lose) -> Iterator[p.Message]:
    results: list[p.Part] = []
    for message in messages:
        if message["role"] == "tool":
            results.append(p.Result(message["tool_call_id"], tuple(_parts(message["content"], lose))))
            continue
        if results:
            yield p.Message("user", tuple(results))
            results = []
        known = ("role", "content", "tool_calls", "annotations")
        p.lose_others(message, known, lose, "messages.")
        calls = [_call(call) for call in message.get("tool_calls") or ()]
        if any(call["type"] != "function" for call in message.get("tool_calls") or ()):
            lose("messages.tool_calls")
        yield p.Message(message["role"], (*_parts(message.get("content"), lose), *calls))
    if results:
        yield p.Message("user", tuple(results))


def _parts(content: Any, lose: Lose) -> Iterator[p.Text | p.Image]:
    for part in p.blocks_in(() if content is None else content):
        match part["type"]:
            case "text":
                yield p.Text(part["text"])
            case "image_url":
                yield p.Image(part["image_url"]["url"], part["image_url"].get("detail") or "auto")
            case other:
                lose(f"messages.{other}")


def _call(call: Any) -> p.Call:
    call, function = mapping(call), mapping(mapping(call).get("function"))
    said = call.get("id"), function.get("name"), function.get("arguments")
    return p.Call(*(str(each or "") for each in said))  # some servers send nulls


def _function(tool: p.Tool) -> Body:
    found = p.written_tool(tool, "parameters")
    return found if tool.strict is None else found | {"strict": tool.strict}


def _format(given: Any) -> Body | None:
    if given is None or given["type"] == "text":
        return None
    return {"type": given["type"]} | mapping(given.get("json_schema"))


def _written(message: p.Message, lose: Lose) -> Iterator[Body]:
    """The messages of chat that say what one turn says."""
    results = [part for part in message.parts if isinstance(part, p.Result)]
    calls = [part for part in message.parts if isinstance(part, p.Call)]
    others = [part for part in message.parts if isinstance(part, p.Text | p.Image)]
    role = "system" if message.role == "developer" else message.role  # which few servers but OpenAI's know
    if list(message.parts) != [*results, *others, *calls] and not calls:  # a text has no place next to calls
        lose("the order of texts and results of tools")
    for result in results:
        texts = [part for part in result.parts if isinstance(part, p.Text)]
        if len(texts) < len(result.parts):  # a tool's message has no place for images
            shown = [part for part in result.parts if isinstance(part, p.Image)]
            texts.append(p.Text(_BELOW))
            others = [*others, p.Text(f"The images of the result {result.id}:"), *shown]
        texts = [p.Text(p.FAILED), *texts] if result.failed else texts
        yield {"role": "tool", "tool_call_id": result.id, "content": _content(texts)}
    if calls:
        content = _content(others) if others else None
        yield {"role": role, "content": content, "tool_calls": [_written_call(c) for c in calls]}
    elif others or not results:
        yield {"role": role, "content": _content(others)}


def _content(parts: Collection[p.Part]) -> Any:
    return p.content_of(
        parts, "text", lambda i: {"type": "image_url", "image_url": {"url": i.url, "detail": i.detail}}
    )


def _written_call(call: p.Call) -> Body:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


CHAT = _Chat()
