"""What a protocol has to offer the gateway, and what all share: requests, options, and marks of tool loops.

Nothing here knows of memories or upstreams. A request goes to an upstream that speaks its protocol as it
came, with fields that the gateway has never heard of; only for other upstreams it is read and written anew.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from sigma_mem.answers.chat import question_text
from sigma_mem.errors import InputError
from sigma_mem.events import Answer
from sigma_mem.serve.failures import RefusedError, error_body
from sigma_mem.serve.gateway.message import (
    Body,
    Call,
    Delta,
    End,
    Lose,
    ModelReply,
    ModelRequest,
    Text,
    Usage,
)
from sigma_mem.serve.gateway.wire import clean_unicode, decode_json, encode_json, event_bytes

Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]

_MARK = re.compile(r"--((?:chatcmpl-|msg_|resp_)[0-9a-f]{1,64})\Z")  # at the end of a tool call's id
_KEPT = re.compile(r"(resp_[0-9a-f]{24})--.+")
_IDS = ("id", "call_id", "tool_call_id", "tool_use_id")  # fields of requests that hold the id of a call
_IN_HEADERS = ("decision", "peer", "confidence", "attempts", "cost", "held")


# ---- requests


class Options(BaseModel):
    """What a client may say in the field `sigma_mem` of a request."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    topic: Name | Annotated[list[Name], Field(min_length=1, max_length=64)] | None = None
    among: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    explore: bool | None = None
    max_cost: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    after: Name | None = None
    namespace: Name | None = None


_NO_OPTIONS = Options()


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the gateway.

    Attributes
    ----------
    protocol : Protocol
        The client's.
    body : mapping
        What an upstream that speaks the same protocol may see: without the gateway's own field, and with the
        ids that upstreams gave their calls.
    model : str
        Who shall answer: a peer's name, or one of the memory's ways to choose.
    items : list
        The turns of the conversation, as the client sent them.
    stream : bool
    options : Options
    in_loop : str, optional
        The response whose tool calls this request brings the results of.
    earlier : str, optional
        The response that it goes on from, which only its peer has.
    conversation : str, optional
        The client's own name for the conversation.
    headers : mapping
        The client's headers that upstreams of the same protocol get.
    """

    protocol: "Protocol"
    body: Body
    model: str
    items: list[Any]
    stream: bool
    options: Options
    in_loop: str | None
    earlier: str | None
    conversation: str | None
    headers: Mapping[str, str]

    def question(self) -> str:
        """The text that φ is made of; the kinds of parts that there are, if no message holds a text."""
        try:
            return question_text(self.items) or "no text"
        except InputError:
            contents = [each.get("content") for each in self.items if isinstance(each, dict)]
            parts = [part for content in contents if isinstance(content, list) for part in content]
            kinds = dict.fromkeys(str(part.get("type")) for part in parts if isinstance(part, dict))
            return clean_unicode(" ".join(kinds)) or "no text"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the gateway writes over an upstream's answer: its id, unless None; the peer's name; a summary.

    `kept` says that the upstream keeps the response, for requests that go on from it.
    """

    id: str | None
    model: str
    summary: Body | None = None
    kept: bool = True

    def on(self, body: Body) -> Body:
        """A response with this id, model and summary."""
        stamped = body | {"model": self.model}
        if self.id is not None:
            stamped["id"] = self.id
        if self.summary is not None:
            stamped["sigma_mem"] = self.summary
        return stamped


class EventReader(ABC):
    """Reads one stream of a protocol into deltas."""

    @abstractmethod
    def feed(self, event: Body) -> Iterator[Delta]:
        """What an event says."""

    @abstractmethod
    def end(self) -> End:
        """How the answer ended, after the last event."""


class EventWriter(ABC):
    """Writes deltas as the events of one stream of a protocol."""

    @abstractmethod
    def write(self, delta: Delta) -> Iterator[Body]:
        """The events that say this."""


class Protocol(ABC):
    """How clients and upstreams speak to each other.

    Attributes
    ----------
    name : str
        As in the configuration: "chat", "messages", "responses".
    path : str
        Of its endpoint, below the base URL.
    prefix : str
        Of the ids of its responses.
    answers : str
        The field of a whole response that holds the list of what was answered.
    headers : mapping
        Headers that its upstreams get; the client's own take their place.
    key_header : str
        The header that holds an upstream's key, unless its configuration names another.
    last : bytes
        What follows the last event of a stream.
    """

    name: ClassVar[str]
    path: ClassVar[str]
    prefix: ClassVar[str]
    answers: ClassVar[str]
    headers: ClassVar[Mapping[str, str]] = {}
    key_header: ClassVar[str] = "authorization"
    last: ClassVar[bytes] = b""

    def read(self, body: Body, headers: Mapping[str, str]) -> Request:
        """Check what the gateway itself needs of a request; the rest is the upstream's to judge."""
        items = self.items(body)
        stream = body.get("stream") or False
        if not isinstance(stream, bool):
            raise bad_request(f"stream is {stream!r:.80}; expected true or false (stream)")
        options = options_in(body.get("sigma_mem"))
        sent = {key: value for key, value in body.items() if key != "sigma_mem"}
        forwarded = {name: headers.get(name, usual) for name, usual in self.headers.items()}
        return Request(
            self,
            self.unmarked(sent),
            model_of(body),
            items,
            stream,
            options,
            response_in_loop(items),
            self.earlier(body),
            headers.get("x-sigma-mem-conversation"),
            forwarded,
        )

    @abstractmethod
    def items(self, body: Body) -> list[Any]:
        """The turns of a request; RefusedError if there are none."""

    @abstractmethod
    def unmarked(self, body: Body) -> Body:
        """The request with the ids that upstreams gave their calls."""

    @abstractmethod
    def prompt(self, body: Body, lose: Lose) -> ModelRequest:
        """A request of this protocol in no protocol's form."""

    @abstractmethod
    def request(self, prompt: ModelRequest, lose: Lose) -> Body:
        """A request of this protocol, without model."""

    @abstractmethod
    def adjusted(self, body: Body, system: str, effort: str) -> Body:
        """A request with the system prompt and the effort that an upstream adds; empty for none."""

    def streaming(self, body: Body, usage: bool) -> Body:
        """The request for a stream; `usage` asks for the tokens at its end, if that has to be said."""
        return body | {"stream": True}

    def earlier(self, body: Body) -> str | None:
        """The response that a request goes on from, if its peer keeps it."""
        return None

    # whole responses

    def check(self, body: Body) -> None:
        """ValueError if this is no answer."""
        if not isinstance(body.get(self.answers), list):
            raise ValueError(f"JSON without {self.answers}")

    @abstractmethod
    def reply(self, body: Body) -> ModelReply:
        """A whole response in no protocol's form."""

    @abstractmethod
    def response(self, reply: ModelReply, request: Body) -> Body:
        """A whole response of this protocol; `request` is the client's."""

    @abstractmethod
    def stamped(self, body: Body, stamp: Stamp) -> Body:
        """A response under the gateway's names, with its mark on calls of tools."""

    @abstractmethod
    def usage(self, body: Body) -> Usage | None:
        """The tokens that a response, or an event, reports."""

    def answer(self, body: Body) -> Answer | str | None:
        """What a response says, to be voted on; calls of tools are equal if name and arguments are."""
        parts = self.reply(body).parts
        calls = [part for part in parts if isinstance(part, Call)]
        if calls:
            canon = encode_json([[call.name, _arguments(call.arguments)] for call in calls]).decode()
            return Answer(canon, canon)
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        return clean_unicode(text) if text.strip() else None

    # streams

    @abstractmethod
    def is_last(self, event: Body) -> bool:
        """Whether the answer is whole after this event; ValueError for an event that reports a failure."""

    @abstractmethod
    def reader(self) -> EventReader:
        """For a stream of this protocol."""

    @abstractmethod
    def writer(self, request: Body) -> EventWriter:
        """For a stream to a client; `request` is what it asked."""

    @abstractmethod
    def stamped_event(self, event: Body, stamp: Stamp) -> Body:
        """An event under the gateway's names."""

    @abstractmethod
    def events(self, body: Body) -> Iterator[Body]:
        """A whole response as the events of a stream."""

    def is_for_us(self, event: Body, request: Request) -> bool:
        """Whether an event came only because the gateway asked for it."""
        return False

    def event(self, body: Body) -> bytes:
        """One event as bytes."""
        return event_bytes(body, str(body.get("type", "")))

    def error(self, message: str, code: str, status: int) -> Body:
        """The body of an error."""
        return error_body(message, code, status)

    def failure(self, message: str, code: str, status: int) -> Body:
        """The event that ends a stream which broke off."""
        return self.error(message, code, status)


def _arguments(text: str) -> object:
    try:
        return _sorted(decode_json(text))
    except ValueError:  # compared as the text that it is
        return text


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


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


def options_in(given: object) -> Options:
    """The options in the field `sigma_mem` of a request; the defaults if it has none."""
    if given is None:
        return _NO_OPTIONS
    try:
        return Options.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(["sigma_mem", *(str(part) for part in first["loc"])])
        raise bad_request(f"{where}: {first['msg']}") from None


def own_id(id: str) -> str:
    """The id that the ledger knows of a response; behind it may be the upstream's own.

    >>> own_id("resp_0123456789abcdef01234567--resp_8"), own_id("msg_7")
    ('resp_0123456789abcdef01234567', 'msg_7')
    """
    found = _KEPT.fullmatch(id)
    return id if found is None else found[1]


def bad_request(message: str) -> RefusedError:
    """A request that no upstream needs to see."""
    return RefusedError(400, "invalid_request", message)


def headers_of(summary: Mapping[str, Any], without: str = "") -> dict[str, str]:
    """The headers of a response; what is None, empty or missing is left out."""
    headers = {}
    for key in _IN_HEADERS:
        value = summary.get(key)
        if value not in (None, "") and key != without:
            headers[f"x-sigma-mem-{key}"] = f"{value:.6g}" if isinstance(value, float) else str(value)
    if left_out := summary.get("left_out"):
        said = "; ".join(f"{peer}: {why}" for peer, why in left_out.items())
        headers["x-sigma-mem-left-out"] = said.encode("ascii", "replace").decode()[:2000]
    return headers


# ---- tool loops: the id of a tool call, as the client sees it, carries the id of its response
#
# So no memory of open conversations is needed: any replica, also after a restart, finds the decision in the
# ledger. The upstream sees its own ids.


def marked(id: object, response: str | None) -> object:
    """The id of a call with the response's behind it.

    >>> marked("call_1", "msg_7"), marked("call_1", None)
    ('call_1--msg_7', 'call_1')
    """
    return f"{id}--{response}" if isinstance(id, str) and id and response is not None else id


def unmarked(items: Sequence[Any]) -> list[Any]:
    """Turns of a conversation with the ids that upstreams gave their calls."""
    return [_unmarked_item(item) if isinstance(item, dict) else item for item in items]


def _unmarked_item(item: Body) -> Body:
    sent = _unmarked_part(item)
    for key in ("content", "tool_calls"):
        if isinstance(parts := sent.get(key), list):
            sent = {**sent, key: [_unmarked_part(p) if isinstance(p, dict) else p for p in parts]}
    return sent


def _unmarked_part(part: Body) -> Body:
    found = {key: _MARK.sub("", id) for key in _IDS if isinstance(id := part.get(key), str) and "--" in id}
    return {**part, **found} if found else part


def response_in_loop(items: Sequence[Any]) -> str | None:
    """The id of the response whose tool calls the last turn answers; None outside a loop.

    >>> response_in_loop([{"role": "user"}, {"role": "tool", "tool_call_id": "call_1--chatcmpl-7"}])
    'chatcmpl-7'
    """
    last = items[-1] if items and isinstance(items[-1], dict) else {}
    content = last.get("content")
    for part in (last, *(content if isinstance(content, list) else ())):
        if not isinstance(part, dict):
            continue
        is_output = str(part.get("type", "")).endswith("_output")
        id = (
            part.get("tool_call_id")
            or part.get("tool_use_id")
            or (part.get("call_id") if is_output else None)
        )
        if isinstance(id, str) and (found := _MARK.search(id)):
            return found[1]
    return None
