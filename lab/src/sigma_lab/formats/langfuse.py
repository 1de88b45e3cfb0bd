"""Langfuse: traces or observations with scores, from the UI's export, the API or blob storage.

Scores come embedded (``scores: [{name, value, …}]``), as one column per score name
(``accuracy: [1]``), or in a file of their own with ``trace_id`` and ``name``.
"""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from sigma_lab.formats.fields import Fields, Files, amount_of, only_score, records
from sigma_mem.streams.rows import Row, label_of_score, number

_PEERS = ("model", "providedModelName", "provided_model_name", "metadata.peer", "metadata.model")
_DOMAINS = ("metadata.domain", "metadata.category", "metadata.topic")
_COSTS = ("totalCost", "total_cost", "calculatedTotalCost", "costDetails.total", "cost_details.total")
_LISTS = ("tags", "scores", "observations", "comments")
_INPUT = ("messages", "question", "query", "prompt", "input", "content")
_OUTPUT = ("content", "answer", "output", "text", "message")
_WORDS = {"true": 1.0, "correct": 1.0, "yes": 1.0, "false": 0.0, "incorrect": 0.0, "no": 0.0}


def matches(value: Any) -> bool:
    """Whether a parsed file holds traces, observations or scores."""
    table = records(value)
    scores = table is not None and {"name", "value"} <= table[0].keys() and _trace_of(table[0]) is not None
    return scores or bool(_traces(value))


def rows(files: Files, fields: Fields) -> Iterator[Row | str]:
    """One row per trace; traces with the same input (or the same event field) are one event."""
    traces = [_unpacked(trace) for _, value in files for trace in _traces(value)]
    own_files: dict[str, list[dict[str, Any]]] = {}
    for score in (s for _, value in files if not _traces(value) for s in records(value) or []):
        own_files.setdefault(str(_trace_of(score)), []).append(score)
    scores = [{**_columns(trace), **_named(trace, own_files)} for trace in traces]
    names = sorted({name for values in scores for name in values})
    chosen = fields.score if fields.score is not None else only_score(files[0][0], names)
    for trace, values in zip(traces, scores, strict=True):
        yield _row(trace, values.get(chosen or ""), fields.peer, fields.event)


def _traces(value: Any) -> list[dict[str, Any]]:
    """A table of traces, a single one, or one trace's download; empty for anything else."""
    if isinstance(value, dict) and isinstance(value.get("trace"), dict):
        return [value] if _is_trace(value["trace"]) else []
    table = records(value) or ([value] if isinstance(value, dict) else [])
    return table if table and _is_trace(table[0]) else []


def _is_trace(record: dict[str, Any]) -> bool:
    return all(name in record for name in ("id", "input", "output"))


def _trace_of(record: Mapping[str, Any]) -> Any:
    return record.get("traceId", record.get("trace_id"))


def _unpacked(record: dict[str, Any]) -> dict[str, Any]:
    """Parse JSON in CSV cells, and unwrap {"trace": {…}, …}, the download of one trace."""
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


def _named(record: dict[str, Any], own_files: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[Any]]:
    embedded = record.get("scores")
    if isinstance(embedded, dict):
        return {name: value if isinstance(value, list) else [value] for name, value in embedded.items()}
    own = [s for s in embedded if isinstance(s, dict)] if isinstance(embedded, list) else []
    of_trace = [*own_files.get(str(record.get("id")), []), *own_files.get(str(_trace_of(record)), [])]
    values: dict[str, list[Any]] = {}
    for one in (*own, *of_trace):
        text = one.get("stringValue", one.get("string_value"))
        value = one.get("value") if _number(one.get("value")) is not None else text
        values.setdefault(str(one.get("name")), []).append(value)
    return values


def _row(record: dict[str, Any], values: list[Any] | None, peer: str | None, event: str | None) -> Row | str:
    name = _first(record, (peer,)) if peer is not None else _first(record, _PEERS) or _generation(record)
    if not name:
        return "no peer is named" + (f" in {peer}" if peer else "")
    question = _said(record.get("input"), _INPUT, "user")
    numbers = [n for n in map(_number, values or []) if n is not None]
    known = _first(record, (event,)) if event is not None else question
    if not known:
        return f"no event is named in {event}" if event else "the question is empty"
    return Row(
        key=known if event is not None else f"langfuse-{sha256(question.encode()).hexdigest()[:16]}",
        peer=name,
        question=question,
        text=_said(record.get("output"), _OUTPUT, ""),
        label=label_of_score(sum(numbers) / len(numbers)) if numbers else None,
        dataset="langfuse",
        domain=_first(record, _DOMAINS) or "",
        cost=amount_of(*(_first(record, (path,)) for path in _COSTS)),
        latency=amount_of(record.get("latency")),
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


def _said(value: Any, keys: tuple[str, ...], role: str) -> str:
    """The text of an input or output: a string, an object that holds it, or the last message of a role."""
    if isinstance(value, dict):
        for key in keys:
            if key in value:
                return _said(value[key], keys, role)
    if isinstance(value, list) and value and all(isinstance(m, dict) and "content" in m for m in value):
        messages = [m for m in value if m.get("role") == role] or value
        return _said(messages[-1]["content"], keys, role)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        value = _WORDS.get(value.strip().lower(), value)
    return number(value)
