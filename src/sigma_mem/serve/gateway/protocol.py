"""What a protocol has to offer the gateway, and what one protocol reads so that another can write it.

A request goes to an upstream that speaks its protocol as it came, with fields that the gateway has never
heard of. Only for other upstreams it is read into a `ModelRequest`, and written anew. So it is with a
`ModelReply` and with the deltas of a stream. What has no place is a loss, which is reported by name. Nothing
here knows of memories or upstreams.
"""

import json
import operator
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from sigma_mem.answers.chat import question_text
from sigma_mem.errors import InputError
from sigma_mem.events import Answer
from sigma_mem.serve.failures import RefusedError, error_body

Body = dict[str, Any]
Lose = Callable[[str], object]  # gets the name of what is lost
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)  # what reading an odd body may raise
FAILED = "The tool failed:"  # in words, in protocols whose results of tools have no field for it
Stop = Literal["end", "length", "tool", "sequence", "refusal"]
_CONTEXT = ("system-reminder", "environment_context", "user_instructions", "INSTRUCTIONS")
_AGENTS = re.compile(r"^# AGENTS\.md instructions for .*$", re.MULTILINE)


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Fields that say nothing of the answer: whose request it is, and where to keep or cache it.
HINTS = names(
    "cache_control client_metadata diagnostics metadata prompt_cache_key prompt_cache_options "
    "prompt_cache_retention safety_identifier service_tier speed store user user_profile_id model stream "
    "stream_options"
)


def lose_others(body: Mapping[str, Any], known: Collection[str], lose: Lose, where: str = "") -> None:
    """Report every field that is none of these; null, false, zero and nothing lose nothing, except a seed."""
    for key, value in body.items():
        if key not in known and key not in HINTS and (value or key == "seed") and value is not None:
            lose(f"{where}{key}")


# ---- what is said


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image, by the address of a server or with its bytes in a ``data:`` URL."""

    url: str
    detail: str = "auto"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool; the arguments are JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a call of a tool gave."""

    id: str
    parts: tuple[Text | Image, ...]
    failed: bool = False


Part = Text | Image | Call | Result


@dataclass(frozen=True, slots=True)
class Message:
    """A turn. `role` is system, developer, user or assistant; results of tools are the user's."""

    role: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call; `strict` is None if the request does not say."""

    name: str
    description: str | None
    schema: Body
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A whole request."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    choice: str | None = None  # "auto", "none", "required", or "named": the tool `named` must be called
    named: str = ""
    parallel: bool | None = None  # whether several tools may be called at once
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: list[str] | None = None
    effort: str | None = None
    verbosity: str | None = None
    format: Body | None = None  # {"type": "json_schema", "name": …, "schema": …}, or {"type": "json_object"}


PLAIN = names("parallel max_tokens temperature top_p stop effort verbosity format")  # fields that are a value


# ---- what is answered


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens: all of the prompt, those read from a cache and written to one among them; all of the answer."""

    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    reasoning: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(operator.add, astuple(self), astuple(other)))

    def or_more(self, other: "Usage | None") -> "Usage":
        """The larger of two counts each: a stream counts up."""
        return self if other is None else Usage(*map(max, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A whole answer."""

    parts: tuple[Text | Call, ...]
    stop: Stop
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of the arguments of a call; the first delta of a call has its id and name."""

    index: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class End:
    """How an answer ended; the last delta."""

    stop: Stop
    usage: Usage | None


Delta = Text | CallDelta | End  # more of a text, of a call, or the end


def text_of(parts: Iterable[Part]) -> str:
    """The texts among some parts, as they are."""
    return "".join(part.text for part in parts if isinstance(part, Text))


def without_context(text: str) -> str:
    """What a user wrote, without what Claude Code and Codex put before it: the date, folders, instructions.

    >>> without_context("<system-reminder>Today is Monday.</system-reminder> Count the lines.")
    'Count the lines.'
    """
    for tag in _CONTEXT if "</" in text else ():
        head, *rest = text.split(f"<{tag}>")
        for part in rest:
            inside, closed, after = part.partition(f"</{tag}>")
            head += after if closed else f"<{tag}>{inside}"
        text = head
    return _AGENTS.sub("", text).strip()


def new_id(prefix: str) -> str:
    """An id that nothing else has."""
    return prefix + secrets.token_hex(12)


def mapping(value: object) -> Body:
    """A JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def present(fields: Mapping[str, Any]) -> Body:
    """The fields that have a value."""
    return {key: value for key, value in fields.items() if value is not None}


# ---- what protocols share


def blocks_in(content: Any) -> Iterable[Body]:
    """The blocks of a content; a text is one block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def content_of(parts: Collection[Part], kind: str, image: Callable[[Image], Body]) -> Any:
    """One text as it is; several parts as a list of blocks, whose texts are of this type."""
    if len(parts) <= 1 and all(isinstance(part, Text) for part in parts):
        return text_of(parts)
    return [
        {"type": kind, "text": part.text} if isinstance(part, Text) else image(part)
        for part in parts
        if isinstance(part, Text | Image)
    ]


def written_tool(tool: Tool, schema: str) -> Body:
    """The description of a tool, without `strict`, which means something else everywhere."""
    return present({"name": tool.name, schema: tool.schema, "description": tool.description})


def usage_of(input: object, output: object, cached: object, written: object, reasoning: object) -> Usage:
    """A usage from what an upstream reports; 0 for what is no number of tokens.

    >>> usage_of(7, "many", None, -1, 1e300)
    Usage(input=7, output=0, cached=0, written=0, reasoning=0)
    """
    found = []
    for count in (input, output, cached, written, reasoning):
        found.append(int(count) if isinstance(count, int | float) and 0 <= count < 1e12 else 0)
    return Usage(*found)


# ---- JSON and events as bytes


def decode_json(raw: bytes | str) -> object:
    """The value of a JSON text; ValueError for anything else, NaN and infinities included.

    >>> decode_json(b'{"a": 1}')
    {'a': 1}
    """
    try:
        return from_json(raw, allow_inf_nan=False)  # a tenth of json's time for small texts
    except ValueError:  # not JSON; or UTF-16, or lone surrogates, which only json reads
        pass
    try:
        return json.loads(raw, parse_constant=_refuse)
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


def clean_unicode(text: str) -> str:
    """The text with a question mark for every lone surrogate, which JSON can carry and no encoder takes."""
    return text.encode("utf-8", "replace").decode()


# ---- the gateway's own names


ROUTE, VOTE, ASK = VIRTUAL = ("sigma-mem", "sigma-mem/vote", "sigma-mem/ask")
Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Fitting = Callable[[str, list[str]], list[str]]  # topics of rules that fit a system prompt and tools

_MARK = re.compile(r"--((?:chatcmpl-|msg_|resp_)[0-9a-f]{1,64})\Z")  # at the end of a tool call's id
_KEPT = re.compile(r"(resp_[0-9a-f]{24})--.+")
_IDS = names("id call_id tool_call_id tool_use_id")  # fields of requests that hold the id of a call
_CALLS = ("tool_use", "function", "custom")  # types of calls whose id is in `id`
_INSIDE = names("choices message delta tool_calls content content_block output item response")
_OF_TOOL = names("type name description strict eager_input_streaming")
_INSTRUCTS = ("system", "developer")
_TRACE = ("traceparent", "tracestate", "x-request-id")
_IN_HEADERS = ("decision", "peer", "confidence", "attempts", "cost", "held", "unrecorded")


# ---- requests


class Options(BaseModel):
    """What a client may say in the field `sigma_mem` of a request."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    topic: Name | Annotated[list[Name], Field(min_length=1, max_length=64)] | None = None
    among: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    explore: bool | None = None
    max_cost: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    after: Name | None = None
    event: Literal["turn", "conversation"] | None = None
    namespace: Name | None = None


_NO_OPTIONS = Options()


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the gateway.

    Upstreams that speak its protocol may see `body`: it is without the gateway's own field, and has the ids
    that upstreams gave their calls.
    """

    protocol: "Protocol"
    body: Body
    model: str  # a peer's name, or one of the memory's ways to choose
    items: list[Any]  # the turns of the conversation, as the client sent them
    stream: bool
    options: Options
    in_loop: str | None  # the response whose tool calls this request brings the results of
    earlier: str | None  # the response that it goes on from, which only its peer has
    conversation: str | None  # the client's own name for it
    headers: Mapping[str, str]  # those that upstreams of the same protocol get
    trace: Mapping[str, str]  # those by which every upstream can be traced back to the request

    def question(self) -> str:
        """The text that φ is made of; the kinds of parts that there are, if no message holds a text."""
        try:
            text = question_text(self.items) or "no text"
            return without_context(text) or text
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


class EventReader(ABC):
    """Reads one stream of a protocol into deltas."""

    def __init__(self, protocol: "Protocol") -> None:
        self.protocol = protocol
        self.stop: Stop = "end"
        self.usage: Usage | None = None

    @abstractmethod
    def feed(self, event: Body) -> Iterator[Delta]:
        """What an event says."""

    def end(self) -> End:
        """How the answer ended, after the last event."""
        return End(self.stop, self.usage)


class EventWriter(ABC):
    """Writes deltas as the events of one stream of a protocol, to a client that sent this request."""

    @abstractmethod
    def __init__(self, request: Body) -> None: ...

    @abstractmethod
    def write(self, delta: Delta) -> Iterator[Body]:
        """The events that say this."""


class Protocol(ABC):
    """How clients and upstreams speak to each other."""

    name: ClassVar[str]  # as in the configuration
    path: ClassVar[str]  # of its endpoint, below the base URL
    prefix: ClassVar[str]  # of the ids of its responses
    turns: ClassVar[str] = "messages"  # the field of a request that holds the list of turns
    answers: ClassVar[str]  # the field of a whole response that holds the list of what was answered
    holder: ClassVar[str] = ""  # the field of an event that holds the response; empty if an event is one
    fields: ClassVar[Mapping[str, str]]  # plain field of a `ModelRequest` → field, or "outer.inner"
    known: ClassVar[frozenset[str]]  # other fields of a request that are read
    tokens: ClassVar[tuple[str, str]] = ("input_tokens", "output_tokens")  # those of the prompt, the answer
    functions: ClassVar[tuple[str | None, ...]] = ("function",)  # types of tools that are functions
    schema: ClassVar[str] = "parameters"  # the field of such a tool for the schema of its arguments
    headers: ClassVar[Mapping[str, str]] = {}  # that its upstreams get; the client's own take their place
    key_header: ClassVar[str] = "authorization"  # for an upstream's key, unless that names another
    last: ClassVar[bytes] = b""  # what follows the last event of a stream
    reader: ClassVar[type[EventReader]]
    writer: ClassVar[type[EventWriter]]

    # requests

    def read(self, body: Body, headers: Mapping[str, str], fitting: Fitting | None = None) -> Request:
        """Check what the gateway itself needs of a request; the rest is the upstream's to judge.

        Its topics are those of its body, else of a header, else of its model (``sigma-mem:law``), else of the
        rules that fit (`fitting`).
        """
        items, model = self.items(body), model_of(body)
        stream = body.get("stream") or False
        if not isinstance(stream, bool):
            raise bad_request(f"stream is {stream!r:.80}; expected true or false (stream)")
        sent, in_loop = dict(body), None
        if isinstance(body[self.turns], list):
            sent[self.turns], in_loop = without_marks(items)
        options = options_in(sent.pop("sigma_mem", None))
        way, _, said = model.partition(":")
        if options.topic is None:
            said = headers.get("x-sigma-mem-topic") or (said if way in VIRTUAL else "")
            topics = [name.strip() for name in said.split(",") if name.strip()] if said else []
            if not topics and fitting is not None:
                topics = fitting(_system_prompt(body, items), _tools(body))
            if topics:
                options = options_in({**options.model_dump(exclude_none=True), "topic": topics})
        forwarded = {}
        for name, usual in self.headers.items():
            forwarded[name] = headers.get(name, usual)
        return Request(
            self,
            sent,
            way if way in VIRTUAL else model,
            items,
            stream,
            options,
            in_loop,
            None,
            headers.get("x-sigma-mem-conversation"),
            forwarded,
            trace_of(headers),
        )

    def items(self, body: Body) -> list[Any]:
        """The turns of a request; RefusedError if there are none."""
        turns = body.get(self.turns)
        if not isinstance(turns, list) or not turns:
            raise bad_request(f"{self.turns} is missing or empty; expected a list of messages ({self.turns})")
        return turns

    @abstractmethod
    def prompt(self, body: Body, lose: Lose) -> ModelRequest:
        """A request of this protocol in no protocol's form."""

    @abstractmethod
    def request(self, prompt: ModelRequest, lose: Lose) -> Body:
        """A request of this protocol, without model."""

    @abstractmethod
    def with_system(self, body: Body, system: str) -> Body:
        """A request with a system prompt before its own."""

    def with_field(self, body: Body, ours: str, value: object) -> Body:
        """A request with the value of a plain field of `ModelRequest`."""
        outer, _, inner = self.fields[ours].partition(".")
        return body | {outer: mapping(body.get(outer)) | {inner: value} if inner else value}

    def plain_fields(self, body: Body, lose: Lose) -> dict[str, Any]:
        """The plain fields of a request, under the names of `ModelRequest`; reports what has no place."""
        found: dict[str, Any] = {}
        read: dict[str, set[str]] = {}
        for ours, theirs in self.fields.items():
            outer, _, inner = theirs.partition(".")
            read.setdefault(outer, set()).add(inner)
            found[ours] = mapping(body.get(outer)).get(inner) if inner else body.get(outer)
        lose_others(body, self.known | read.keys(), lose)
        for outer, inner_names in read.items():
            if "" not in inner_names:
                lose_others(mapping(body.get(outer)), inner_names, lose, f"{outer}.")
        return found

    def with_plain_fields(self, body: Body, prompt: ModelRequest, lose: Lose) -> Body:
        """A request with the plain fields of a prompt; reports those that it has no field for."""
        for ours in sorted(PLAIN):
            value = getattr(prompt, ours)
            if value is not None and ours not in self.fields:
                lose(ours)
            elif value is not None:
                body = self.with_field(body, ours, value)
        return present(body)

    def tools(self, body: Body, lose: Lose) -> tuple[Tool, ...]:
        """The functions that a request offers; reports other tools."""
        found = []
        for tool in body.get("tools") or ():
            if tool.get("type") not in self.functions:
                lose(f"tools.{tool['type']}")
                continue
            said = tool.get("function", tool)
            lose_others(said, _OF_TOOL | {self.schema}, lose, "tools.")
            schema = said.get(self.schema) or {}
            found.append(Tool(said["name"], said.get("description"), schema, said.get("strict")))
        return tuple(found)

    def streaming(self, body: Body, usage: bool) -> Body:
        """The request for a stream; `usage` asks for the tokens at its end, if that has to be said."""
        return body | {"stream": True}

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

    def stamped(self, body: Body, stamp: Stamp) -> Body:
        """A response under the gateway's names, with its mark on calls of tools."""
        named = {**(body if stamp.id is None else marked(body, stamp.id)), "model": stamp.model}
        if stamp.id is not None:
            named["id"] = stamp.id
        if stamp.summary is not None:
            named["sigma_mem"] = stamp.summary
        return named

    def usage(self, body: Body) -> Usage | None:
        """The tokens that a response, or an event, reports."""
        held = body.get(self.holder)
        found = (held.get("usage") if isinstance(held, dict) else None) or body.get("usage")
        return self.read_usage(found) if isinstance(found, dict) else None

    def read_usage(self, found: Body) -> Usage:
        """A usage as OpenAI writes it."""
        asked, said = self.tokens
        prompt, answer = mapping(found.get(f"{asked}_details")), mapping(found.get(f"{said}_details"))
        cached, written = prompt.get("cached_tokens"), prompt.get("cache_write_tokens")
        return usage_of(found.get(asked), found.get(said), cached, written, answer.get("reasoning_tokens"))

    def written_usage(self, usage: Usage) -> Body:
        """The same, written."""
        asked, said = self.tokens
        return {
            asked: usage.input,
            f"{asked}_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.written},
            said: usage.output,
            f"{said}_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        }

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

    def stamped_event(self, event: Body, stamp: Stamp) -> Body:
        """An event under the gateway's names."""
        if not self.holder:
            return self.stamped(event, stamp)
        if isinstance(inside := event.get(self.holder), dict):
            return event | {self.holder: self.stamped(inside, stamp)}
        return event if stamp.id is None else marked(event, stamp.id)

    @abstractmethod
    def events(self, body: Body) -> Iterator[Body]:
        """A whole response as the events of a stream."""

    def is_for_us(self, event: Body, request: Request) -> bool:
        """Whether an event came only because the gateway asked for it."""
        return False

    def event(self, body: Body) -> bytes:
        """One event as bytes, with its name if it has a type."""
        head = f"event: {body['type']}\n".encode() if "type" in body else b""
        return b"%bdata: %b\n\n" % (head, encode_json(body))

    def failure(self, message: str, code: str, status: int) -> Body:
        """The event that ends a stream which broke off."""
        return error_body(message, code, status)


def kind_of(event: Body, *failed: str) -> str:
    """The type of an event that has one; ValueError if it reports a failure."""
    kind = event.get("type")
    if kind in ("error", *failed) or not isinstance(kind, str):
        raise ValueError("an error in its stream" if kind else "events without a type")
    return kind


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


def trace_of(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request by which calls made for it can be found."""
    found = {}
    for name in _TRACE:
        if name in headers:
            found[name] = headers[name]
    return found


def _system_prompt(body: Body, items: Sequence[Any]) -> str:
    """The instructions of a request, wherever its protocol has them."""
    said = [body.get("system"), body.get("instructions")]
    said += [item.get("content") for item in map(mapping, items) if item.get("role") in _INSTRUCTS]
    parts = [part for content in said for part in (content if isinstance(content, list) else [content])]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))


def _tools(body: Body) -> list[str]:
    """The names of the tools that a request offers."""
    tools = body.get("tools")
    found = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    names = [tool.get("name") or mapping(tool.get("function") or {}).get("name") for tool in found]
    return [name for name in names if isinstance(name, str)]


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


def marked(body: Body, response: str) -> Body:
    """A response, or an event of one, with its id behind that of every call.

    >>> marked({"content": [{"type": "tool_use", "id": "toolu_1"}]}, "msg_7")
    {'content': [{'type': 'tool_use', 'id': 'toolu_1--msg_7'}]}
    """
    found = dict(body)
    key = "call_id" if "call_id" in body else "id"
    is_call = key == "call_id" or body.get("type") in _CALLS or "function" in body
    if is_call and isinstance(body.get(key), str) and body[key]:
        found[key] = f"{body[key]}--{response}"
    for inside in _INSIDE.intersection(body):
        held = body[inside]
        if isinstance(held, dict):
            found[inside] = marked(held, response)
        elif isinstance(held, list):
            found[inside] = list(held)
            for place, each in enumerate(held):
                if isinstance(each, dict):
                    found[inside][place] = marked(each, response)
    return found


def without_marks(turns: Sequence[Any]) -> tuple[list[Any], str | None]:
    """Turns with the ids that upstreams gave their calls, and the response whose calls the last one answers.

    >>> without_marks([{"role": "user"}, {"role": "tool", "tool_call_id": "call_1--chatcmpl-7"}])
    ([{'role': 'user'}, {'role': 'tool', 'tool_call_id': 'call_1'}], 'chatcmpl-7')
    """
    sent, answered = [], None
    for turn in turns:
        own, answered = _without_mark(turn)
        sent.append(own)
    return sent, answered


def _without_mark(part: Any) -> tuple[Any, str | None]:
    """A part with the upstream's own ids, and the response whose call it is the result of, if it is one."""
    if not isinstance(part, dict):
        return part, None
    found, answered = dict(part), None
    for key in _IDS.intersection(part):
        mark = _MARK.search(part[key]) if isinstance(part[key], str) else None
        if mark is not None:
            found[key] = part[key][: mark.start()]
            if key.startswith("tool_") or (key == "call_id" and str(part.get("type")).endswith("_output")):
                answered = mark[1]
    for key in ("content", "tool_calls"):
        if isinstance(parts := part.get(key), list):
            found[key] = []
            for each in parts:
                own, response = _without_mark(each)
                found[key].append(own)
                answered = answered or response
    return found, answered
