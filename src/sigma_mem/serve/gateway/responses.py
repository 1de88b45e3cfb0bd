"""OpenAI's Responses."""

import re
import time
from collections.abc import Iterable, Iterator
from itertools import count as numbers
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
    Stamp,
    bad_request,
    marked,
    unmarked,
)

_OURS = re.compile(r"(resp_[0-9a-f]{24})(?:--(.+))?\Z")  # our id, and the upstream's behind it if it keeps it
_KNOWN = names(
    "input instructions tools tool_choice parallel_tool_calls max_output_tokens include temperature top_p "
    "reasoning text truncation"
)
_ECHOED = names(
    "instructions max_output_tokens metadata previous_response_id reasoning temperature text top_p user"
)
_ENDS = ("response.completed", "response.incomplete")
_CUT: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "refusal"}


class Responses(Protocol):
    """``POST /v1/responses``."""

    name, path, prefix, answers = "responses", "responses", "resp_", "output"

    def items(self, body: Body) -> list[Any]:
        """The items of the input; a text is the user's."""
        given = body.get("input")
        if isinstance(given, str) and given:
            return [{"role": "user", "content": given}]
        if not isinstance(given, list) or not given:
            raise bad_request("input is missing or empty; expected a text or a list of items (input)")
        if body.get("background"):
            raise bad_request(
                "background is true; expected false: the gateway keeps no responses (background)"
            )
        return given

    def earlier(self, body: Body) -> str | None:
        """The response that this request goes on from, if it is one of the gateway's."""
        found = _OURS.match(str(body.get("previous_response_id")))
        if found is None:
            return None
        if found[2] is None:
            raise bad_request(
                f"the peer of {found[1]} keeps no responses; expected the whole conversation in input "
                "(previous_response_id)"
            )
        return found[1]

    def unmarked(self, body: Body) -> Body:
        """With the upstream's ids of calls and of the earlier response."""
        sent = body | {"input": unmarked(body["input"])} if isinstance(body["input"], list) else body
        if self.earlier(body) is not None:
            sent = sent | {"previous_response_id": body["previous_response_id"].partition("--")[2]}
        return sent

    def prompt(self, body: Body, lose: Lose) -> ModelRequest:
        """Read a request."""
        lose_others(body, _KNOWN, lose)
        reasoning, text = body.get("reasoning") or {}, body.get("text") or {}
        lose_others(reasoning, ("effort",), lose, "reasoning.")
        lose_others(text, ("format", "verbosity"), lose, "text.")
        for each in body.get("include") or ():
            if each != "reasoning.encrypted_content":  # it only comes with reasoning
                lose(f"include.{each}")
        if body.get("truncation") not in (None, "disabled"):
            lose("truncation")
        choice, format = body.get("tool_choice"), text.get("format") or {"type": "text"}
        if isinstance(choice, dict) and choice["type"] != "function":
            lose(f"tool_choice.{choice['type']}")
            choice = None
        instructions = body.get("instructions")
        first = (Message("system", (Text(instructions),)),) if instructions else ()
        return ModelRequest(
            (*first, *_turns(self.items(body), lose)),
            tuple(_tools(body.get("tools") or (), lose)),
            "named" if isinstance(choice, dict) else choice,
            choice["name"] if isinstance(choice, dict) else "",
            body.get("parallel_tool_calls"),
            body.get("max_output_tokens"),
            body.get("temperature"),
            body.get("top_p"),
            (),
            reasoning.get("effort"),
            text.get("verbosity"),
            None if format["type"] == "text" else format,
        )

    def request(self, prompt: ModelRequest, lose: Lose) -> Body:
        """Write a request; the upstream need not keep it, since the client cannot ask for it."""
        if prompt.stop:
            lose("stop")
        body: Body = {"input": [item for m in prompt.messages for item in _items(m)], "store": False}
        if prompt.tools:
            body["tools"] = [_written_tool(tool) for tool in prompt.tools]
        if prompt.choice is not None:
            named = {"type": "function", "name": prompt.named}
            body["tool_choice"] = named if prompt.choice == "named" else prompt.choice
        text: Body = {}
        if prompt.format is not None:
            text["format"] = prompt.format
        if prompt.verbosity is not None:
            text["verbosity"] = prompt.verbosity
        others = {
            "parallel_tool_calls": prompt.parallel,
            "max_output_tokens": prompt.max_tokens,
            "temperature": prompt.temperature,
            "top_p": prompt.top_p,
            "reasoning": None if prompt.effort is None else {"effort": prompt.effort},
            "text": text or None,
        }
        return body | {key: value for key, value in others.items() if value is not None}

    def adjusted(self, body: Body, system: str, effort: str) -> Body:
        """With an upstream's system prompt and effort."""
        if system:
            said = [system, body["instructions"]] if body.get("instructions") else [system]
            body = body | {"instructions": "\n\n".join(said)}
        if effort:
            body = body | {"reasoning": mapping(body.get("reasoning")) | {"effort": effort}}
        return body

    def check(self, body: Body) -> None:
        """Refuse what is no answer, a failed one included."""
        super().check(body)
        if body.get("status") in ("failed", "cancelled", "queued", "in_progress"):
            raise ValueError(f"a response that is {body['status']}")

    def reply(self, body: Body) -> ModelReply:
        """Read a response; what the model thought is not part of its answer."""
        parts: list[Text | Call] = []
        stop: Stop = "end"
        for item in map(mapping, body["output"]):
            if item.get("type") == "function_call":
                parts.append(_call(item))
                stop = "tool"
            for part in map(mapping, item.get("content") or () if item.get("type") == "message" else ()):
                said = part.get("text") or part.get("refusal")
                parts += [Text(said)] if isinstance(said, str) else []
                stop = "refusal" if part.get("type") == "refusal" else stop
        reason = mapping(body.get("incomplete_details")).get("reason")
        return ModelReply(tuple(parts), _CUT.get(str(reason), stop), self.usage(body))

    def response(self, reply: ModelReply, request: Body) -> Body:
        """Write a response."""
        output: list[Body] = [_call_item(part) for part in reply.parts if isinstance(part, Call)]
        if text := text_of(reply.parts):
            output = [_message_item(text), *output]
        return _ended(_response(request), output, reply.stop, reply.usage)

    def stamped(self, body: Body, stamp: Stamp) -> Body:
        """Under the gateway's names; if the upstream keeps the response, its own id is behind ours."""
        named = stamp.on(body)
        if stamp.id is not None and stamp.kept and body.get("store") is not False:
            named["id"] = f"{stamp.id}--{body['id']}"
        return named | {"output": [_marked(item, stamp) for item in body.get("output") or ()]}

    def usage(self, body: Body) -> Usage | None:
        """Of a response or an event."""
        found = mapping(body.get("response")).get("usage") or body.get("usage")
        if not isinstance(found, dict):
            return None
        prompt = mapping(found.get("input_tokens_details"))
        return Usage(
            count(found.get("input_tokens")),
            count(found.get("output_tokens")),
            count(prompt.get("cached_tokens")),
            count(prompt.get("cache_write_tokens")),
            count(mapping(found.get("output_tokens_details")).get("reasoning_tokens")),
        )

    def is_last(self, event: Body) -> bool:
        """Whether the response is whole."""
        kind = event.get("type")
        if kind in ("error", "response.failed") or not isinstance(kind, str):
            raise ValueError("an error in its stream" if kind else "events without a type")
        return kind in _ENDS

    def reader(self) -> EventReader:
        """For its events."""
        return _ResponsesReader(self)

    def writer(self, request: Body) -> EventWriter:
        """For its events."""
        return _ResponsesWriter(_response(request))

    def stamped_event(self, event: Body, stamp: Stamp) -> Body:
        """An event under the gateway's names."""
        if isinstance(response := event.get("response"), dict):
            return event | {"response": self.stamped(response, stamp)}
        if "item" in event:
            return event | {"item": _marked(event["item"], stamp)}
        return event

    def events(self, body: Body) -> Iterator[Body]:
        """Every item at once, and the whole response."""
        writer = _ResponsesWriter({**body, "status": "in_progress", "output": []})
        yield from writer.begin()
        for item in map(mapping, body["output"]):
            yield from writer.whole(item)
        yield writer.event(str(body.get("status", "completed")), response=body)

    def failure(self, message: str, code: str, status: int) -> Body:
        """The event of a response that failed."""
        failed = {"status": "failed", "error": {"code": "server_error", "message": message}}
        return {"type": "response.failed", "sequence_number": 0, "response": _response({}) | failed}


def _marked(item: Any, stamp: Stamp) -> Any:
    """An item with the response's id in its call."""
    if not mapping(item).get("call_id"):
        return item
    return item | {"call_id": marked(item["call_id"], stamp.id)}


# ---- items


def _turns(items: Iterable[Any], lose: Lose) -> Iterator[Message]:
    """Items as turns: what the model said and called in a row is one, and so are the results of its calls."""
    role, parts = "", list[Part]()
    for item in items:
        kind = item.get("type") or "message"
        match kind:
            case "message":
                whose, said = item["role"], list[Part](_parts(item["content"], lose))
            case "function_call":
                whose, said = "assistant", [_call(item)]
            case "function_call_output":
                whose, said = "results", [Result(item["call_id"], tuple(_parts(item["output"], lose)))]
            case other:
                lose("reasoning" if other == "reasoning" else f"input.{other}")
                continue
        if whose == role and role in ("assistant", "results"):
            parts += said
            continue
        if parts:
            yield Message("user" if role == "results" else role, tuple(parts))
        role, parts = whose, said
    if parts:
        yield Message("user" if role == "results" else role, tuple(parts))


def _parts(content: Any, lose: Lose) -> Iterator[Text | Image]:
    if isinstance(content, str):
        yield Text(content)
        return
    for part in content:
        match part["type"]:
            case "input_text" | "output_text" | "text":
                if part.get("annotations"):
                    lose("input.annotations")
                yield Text(part["text"])
            case "refusal":
                yield Text(part["refusal"])
            case "input_image" if part.get("image_url"):
                yield Image(part["image_url"], part.get("detail") or "auto")
            case other:
                lose(f"input.{other}")


def _call(item: Body) -> Call:
    return Call(str(item.get("call_id")), str(item.get("name")), str(item.get("arguments", "")))


def _tools(tools: Iterable[Body], lose: Lose) -> Iterator[Tool]:
    for tool in tools:
        if tool["type"] != "function":
            lose(f"tools.{tool['type']}")
            continue
        lose_others(tool, ("type", "name", "description", "parameters", "strict"), lose, "tools.")
        yield Tool(tool["name"], tool.get("description"), tool.get("parameters") or {}, tool.get("strict"))


def _written_tool(tool: Tool) -> Body:
    found: Body = {"type": "function", "name": tool.name, "parameters": tool.schema}
    if tool.description is not None:
        found["description"] = tool.description
    return found | {"strict": bool(tool.strict)}  # true by default here, and false in other protocols


def _items(message: Message) -> Iterator[Body]:
    """The items that say what one turn says, in its order."""
    said: list[Text | Image] = []
    for part in (*message.parts, None):
        if isinstance(part, Text | Image):
            said.append(part)
            continue
        if said:
            yield {"type": "message", "role": message.role, "content": _content(said, message.role)}
            said = []
        if isinstance(part, Call):
            call = {"call_id": part.id, "name": part.name, "arguments": part.arguments}
            yield {"type": "function_call", **call}
        elif isinstance(part, Result):
            given = [Text(FAILED), *part.parts] if part.failed else list(part.parts)
            output = _content(given, "user") if given else ""
            yield {"type": "function_call_output", "call_id": part.id, "output": output}


def _content(parts: list[Text | Image], role: str) -> Any:
    """One text as it is; several parts as a list."""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    kind = "output_text" if role == "assistant" else "input_text"
    return [
        {"type": kind, "text": part.text}
        if isinstance(part, Text)
        else {"type": "input_image", "image_url": part.url, "detail": part.detail}
        for part in parts
    ]


# ---- responses


def _response(request: Body) -> Body:
    """A response in which nothing was said yet."""
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": "",
        "output": [],
        "parallel_tool_calls": request.get("parallel_tool_calls") is not False,
        "store": False,
        "tool_choice": request.get("tool_choice") or "auto",
        "tools": request.get("tools") or [],
        "usage": None,
        **{key: request.get(key) for key in _ECHOED},
    }


def _ended(response: Body, output: list[Body], stop: Stop, usage: Usage | None) -> Body:
    reason = next((reason for reason, cut in _CUT.items() if cut == stop), None)
    return response | {
        "status": "completed" if reason is None else "incomplete",
        "incomplete_details": None if reason is None else {"reason": reason},
        "output": output,
        "usage": None if usage is None else _usage(usage),
    }


def _message_item(text: str) -> Body:
    said = {"status": "completed", "content": [_text_part(text)]}
    return {"id": new_id("msg_"), "type": "message", "role": "assistant", **said}


def _text_part(text: str) -> Body:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call_item(call: Call) -> Body:
    said = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
    return {"id": new_id("fc_"), "type": "function_call", "status": "completed", **said}


def _usage(usage: Usage) -> Body:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.written},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


# ---- streams


class _ResponsesReader(EventReader):
    def __init__(self, protocol: Responses) -> None:
        self._protocol = protocol
        self._calls: dict[object, int] = {}  # by the index of an item
        self._argued: set[object] = set()
        self._last: ModelReply | None = None

    def feed(self, event: Body) -> Iterator[Delta]:
        at, item = event.get("output_index"), mapping(event.get("item"))
        match event["type"]:
            case "response.output_text.delta" | "response.refusal.delta":
                yield TextDelta(str(event.get("delta", "")))
            case "response.output_item.added" if item.get("type") == "function_call":
                self._calls[at] = len(self._calls)
                call = _call(item)
                yield CallDelta(self._calls[at], call.id, call.name, "")
            case "response.function_call_arguments.delta" if at in self._calls:
                self._argued.add(at)
                yield CallDelta(self._calls[at], "", "", str(event.get("delta", "")))
            case "response.output_item.done" if at in self._calls and at not in self._argued:
                yield CallDelta(self._calls[at], "", "", _call(item).arguments)
            case "response.completed" | "response.incomplete":
                self._last = self._protocol.reply(event["response"])

    def end(self) -> End:
        return End("end", None) if self._last is None else End(self._last.stop, self._last.usage)


class _ResponsesWriter(EventWriter):
    """Opens an item when its first delta comes, and closes it when another begins."""

    def __init__(self, response: Body) -> None:
        self._response, self._numbers = response, numbers()
        self._output: list[Body] = []
        self._item: Body | None = None  # the one that is open, and what was said of its text or arguments
        self._said = ""
        self._call, self._begun = -1, False

    def event(self, kind: str, **fields: Any) -> Body:
        """The next event."""
        return {"type": f"response.{kind}", "sequence_number": next(self._numbers), **fields}

    def begin(self) -> Iterator[Body]:
        """The response has no items yet."""
        self._begun = True
        for kind in ("created", "in_progress"):
            yield self.event(kind, response=self._response)

    def whole(self, item: Body) -> Iterator[Body]:
        """An item at once; the texts of a message and the arguments of a call are deltas."""
        kind, parts = item.get("type"), list[Body]()
        if kind == "message":
            parts = [mapping(part) for part in item.get("content") or ()]
        empty: Body = {"content": []} if kind == "message" else {}
        if kind == "function_call":
            empty = {"arguments": ""}
        yield from self._open(item | empty)
        for part in parts:
            if part.get("type") == "output_text":
                yield from self._text(part.get("text", ""))
                yield from self._text_done(part)
        if kind == "function_call":
            yield self._arguments(item.get("arguments", ""))
        yield from self._close(item)

    def write(self, delta: Delta) -> Iterator[Body]:
        """The events that say this."""
        if not self._begun:
            yield from self.begin()
        match delta:
            case TextDelta(text):
                if text and (self._item is None or self._item["type"] != "message"):
                    yield from self._close()
                    yield from self._open(_message_item("") | {"status": "in_progress", "content": []})
                if text:
                    yield from self._text(text)
            case CallDelta(index, id, name, arguments):
                if index < self._call:
                    raise ValueError("calls of tools that are mixed with each other")
                if index > self._call:
                    self._call = index
                    yield from self._close()
                    yield from self._open(_call_item(Call(id, name, "")) | {"status": "in_progress"})
                if arguments:
                    yield self._arguments(arguments)
            case End(stop, usage):
                yield from self._close()
                ended = _ended(self._response, self._output, stop, usage)
                yield self.event(ended["status"], response=ended)

    def _open(self, item: Body) -> Iterator[Body]:
        self._item, self._said = item, ""
        yield self.event("output_item.added", output_index=len(self._output), item=item)

    def _of_item(self, kind: str, **fields: Any) -> Body:
        where = {"item_id": mapping(self._item).get("id"), "output_index": len(self._output)}
        return self.event(kind, **where, **fields)

    def _text(self, text: str) -> Iterator[Body]:
        at = {"content_index": len(mapping(self._item)["content"])}
        if not self._said:
            yield self._of_item("content_part.added", **at, part=_text_part(""))
        self._said += text
        yield self._of_item("output_text.delta", **at, delta=text, logprobs=[])

    def _text_done(self, part: Body) -> Iterator[Body]:
        content = mapping(self._item)["content"]
        at = {"content_index": len(content)}
        yield self._of_item("output_text.done", **at, text=part.get("text"), logprobs=[])
        yield self._of_item("content_part.done", **at, part=part)
        self._item, self._said = mapping(self._item) | {"content": [*content, part]}, ""

    def _arguments(self, text: str) -> Body:
        self._said += text
        return self._of_item("function_call_arguments.delta", delta=text)

    def _close(self, whole: Body | None = None) -> Iterator[Body]:
        """Close the item that is open, if one is; `whole` is how it ends, if that is known."""
        if self._item is None:
            return
        if self._item["type"] == "message" and self._said:
            yield from self._text_done(_text_part(self._said))
        elif self._item["type"] == "function_call":
            said = {"arguments": self._said}
            yield self._of_item("function_call_arguments.done", **said, name=self._item.get("name"))
            self._item = self._item | said
        item = self._item | {"status": "completed"} if whole is None else whole
        yield self.event("output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)
        self._item = None
