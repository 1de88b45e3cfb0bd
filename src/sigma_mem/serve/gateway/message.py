"""A conversation and its answer in no protocol's own form: what one protocol reads, another writes.

Every protocol reads its requests into a `ModelRequest`, and writes one as a request of its own. So it does
with a `ModelReply` and with the deltas of a stream. What has no place is a loss, which is reported by name.
"""

import json
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Literal

from pydantic_core import PydanticSerializationError, from_json, to_json

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
    "cache_control client_metadata metadata prompt_cache_key prompt_cache_options "
    "prompt_cache_retention safety_identifier service_tier store user model stream stream_options"
)


def lose_others(body: Mapping[str, Any], known: Collection[str], lose: Lose, where: str = "") -> None:
    """Report every field that is none of these; null and false say nothing, so nothing is lost with them."""
    for key, value in body.items():
        if key not in known and key not in HINTS and value is not None and value is not False:
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


def usage_in(found: object, asked: str, said: str) -> Usage | None:
    """A usage as OpenAI writes it, with its words for the prompt and the answer."""
    if not isinstance(found, dict):
        return None
    prompt, answer = found.get(f"{asked}_tokens_details"), found.get(f"{said}_tokens_details")
    prompt, answer = prompt if isinstance(prompt, dict) else {}, answer if isinstance(answer, dict) else {}
    return usage_of(
        found.get(f"{asked}_tokens"),
        found.get(f"{said}_tokens"),
        prompt.get("cached_tokens"),
        prompt.get("cache_write_tokens"),
        answer.get("reasoning_tokens"),
    )


def written_usage(usage: Usage, asked: str, said: str) -> Body:
    """The same, written."""
    return {
        f"{asked}_tokens": usage.input,
        f"{asked}_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.written},
        f"{said}_tokens": usage.output,
        f"{said}_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def summed_usage(usages: Iterable[object]) -> dict[str, Any] | None:
    """Token counts of several answers, added up key by key; None if none was reported.

    >>> summed_usage([{"total_tokens": 3, "details": {"cached": 1}}, None, {"total_tokens": 4}])
    {'total_tokens': 7, 'details': {'cached': 1}}
    """
    found = [usage for usage in usages if isinstance(usage, Mapping)]
    if len(found) <= 1:
        return dict(found[0]) if found else None
    total: dict[str, Any] = {}
    for key in dict.fromkeys(key for usage in found for key in usage):
        values = [usage[key] for usage in found if usage.get(key) is not None]
        if any(isinstance(value, Mapping) for value in values):
            total[key] = summed_usage(values)
        elif values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            total[key] = sum(values)
        else:
            total[key] = values[0] if values else None
    return total


# ---- JSON and events as bytes


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


def clean_unicode(text: str) -> str:
    """The text with a question mark for every lone surrogate, which JSON can carry and no encoder takes."""
    return text.encode("utf-8", "replace").decode()


def event_bytes(body: Mapping[str, Any], name: str = "") -> bytes:
    """A JSON object as one event, with the event's name if it has one."""
    head = b"event: %b\n" % name.encode() if name else b""
    return b"%bdata: %b\n\n" % (head, encode_json(body))
