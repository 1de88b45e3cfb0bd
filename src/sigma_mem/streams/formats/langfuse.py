"""Langfuse: traces or observations with scores, from the UI's export, the API or blob storage.

Scores come embedded (``scores: [{name, value, …}]``), as one column per score name
(``accuracy: [1]``), or in a file of their own with ``trace_id`` and ``name``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from sigma_mem.errors import StreamError
from sigma_mem.streams.formats.gather import Dropped, Row, label_of_score

__all__ = ["holds", "is_scores", "rows"]

_PEERS = ("model", "providedModelName", "provided_model_name", "metadata.peer", "metadata.model")
_DOMAINS = ("metadata.domain", "metadata.category", "metadata.topic")
_LISTS = ("tags", "scores", "observations", "comments")
_WORDS = {"true": 1.0, "correct": 1.0, "yes": 1.0, "false": 0.0, "incorrect": 0.0, "no": 0.0}


def holds(records: list[dict[str, Any]]) -> bool:
    """Whether these records are traces or observations."""
    return all(name in records[0] for name in ("id", "input", "output"))


def is_scores(records: list[dict[str, Any]]) -> bool:
    """Whether these records are scores."""
    return "name" in records[0] and "value" in records[0] and _trace_of(records[0]) is not None


def rows(
    file: Path,
    records: list[dict[str, Any]],
    scores: list[dict[str, Any]],
    *,
    score: str | None = None,
    peer: str | None = None,
    event: str | None = None,
) -> Iterator[Row | Dropped]:
    """One row per trace; traces with the same input (or the same ``event`` field) are one event."""
    apart: dict[str, list[dict[str, Any]]] = {}
    for one in scores:
        apart.setdefault(str(_trace_of(one)), []).append(one)
    read = [_unpacked(record) for record in records]
    found = [{**_columns(record), **_named(record, apart)} for record in read]
    name = score if score is not None else _only_score(file, found)
    for record, values in zip(read, found, strict=True):
        yield _row(record, values.get(name or ""), peer, event)


def _trace_of(record: Mapping[str, Any]) -> Any:
    return record.get("traceId", record.get("trace_id"))


def _unpacked(record: dict[str, Any]) -> dict[str, Any]:
    """Undo the JSON text that CSV holds in its cells; {"trace": {…}, …} is one trace's download."""
    if isinstance(record.get("trace"), dict):
        record = {**record["trace"], **{k: v for k, v in record.items() if k != "trace"}}
    return {name: _value(cell) for name, cell in record.items()}


def _value(cell: Any) -> Any:
    if isinstance(cell, str) and cell[:1] in ("{", "[", '"'):
        try:
            return json.loads(cell)
        except (json.JSONDecodeError, RecursionError):
            return cell
    return cell


def _columns(record: dict[str, Any]) -> dict[str, list[Any]]:
    """Scores of the UI's export: columns that hold a list of values."""
    lists = {name: value for name, value in record.items() if isinstance(value, list) and name not in _LISTS}
    return {name: v for name, v in lists.items() if v and all(_number(one) is not None for one in v)}


def _named(record: dict[str, Any], apart: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[Any]]:
    embedded = record.get("scores")
    if isinstance(embedded, dict):
        return {name: value if isinstance(value, list) else [value] for name, value in embedded.items()}
    own = [s for s in embedded if isinstance(s, dict)] if isinstance(embedded, list) else []
    of_trace = [*apart.get(str(record.get("id")), []), *apart.get(str(_trace_of(record)), [])]
    values: dict[str, list[Any]] = {}
    for one in (*own, *of_trace):
        text = one.get("stringValue", one.get("string_value"))
        value = one.get("value") if _number(one.get("value")) is not None else text
        values.setdefault(str(one.get("name")), []).append(value)
    return values


def _only_score(file: Path, found: list[dict[str, list[Any]]]) -> str | None:
    names = list(dict.fromkeys(name for values in found for name in values))
    if len(names) > 1:
        raise StreamError(f"{file}: has the scores {', '.join(sorted(names))}; choose one with --score")
    return names[0] if names else None


def _row(
    record: dict[str, Any], values: list[Any] | None, peer: str | None, event: str | None
) -> Row | Dropped:
    name = _first(record, (peer,)) if peer is not None else _first(record, _PEERS) or _generation(record)
    if not name:
        return Dropped("no peer is named" + (f" in {peer}" if peer else ""))
    question = _asked(record.get("input"))
    numbers = [n for n in map(_number, values or []) if n is not None]
    known = _first(record, (event,)) if event is not None else question
    if not known:
        return Dropped(f"no event is named in {event}" if event else "the question is empty")
    return Row(
        key=known if event is not None else f"langfuse-{sha256(question.encode()).hexdigest()[:16]}",
        peer=name,
        question=question,
        text=_answered(record.get("output")),
        label=label_of_score(sum(numbers) / len(numbers)) if numbers else None,
        dataset="langfuse",
        domain=_first(record, _DOMAINS) or "",
    )


def _first(record: Mapping[str, Any], paths: tuple[str | None, ...]) -> str | None:
    for path in paths:
        value: Any = record
        for step in (path or "").split("."):
            value = _value(value).get(step) if isinstance(_value(value), dict) else None
        if value not in (None, ""):
            return str(value)
    return None


def _generation(record: Mapping[str, Any]) -> str | None:
    """The model, where all generations of a trace used the same one."""
    inside = record.get("observations")
    models = {_first(o, _PEERS) for o in inside if isinstance(o, dict)} if isinstance(inside, list) else set()
    models.discard(None)
    return models.pop() if len(models) == 1 else None


def _asked(value: Any) -> str:
    if isinstance(value, dict):
        for name in ("messages", "question", "query", "prompt", "input", "content"):
            if name in value:
                return _asked(value[name])
    if isinstance(value, list) and value and all(isinstance(m, dict) and "content" in m for m in value):
        users = [m for m in value if m.get("role") == "user"] or value
        return _asked(users[-1]["content"])
    return _plain(value)


def _answered(value: Any) -> str:
    if isinstance(value, dict):
        for name in ("content", "answer", "output", "text", "message"):
            if name in value:
                return _answered(value[name])
    if isinstance(value, list) and value and all(isinstance(m, dict) and "content" in m for m in value):
        return _answered(value[-1]["content"])
    return _plain(value)


def _plain(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        value = _WORDS.get(value.strip().lower(), value)
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
