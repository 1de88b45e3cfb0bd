"""What responses look like: schemas of the operations' results, and models of the rest."""

from functools import cache
from types import NoneType
from typing import Any

from pydantic import BaseModel, ConfigDict

from sigma_mem.operations import TABLE, Operation
from sigma_mem.wire import json_schemas


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
    """Namespaces that the key may read."""

    namespaces: list[str]


class DecisionsBody(BaseModel):
    """Decisions, newest first."""

    decisions: list[dict[str, Any]]
