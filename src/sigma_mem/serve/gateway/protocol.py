"""OpenAI's chat completions: requests, answers and chunks as values, and server-sent events.

Other protocols can stand beside this file: nothing here knows of memories or upstreams. Fields of a request
that the gateway does not know go to the upstream untouched.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from sigma_mem.answers.chat import question_text
from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.events import Answer
from sigma_mem.serve.failures import RefusedError, refusal

Body = dict[str, Any]
Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]

DONE = b"data: [DONE]\n\n"
_COMMENT = b": the peers are being asked\n\n"  # clients and proxies see that the connection lives
_EVERY = 1.0  # seconds between comments
_OURS = ("model", "stream", "stream_options", "sigma_mem")  # fields that are not forwarded as they came
_MARK = re.compile(r"~(chatcmpl-[0-9a-f]{1,64})\Z")  # at the end of a tool call's id: the completion's own
_IN_HEADERS = ("decision", "peer", "confidence", "attempts", "cost")


# ---- JSON


def decode_json(raw: bytes | str) -> object:
    """The value of a JSON text; ValueError for anything else, NaN and infinities included.

    >>> decode_json(b'{"a": 1}')
    {'a': 1}
    """
    try:
        return from_json(raw, allow_inf_nan=False)  # a tenth of json's time for small texts
    except ValueError:  # not JSON; or UTF-16, or lone surrogates, which only json reads
        text = raw if isinstance(raw, str) else raw.decode(json.detect_encoding(raw), "surrogatepass")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def encode_json(value: object) -> bytes:
    """A JSON value as bytes; lone surrogates, which UTF-8 does not have, are escaped."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        return json.dumps(value).encode()


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


# ---- requests


class ChatOptions(BaseModel):
    """What a client may say in ``extra_body={"sigma_mem": {...}}``."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    topic: Name | Annotated[list[Name], Field(min_length=1, max_length=64)] | None = None
    among: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    explore: bool | None = None
    max_cost: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    after: Name | None = None
    namespace: Name | None = None


_NO_OPTIONS = ChatOptions()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One chat request.

    Attributes
    ----------
    model : str
        Who shall answer: a peer's name, or one of the memory's ways to choose.
    messages : list
        The conversation, as the client sent it.
    stream, wants_usage : bool
        Whether the answer comes in chunks, and whether the last one reports the usage.
    options : ChatOptions
    in_loop : str, optional
        The completion whose tool calls this request brings the results of.
    stream_options : object
        As the client sent them; None if it did not.
    rest : bytes
        The JSON of all that is forwarded, whoever is called, without its opening brace.
    """

    model: str
    messages: list[Any]
    stream: bool
    wants_usage: bool
    options: ChatOptions
    in_loop: str | None
    stream_options: object
    rest: bytes

    def whole(self, model: str) -> bytes:
        """The body of a call that asks for a whole answer, with the upstream's own name of the model."""
        return b'{"model":%b,%b' % (encode_json(model), self.rest)

    def streamed(self, model: str, with_usage: bool) -> bytes:
        """The body of a call that asks for chunks; `with_usage` asks for the usage at the end."""
        head: Body = {"model": model, "stream": True}
        if with_usage:
            given = self.stream_options if isinstance(self.stream_options, dict) else {}
            head["stream_options"] = {**given, "include_usage": True}
        elif self.stream_options is not None:
            head["stream_options"] = self.stream_options
        return encode_json(head)[:-1] + b"," + self.rest

    def question(self) -> str:
        """The text that φ is made of; the kinds of parts that there are, if no message holds a text."""
        try:
            return question_text(self.messages) or "no text"
        except InputError:
            contents = [each.get("content") for each in self.messages if isinstance(each, dict)]
            parts = [part for content in contents if isinstance(content, list) for part in content]
            kinds = dict.fromkeys(str(part.get("type")) for part in parts if isinstance(part, dict))
            return clean_unicode(" ".join(kinds)) or "no text"


def clean_unicode(text: str) -> str:
    """The text with a question mark for every lone surrogate, which JSON can carry and no encoder takes."""
    return text.encode("utf-8", "replace").decode()


def read_chat(body: Body) -> ChatRequest:
    """Check what the gateway itself needs of a request; the rest is the upstream's to judge."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_request("messages is missing or empty; expected a list of chat messages (messages)")
    stream = body.get("stream") or False
    if not isinstance(stream, bool):
        raise bad_request(f"stream is {stream!r:.80}; expected true or false (stream)")
    model, options = model_of(body), chat_options(body.get("sigma_mem"))
    usage = body.get("stream_options")
    wants_usage = isinstance(usage, dict) and usage.get("include_usage") is True
    in_loop = completion_in_loop(messages)
    sent = {**body, "messages": unmarked(messages)}
    for ours in _OURS:
        sent.pop(ours, None)
    return ChatRequest(model, messages, stream, wants_usage, options, in_loop, usage, encode_json(sent)[1:])


def read_json(raw: bytes) -> Body:
    """A JSON object; refuses anything else, and says what it is."""
    try:
        body = decode_json(raw)
    except ValueError:
        raise bad_request("the body is not JSON") from None
    if not isinstance(body, dict):
        raise bad_request(f"the body is a JSON {type(body).__name__}; expected an object")
    return body


def model_of(body: Body) -> str:
    """The model that a request names."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise bad_request("model is missing; expected one of GET /v1/models (model)")
    return model


def chat_options(given: object) -> ChatOptions:
    """The options in the field `sigma_mem` of a request; the defaults if it has none."""
    if given is None:
        return _NO_OPTIONS
    try:
        return ChatOptions.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(["sigma_mem", *(str(part) for part in first["loc"])])
        raise bad_request(f"{where}: {first['msg']}") from None


def bad_request(message: str) -> RefusedError:
    """A request that no upstream needs to see."""
    return RefusedError(400, "invalid_request", message)


# ---- tool loops: the id of a tool call, as the client sees it, carries the id of its completion
#
# So no memory of open conversations is needed: any replica, also after a restart, finds the decision in the
# ledger. The upstream sees its own ids.


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
    sent = []
    for message in messages:
        if isinstance(message, dict) and isinstance(id := message.get("tool_call_id"), str):
            message = {**message, "tool_call_id": _MARK.sub("", id)}
        if isinstance(message, dict) and isinstance(calls := message.get("tool_calls"), list):
            message = {**message, "tool_calls": [_unmarked(call) for call in calls]}
        sent.append(message)
    return sent


def _unmarked(call: Any) -> Any:
    marked = isinstance(call, dict) and isinstance(call.get("id"), str)
    return {**call, "id": _MARK.sub("", call["id"])} if marked else call


def completion_in_loop(messages: Sequence[Any]) -> str | None:
    """The id of the completion whose tool calls the last message answers; None outside a loop.

    >>> completion_in_loop([{"role": "user"}, {"role": "tool", "tool_call_id": "call_1~chatcmpl-7"}])
    'chatcmpl-7'
    """
    last = messages[-1] if messages else None
    if not isinstance(last, dict) or last.get("role") not in ("tool", "function"):
        return None
    id = last.get("tool_call_id")
    found = _MARK.search(id) if isinstance(id, str) else None
    return found[1] if found else None


# ---- answers


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A whole completion, and the headers that go with it."""

    completion: Body
    headers: Mapping[str, str]


def answer_in(completion: Mapping[str, Any]) -> Answer | str | None:
    """The text of the first choice, to be voted on; calls of tools are equal if name and arguments are."""
    choices = completion.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        return None
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        canon = json.dumps([_called(call) for call in calls], sort_keys=True)
        return Answer(canon, canon)
    content = message.get("content")
    if isinstance(content, list):  # parts, as some servers send them
        texts = (part.get("text") for part in content if isinstance(part, dict))
        content = "\n".join(text for text in texts if isinstance(text, str))
    return clean_unicode(content) if isinstance(content, str) and content.strip() else None


def _called(call: object) -> object:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    arguments = function.get("arguments")
    with suppress(ValueError):  # compared as the text that it is
        arguments = decode_json(arguments) if isinstance(arguments, str) else arguments
    return [function.get("name"), arguments]


def headers_of(summary: Mapping[str, Any], without: str = "") -> dict[str, str]:
    """The headers of a response; what is None or missing is left out."""
    headers = {}
    for key in _IN_HEADERS:
        value = summary.get(key)
        if value is not None and key != without:
            headers[f"x-sigma-mem-{key}"] = f"{value:.6g}" if isinstance(value, float) else str(value)
    return headers


def json_response(reply: ChatReply) -> Response:
    """The whole completion as one body."""
    return Response(encode_json(reply.completion), headers=reply.headers, media_type="application/json")


# ---- streams


class EventResponse(StreamingResponse):
    """Server-sent events; whatever happens to the client, their origin is closed."""

    def __init__(
        self, events: AsyncIterator[bytes], headers: Mapping[str, str], close: Callable[[], Awaitable[None]]
    ) -> None:
        unbuffered = {"x-accel-buffering": "no"}  # a proxy in between passes chunks on as they come
        super().__init__(events, headers={**headers, **unbuffered}, media_type="text/event-stream")
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, then close."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._close()


def event_of(body: Mapping[str, Any]) -> bytes:
    """A JSON object as one event."""
    return b"data: %b\n\n" % encode_json(body)


async def events_when_there(answer: Coroutine[Any, Any, ChatReply], with_usage: bool) -> Response:
    """A whole answer as a stream: comments while it is waited for, then all of it.

    A failure before the first comment has its own status; after it, it is an event.
    """
    task = asyncio.create_task(answer)

    async def stop() -> None:
        task.cancel()

    try:
        await asyncio.wait((task,), timeout=_EVERY)
    except asyncio.CancelledError:
        task.cancel()
        raise
    headers = task.result().headers if task.done() else {}
    return EventResponse(_awaited(task, with_usage), headers, stop)


async def _awaited(task: asyncio.Task[ChatReply], with_usage: bool) -> AsyncIterator[bytes]:
    while not task.done():
        yield _COMMENT
        await asyncio.wait((task,), timeout=_EVERY)
    try:
        completion = task.result().completion
    except SigmaMemError as error:
        yield event_of(refusal(error)[1])
        return
    for chunk in as_chunks(completion, with_usage):
        yield event_of(chunk)
    yield DONE


def as_chunks(completion: Mapping[str, Any], with_usage: bool) -> Iterator[Body]:
    """A whole completion as the chunks of a stream: every choice at once, how it ended, and its usage."""
    head = {key: completion[key] for key in completion if key not in ("choices", "usage", "sigma_mem")}
    head["object"] = "chat.completion.chunk"
    said, ends = [], []
    for choice in completion["choices"]:
        if isinstance(choice, dict):
            index = {"index": choice.get("index", 0)}
            logprobs = {"logprobs": choice["logprobs"]} if choice.get("logprobs") else {}
            delta = _delta(choice.get("message"))
            said.append({**index, "delta": delta, "finish_reason": None, **logprobs})
            ends.append({**index, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"})
    yield {**head, "choices": said, "sigma_mem": completion.get("sigma_mem")}
    yield {**head, "choices": ends}
    if with_usage:
        yield {**head, "choices": [], "usage": completion.get("usage")}


def _delta(message: object) -> Body:
    delta = dict(message) if isinstance(message, dict) else {}
    if isinstance(delta.get("tool_calls"), list):
        calls = enumerate(delta["tool_calls"])
        delta["tool_calls"] = [{"index": i, **call} for i, call in calls if isinstance(call, dict)]
    return delta
