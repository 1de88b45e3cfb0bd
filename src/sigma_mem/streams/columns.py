"""Tables with one's own columns (CSV, Parquet, JSON) as a stream: the caller says which column is what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sigma_mem.answers.canon import Kind
from sigma_mem.errors import StreamError
from sigma_mem.streams.gathered import Imported, gather_events
from sigma_mem.streams.rows import Row, label_of_score, number, parse
from sigma_mem.streams.stream import Stream

_WORDS = {"true": 1.0, "right": 1.0, "yes": 1.0, "correct": 1.0} | {
    "false": -1.0, "wrong": -1.0, "no": -1.0, "incorrect": -1.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column is what.

    Either a row is one answer of one peer, named by ``peer``, with ``answer`` and a ``label`` or ``score``;
    or a row is a question with columns for every peer, in ``answers``, ``labels`` and ``scores`` (peer →
    column). A label is a bool, a word like true or wrong, or c ∈ [−1, 1]; a score is in [0, 1]. Rows with
    the same ``event``, or else the same question, belong together.
    """

    question: str = "question"
    event: str | None = None
    domain: str | None = None
    peer: str | None = None
    answer: str | None = None
    label: str | None = None
    score: str | None = None
    answers: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, str] = field(default_factory=dict)

    def needed(self) -> list[str]:
        """Every column that is named."""
        single = (self.question, self.event, self.domain, self.peer, self.answer, self.label, self.score)
        by_peer = (*self.answers.values(), *self.labels.values(), *self.scores.values())
        return [name for name in (*single, *by_peer) if name is not None]


def load_table(path: str | PathLike[str], columns: Columns, *, kind: Kind = "auto") -> Imported:
    """Read a table as a stream, and say which rows were dropped.

    StreamError names a column that is missing or a label that is none.
    """
    file = Path(fspath(path))
    rows = parse(file)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise StreamError(f"{file}: holds no table; expected rows with the columns {columns.needed()}")
    if missing := [name for name in columns.needed() if name not in rows[0]]:
        raise StreamError(f"{file}: has no column {missing[0]!r}; its columns are {list(rows[0])}")
    wide = {*columns.answers, *columns.labels, *columns.scores}
    if (columns.peer is None) == (not wide):
        raise StreamError(
            "got columns for one peer a row and for all peers, or for neither; expected one of them"
        )
    found = _wide(file, rows, columns, sorted(wide)) if wide else _long(file, rows, columns)
    peers, events, report = gather_events(found, kind)
    if not events:
        why = "; ".join(f"{count} dropped: {reason}" for reason, count in report.dropped.items())
        raise StreamError(f"{file}: holds no usable row ({why or 'no rows'})")
    return Imported(Stream(file.name.split(".")[0], peers, events), "table", report)


def _long(file: Path, rows: list[dict[str, Any]], columns: Columns) -> Iterator[Row]:
    for place, row in enumerate(rows):
        label = _label(file, place, row, columns.label, columns.score)
        yield _row(row, columns, _text(row, columns.peer), _text(row, columns.answer), label)


def _wide(file: Path, rows: list[dict[str, Any]], columns: Columns, peers: list[str]) -> Iterator[Row]:
    for place, row in enumerate(rows):
        for peer in peers:
            label = _label(file, place, row, columns.labels.get(peer), columns.scores.get(peer))
            yield _row(row, columns, peer, _text(row, columns.answers.get(peer)), label)


def _row(row: dict[str, Any], columns: Columns, peer: str, text: str, label: float | None) -> Row:
    question = _text(row, columns.question)
    key = question if columns.event is None else _text(row, columns.event)
    return Row(key, peer, question, text, label, domain=_text(row, columns.domain))


def _text(row: dict[str, Any], column: str | None) -> str:
    value = None if column is None else row[column]
    return "" if value is None else str(value)


def _label(file: Path, place: int, row: dict[str, Any], label: str | None, score: str | None) -> float | None:
    column = label if label is not None else score
    value = None if column is None else row[column]
    if value is None or value == "" or value != value:  # NaN differs from itself
        return None
    c = label_of_score(value) if label is None else _signed(value)
    if c is None:
        expected = "a number from 0 to 1" if label is None else "true, false or a number from -1 to 1"
        zero = "; for 0 and 1 name the column as a score" if label is not None and str(value) == "0" else ""
        raise StreamError(f"{file}: row {place + 1} has {column} {value!r}; expected {expected}{zero}")
    return c


def _signed(value: Any) -> float | None:
    if isinstance(value, bool):
        return 1.0 if value else -1.0
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    c = number(value)
    undecided = (isinstance(value, str) and value.strip() == "0") or (type(value) is int and value == 0)
    return c if c is not None and -1.0 <= c <= 1.0 and not undecided else None
