"""A conversation and its answer in no protocol's own form: what one protocol reads, another writes.

Every protocol reads its requests into a `ModelRequest`, and writes one as a request of its own. So it does
with a `ModelReply` and with the deltas of a stream. What has no place is a loss. A loss is an error, unless
the upstream's configuration allows it.
"""

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sigma_mem.errors import SigmaMemError

Body = dict[str, Any]
Lose = Callable[[str], None]
FAILED = "The tool failed:"  # in words, in protocols whose results of tools have no field for it
Stop = Literal["end", "length", "tool", "sequence", "refusal"]


class LossError(SigmaMemError):
    """Something of a request has no place in the protocol that a peer speaks."""


def losing(allowed: Collection[str]) -> Lose:
    """What to call with the name of each loss: raises LossError, unless that may be lost.

    >>> losing(["seed"])("seed")
    """

    def lose(what: str) -> None:
        if what not in allowed and "*" not in allowed:
            raise LossError(what)

    return lose


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Fields that say nothing of the answer: whose request it is, and where to keep or cache it.
HINTS = names(
    "cache_control metadata prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier "
    "service_tier store user model stream stream_options"
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
    """A whole request.

    Attributes
    ----------
    messages, tools
    choice : str, optional
        "auto", "none", "required", or "named": the tool `named` must be called.
    parallel : bool, optional
        Whether several tools may be called at once.
    format : mapping, optional
        What the answer must look like: ``{"type": "json_schema", "name": …, "schema": …}``, or
        ``{"type": "json_object"}``.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    choice: str | None = None
    named: str = ""
    parallel: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    effort: str | None = None
    verbosity: str | None = None
    format: Body | None = None


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
        if other is None:
            return self
        return Usage(
            max(self.input, other.input),
            max(self.output, other.output),
            max(self.cached, other.cached),
            max(self.written, other.written),
            max(self.reasoning, other.reasoning),
        )


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A whole answer."""

    parts: tuple[Text | Call, ...]
    stop: Stop
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of a text."""

    text: str


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


Delta = TextDelta | CallDelta | End


def text_of(parts: Iterable[Part]) -> str:
    """The texts among some parts, as they are."""
    return "".join(part.text for part in parts if isinstance(part, Text))


def count(value: object) -> int:
    """A number of tokens; 0 for what is none."""
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e12 else 0


def new_id(prefix: str) -> str:
    """An id that nothing else has."""
    return prefix + secrets.token_hex(12)


def mapping(value: object) -> Body:
    """A JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}
