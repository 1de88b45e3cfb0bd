"""OpenAI's Responses."""

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count as numbers
from typing import Any, ClassVar

from sigma_mem.serve.gateway import protocol as p
from sigma_mem.serve.gateway.protocol import (
    Body,
    EventReader,
    EventWriter,
    Fitting,
    Lose,
    Protocol,
    Request,
    Stamp,
    bad_request,
    kind_of,
    mapping,
)

_OURS = re.compile(r"(resp_[0-9a-f]{24})(?:--(.+))?\Z")  # our id, and the upstream's behind it if it keeps it
_ECHOED = p.names(
    "instructions max_output_tokens metadata previous_response_id reasoning temperature text top_p user"
)
_ENDS = ("response.completed", "response.incomplete")
_CUT: dict[str, p.Stop] = {"max_output_tokens": "length", "content_filter": "refusal"}


# ---- streams


class _ResponsesReader(EventReader):
    def __init__(self, protocol: Protocol) -> None:
        super().__init__(protocol)
        self._calls: dict[object, int] = {}  # by the index of an item
        self._argued: set[object] = set()

    def feed(self, event: Body) -> Iterator[p.Delta]:
        at, item = event.get("output_index"), mapping(event.get("item"))
        match event["type"]:
            case "response.output_text.delta" | "response.refusal.delta":
                yield p.Text(str(event.get("delta", "")))
            case "response.output_item.added" if item.get("type") == "function_call":
                self._calls[at] = len(self._calls)
                call = _call(item)
                yield p.CallDelta(self._calls[at], call.id, call.name, "")
            case "response.function_call_arguments.delta" if at in self._calls:
                self._argued.add(at)
                yield p.CallDelta(self._calls[at], "", "", str(event.get("delta", "")))
            case "response.output_item.done" if at in self._calls and at not in self._argued:
                yield p.CallDelta(self._calls[at], "", "", _call(item).arguments)
            case "response.completed" | "response.incomplete":
                ended = self.protocol.reply(event["response"])
                self.stop, self.usage = ended.stop, ended.usage


class _ResponsesWriter(EventWriter):
    """Opens an item when its first delta comes, and closes it when another begins."""

    def __init__(self, request: Body) -> None:
        self.begun, self._numbers = _response(request), numbers()  # the response before anything was said
        self._output: list[Body] = []
        self._item: Body | None = None  # the one that is open, and what was said of its text or arguments
        self._said = ""
        self._call, self._began = -1, False

    def event(self, kind: str, **fields: Any) -> Body:
        """The next event."""
        return {"type": f"response.{kind}", "sequence_number": next(self._numbers), **fields}

    def begin(self) -> Iterator[Body]:
        """The response has no items yet."""
        self._began = True
        for kind in ("created", "in_progress"):
            yield self.event(kind, response=self.begun)

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

    def write(self, delta: p.Delta) -> Iterator[Body]:
        """The events that say this."""
        if not self._began:
            yield from self.begin()
        match delta:
            case p.Text(text):
                if text and (self._item is None or self._item["type"] != "message"):
                    yield from self._close()
                    yield from self._open(_message_item("") | {"status": "in_progress", "content": []})
                if text:
                    yield from self._text(text)
            case p.CallDelta(index, id, name, arguments):
                if index < self._call:
                    raise ValueError("calls of tools that are mixed with each other")
                if index > self._call:
                    self._call = index
                    yield from self._close()
                    yield from self._open(_call_item(p.Call(id, name, "")) | {"status": "in_progress"})
                if arguments:
                    yield self._arguments(arguments)
            case p.End(stop, usage):
                yield from self._close()
                ended = _ended(self.begun, self._output, stop, usage)
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


# ---- the protocol


class _Responses(Protocol):
    """``POST /v1/responses``."""

    name, path, prefix, turns = "responses", "responses", "resp_", "input"
    answers, holder = "output", "response"
    known = p.names("input instructions tools tool_choice include truncation")
    fields: ClassVar = {
        "parallel": "parallel_tool_calls",
        "max_tokens": "max_output_tokens",
        "temperature": "temperature",
        "top_p": "top_p",
        "effort": "reasoning.effort",
        "verbosity": "text.verbosity",
        "format": "text.format",
    }
    reader, writer = _ResponsesReader, _ResponsesWriter

    def items(self, body: Body) -> list[Any]:
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

    def read(self, body: Body, headers: Mapping[str, str], fitting: Fitting | None = None) -> Request:
        request = super().read(body, headers, fitting)
        found = _OURS.match(str(body.get("previous_response_id")))
        if found is None:
            return request
        if found[2] is None:
            raise bad_request(
                f"the peer of {found[1]} keeps no responses; expected the whole conversation in input "
                "(previous_response_id)"
            )
        return replace(request, earlier=found[1], body=request.body | {"previous_response_id": found[2]})

    def prompt(self, body: Body, lose: Lose) -> p.ModelRequest:
        reasoning = mapping(body.get("reasoning"))
        if reasoning.get("summary") == "auto":  # if the peer has one
            body = body | {"reasoning": reasoning | {"summary": None}}
        found, choice = self.plain_fields(body, lose), body.get("tool_choice")
        for each in body.get("include") or ():
            if each != "reasoning.encrypted_content":  # it only comes with reasoning
                lose(f"include.{each}")
        if body.get("truncation") not in (None, "disabled"):
            lose("truncation")
        if isinstance(choice, dict) and choice["type"] != "function":
            lose(f"tool_choice.{choice['type']}")
            choice = None
        if found["format"] and found["format"]["type"] == "text":
            found["format"] = None
        instructions = body.get("instructions")
        first = (p.Message("system", (p.Text(instructions),)),) if instructions else ()
        return p.ModelRequest(
            (*first, *_turns(self.items(body), lose)),
            self.tools(body, lose),
            "named" if isinstance(choice, dict) else choice,
            choice["name"] if isinstance(choice, dict) else "",
            **found,
        )

    def request(self, prompt: p.ModelRequest, lose: Lose) -> Body:
        named = {"type": "function", "name": prompt.named}
        body = {
            "input": [item for message in prompt.messages for item in _items(message)],
            "store": False,
            "tools": [_written_tool(tool) for tool in prompt.tools] or None,
            "tool_choice": named if prompt.choice == "named" else prompt.choice,
        }
        return self.with_plain_fields(body, prompt, lose)

    def with_system(self, body: Body, system: str) -> Body:
        said = [system, body["instructions"]] if body.get("instructions") else [system]
        return body | {"instructions": "\n\n".join(said)}

    def check(self, body: Body) -> None:
        super().check(body)
        if body.get("status") in ("failed", "cancelled", "queued", "in_progress"):
            raise ValueError(f"a response that is {body['status']}")

    def reply(self, body: Body) -> p.ModelReply:
        parts: list[p.Text | p.Call] = []
        stop: p.Stop = "end"
        for item in map(mapping, body["output"]):
            if item.get("type") == "function_call":
                parts.append(_call(item))
                stop = "tool"
            for part in map(mapping, item.get("content") or () if item.get("type") == "message" else ()):
                said = part.get("text") or part.get("refusal")
                parts += [p.Text(said)] if isinstance(said, str) else []
                stop = "refusal" if part.get("type") == "refusal" else stop
        reason = mapping(body.get("incomplete_details")).get("reason")
        return p.ModelReply(tuple(parts), _CUT.get(str(reason), stop), self.usage(body))

    def response(self, reply: p.ModelReply, request: Body) -> Body:
        output: list[Body] = [_call_item(part) for part in reply.parts if isinstance(part, p.Call)]
        if text := p.text_of(reply.parts):
            output = [_message_item(text), *output]
        return _ended(_response(request), output, reply.stop, reply.usage)

    def stamped(self, body: Body, stamp: Stamp) -> Body:
        named = super().stamped(body, stamp)
        if stamp.id is not None and stamp.kept and body.get("store") is not False:
            named["id"] = f"{stamp.id}--{body['id']}"
        return named

    def is_last(self, event: Body) -> bool:
        return kind_of(event, "response.failed") in _ENDS

    def events(self, body: Body) -> Iterator[Body]:
        writer = _ResponsesWriter({})
        writer.begun = {**body, "status": "in_progress", "output": []}
        yield from writer.begin()
        for item in map(mapping, body["output"]):
            yield from writer.whole(item)
        yield writer.event(str(body.get("status", "completed")), response=body)

    def failure(self, message: str, code: str, status: int) -> Body:
        failed = {"status": "failed", "error": {"code": "server_error", "message": message}}
        return {"type": "response.failed", "sequence_number": 0, "response": _response({}) | failed}


# ---- items


def _turns(items: Iterable[Any], lose: Lose) -> Iterator[p.Message]:
    """Items as turns: what the model said and called in a row is one, and so are the results of its calls."""
    role, parts = "", list[p.Part]()
    for item in items:
        kind = item.get("type") or "message"
        match kind:
            case "message":
                whose, said = item["role"], list[p.Part](_parts(item["content"], lose))
            case "function_call":
                whose, said = "assistant", [_call(item)]
            case "function_call_output":
                whose, said = "results", [p.Result(item["call_id"], tuple(_parts(item["output"], lose)))]
            case other:
                lose("reasoning" if other == "reasoning" else f"input.{other}")
                continue
        if whose == role and role in ("assistant", "results"):
            parts += said
            continue
        if parts:
            yield p.Message("user" if role == "results" else role, tuple(parts))
        role, parts = whose, said
    if parts:
        yield p.Message("user" if role == "results" else role, tuple(parts))


def _parts(content: Any, lose: Lose) -> Iterator[p.Text | p.Image]:
    for part in p.blocks_in(content):
        match part["type"]:
            case "input_text" | "output_text" | "text":
                if part.get("annotations"):
                    lose("input.annotations")
                yield p.Text(part["text"])
            case "refusal":
                yield p.Text(part["refusal"])
            case "input_image" if part.get("image_url"):
                yield p.Image(part["image_url"], part.get("detail") or "auto")
            case other:
                lose(f"input.{other}")


def _call(item: Body) -> p.Call:
    return p.Call(str(item.get("call_id")), str(item.get("name")), str(item.get("arguments", "")))


def _written_tool(tool: p.Tool) -> Body:
    strict = bool(tool.strict)  # true by default here, and false in other protocols
    return {"type": "function", **p.written_tool(tool, "parameters"), "strict": strict}


def _items(message: p.Message) -> Iterator[Body]:
    """The items that say what one turn says, in its order."""
    said: list[p.Text | p.Image] = []
    for part in (*message.parts, None):
        if isinstance(part, p.Text | p.Image):
            said.append(part)
            continue
        if said:
            yield {"type": "message", "role": message.role, "content": _content(said, message.role)}
            said = []
        if isinstance(part, p.Call):
            call = {"call_id": part.id, "name": part.name, "arguments": part.arguments}
            yield {"type": "function_call", **call}
        elif isinstance(part, p.Result):
            given = [p.Text(p.FAILED), *part.parts] if part.failed else list(part.parts)
            yield {"type": "function_call_output", "call_id": part.id, "output": _content(given, "user")}


def _content(parts: Collection[p.Part], role: str) -> Any:
    return p.content_of(
        parts,
        "output_text" if role == "assistant" else "input_text",
        lambda image: {"type": "input_image", "image_url": image.url, "detail": image.detail},
    )


# ---- responses


def _response(request: Body) -> Body:
    """A response in which nothing was said yet."""
    return {
        "id": p.new_id("resp_"),
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


def _ended(response: Body, output: list[Body], stop: p.Stop, usage: p.Usage | None) -> Body:
    reason = next((reason for reason, cut in _CUT.items() if cut == stop), None)
    return response | {
        "status": "completed" if reason is None else "incomplete",
        "incomplete_details": None if reason is None else {"reason": reason},
        "output": output,
        "usage": usage and RESPONSES.written_usage(usage),
    }


def _message_item(text: str) -> Body:
    said = {"status": "completed", "content": [_text_part(text)]}
    return {"id": p.new_id("msg_"), "type": "message", "role": "assistant", **said}


def _text_part(text: str) -> Body:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call_item(call: p.Call) -> Body:
    said = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
    return {"id": p.new_id("fc_"), "type": "function_call", "status": "completed", **said}


RESPONSES = _Responses()
