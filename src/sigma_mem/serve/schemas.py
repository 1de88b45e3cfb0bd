"""What requests and responses hold: models and schemas that follow from the table of operations."""

from base64 import b64decode
from binascii import Error as NotBase64
from functools import cache, reduce
from inspect import Parameter
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, create_model

from sigma_mem.answers.canon import Kind
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, FloatArray
from sigma_mem.operations import TABLE, Operation
from sigma_mem.session import Budget
from sigma_mem.wire import json_schemas

_MOST = 4_096  # peers, or numbers of a φ, in one request: the rest of a longer list is not looked at
_REQUEST = ConfigDict(extra="forbid")  # so that a misspelt option is not silently ignored


class SentAnswer(BaseModel):
    """An answer whose canonical form the caller knows."""

    model_config = _REQUEST
    text: Annotated[str, Field(max_length=1_000_000)]
    canon: Annotated[str, Field(max_length=1_000_000)] | None = None


def _answer(answer: str | SentAnswer | None) -> str | Answer | None:
    return Answer(answer.text, answer.canon) if isinstance(answer, SentAnswer) else answer


def _phi(phi: list[float] | str) -> FloatArray:
    if isinstance(phi, str):
        try:
            raw = b64decode(phi, validate=True)
        except (NotBase64, ValueError):
            raw = b"?"
        if len(raw) % 8:
            raise InputError(
                "phi is not base64 of little-endian float64 numbers; expected that, or a list of numbers"
            )
        return np.frombuffer(raw, dtype="<f8").astype(np.float64)
    return np.array(phi, dtype=np.float64)


def _moment(value: Any) -> Any:
    """Seconds since 1970, or a date as it was written; a query has both as text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


Text = Annotated[str, Field(max_length=1_000_000)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
SomeAnswer = Annotated[Text | SentAnswer | None, AfterValidator(_answer)]
Label = StrictBool | Annotated[float, Field(strict=True, ge=-1.0, le=1.0)]
Score = Annotated[float, Field(strict=True, ge=0.0, le=1.0)]
Moment = Annotated[float | Annotated[str, Field(max_length=64)], BeforeValidator(_moment)]

# What JSON holds for parameters whose type in Python says too little, or too much, of it.
_SENT: dict[str, Any] = {
    "question": Text | list[dict[str, Any]],
    "phi": Annotated[Annotated[list[float], Field(max_length=_MOST)] | Text, AfterValidator(_phi)],
    "answers": Annotated[dict[Name, SomeAnswer], Field(max_length=_MOST)],
    "canon": Kind,
    "topic": Name | list[Name],
    "among": Annotated[list[Name], Field(min_length=1)],
    "budget": Budget,
    "decision": Name,
    "id": Name,
    "after": Name,
    "before": Name,
    "labels": Annotated[dict[Name, Label], Field(min_length=1, max_length=_MOST)],
    "scores": Annotated[dict[Name, Score], Field(min_length=1, max_length=_MOST)],
    "text": Text,
    "served.answer": Text,
    "forget.decision": Name | list[Name],
    "forget.before": Moment,
    "decisions.topic": Name,
    "decisions.since": Moment,
    "decisions.until": Moment,
    "history.peer": list[Name],
}
_EXAMPLES: dict[str, Any] = {
    "question": "What is 17 * 23?",
    "answers": {"gemma": "391", "phi": "391", "coder": "381"},
    "labels": {"gemma": True, "coder": False},
    "topic": "law",
}


def request_model(
    operation: Operation[Any, Any], most: int = 1_000, left_out: frozenset[str] = frozenset()
) -> type[BaseModel]:
    """The model of an operation's request: a field for every parameter; `most` rows in one answer."""
    fields: dict[str, Any] = {}
    for name, parameter in operation.parameters.items():
        if name in left_out:
            continue
        hint = operation.hints[name]
        kind = _SENT.get(f"{operation.name}.{name}", _SENT.get(name, _limited(hint)))
        default = ... if parameter.default is Parameter.empty else parameter.default
        limits: dict[str, Any] = {}
        if name in ("last", "top"):
            kind, limits = int, {"ge": 0, "le": most}
            default = most if default is None else default
        elif NoneType in get_args(hint):
            kind, default = kind | None, None if default is ... else default
        if name in _EXAMPLES:
            limits["examples"] = [_EXAMPLES[name]]
        fields[name] = (kind, Field(default, description=operation.described(name) or None, **limits))
        if name == "last":
            fields["limit"] = (int | None, Field(None, ge=0, le=most, description="The same as `last`."))
    title = "".join(part.capitalize() for part in operation.name.split("_"))
    return create_model(f"{title}Request", __config__=_REQUEST, __doc__=operation.summary, **fields)


def _limited(hint: Any) -> Any:
    """The type, with text no longer than a name."""
    if hint is str:
        return Name
    if get_origin(hint) in (Union, UnionType):
        return reduce(or_, (_limited(each) for each in get_args(hint)))
    return hint


def arguments_of(request: BaseModel) -> dict[str, Any]:
    """A request as arguments of the method; what was left out has the method's own default."""
    given = dict(request)
    limit = given.pop("limit", None)
    return given if limit is None else given | {"last": limit}


class AddRequest(BaseModel):
    """A peer's answer in a panel."""

    model_config = _REQUEST
    panel: Name = Field(description="As `ask` named it: the id of the event.", examples=["1d5dc4ce-17"])
    peer: Name = Field(examples=["gemma"])
    answer: SomeAnswer = Field(description="null if the peer failed.", examples=["391"])


class NamespaceRequest(BaseModel):
    """What a new memory is made of."""

    model_config = _REQUEST
    peers: list[Name] = Field(min_length=1, max_length=1024, examples=[["gemma", "phi", "coder"]])
    rank: int | None = Field(None, ge=1, le=4096, description="Without an encoder: the dimension of every φ.")
    encoder: Name | None = Field(None, description="static (default), hashed or sentence.")
    settings: dict[str, Any] | None = Field(
        None,
        description="Decay, step sizes, prior; recorded with the memory.",
        examples=[{"trusted": ["ci"]}],
    )


@cache
def _schemas() -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    told = {name: each.returns for name, each in TABLE.items() if each.returns is not NoneType}
    schemas, definitions = json_schemas(told.values())
    return dict(zip(told, schemas, strict=True)), definitions


def result_definitions() -> dict[str, Any]:
    """The schemas that those of results refer to, by name."""
    return _schemas()[1]


def result_schema(operation: Operation[Any, Any]) -> dict[int | str, dict[str, Any]]:
    """The successful response to an operation, as OpenAPI describes it; nothing if it has a model."""
    schema = _schemas()[0].get(operation.name)
    if schema is None:
        return {}
    if operation.result is not None:
        name = operation.result
        schema = {"type": "object", "properties": {name: schema}, "required": [name]}
    return {200: {"description": operation.summary, "content": {"application/json": {"schema": schema}}}}


class ErrorDetail(BaseModel):
    """What went wrong: a line for people, a word for programs."""

    message: str
    type: str
    code: str
    param: str | None


class ErrorBody(BaseModel):
    """The body of every refusal."""

    error: ErrorDetail


class BatchResult(BaseModel):
    """One item of a batch: the feedback that was taken, or why it was not."""

    feedback: dict[str, Any] | None = None
    error: ErrorDetail | None = None


class BatchBody(BaseModel):
    """Results in the order of the items."""

    results: list[BatchResult]


class NamespaceBody(BaseModel):
    """A namespace's memory."""

    model_config = ConfigDict(extra="allow")
    name: str
    peers: list[str]
    events: int
    rank: int
    encoder: dict[str, str]
    settings: dict[str, Any]
    keep_text: bool


class NamesBody(BaseModel):
    """Namespaces that the key may read, its role in each, and what amounts are in."""

    namespaces: list[str]
    roles: dict[str, str]
    currency: str
