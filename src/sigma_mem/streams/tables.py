"""Tables (CSV, Parquet, JSON) as streams: files parsed into rows, rows gathered into events.

What cannot be used is a string, the reason, instead of a `Row`. Pickles are never read: opening one can run
code.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from sigma_mem.answers.canon import Kind, canon
from sigma_mem.errors import StreamError
from sigma_mem.events import Answer, Event
from sigma_mem.extras import require
from sigma_mem.streams.jsonl import file_error, most_unpacked, read_file, too_large
from sigma_mem.streams.stream import Stream

_ROWS_AT_ONCE = 64
_PICKLES = (".pkl", ".pickle", ".p", ".joblib", ".npy", ".pt")


@dataclass(frozen=True, slots=True)
class Row:
    """One answer of one peer, as some file holds it.

    ``key`` identifies the rows of one event; ``label`` is c ∈ [−1, 1] or None. An
    ``answer`` that the file's own scorer read from the text is what the canon is made of. ``cost`` is what
    the call cost.
    """

    key: str
    peer: str
    question: str
    text: str
    label: float | None
    dataset: str = ""
    domain: str = ""
    reference: str | None = None
    answer: str | None = None
    cost: float | None = None


def number(value: Any) -> float | None:
    """The number that a value is or spells, if any."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def label_of_score(score: Any) -> float | None:
    """Turn a score in [0, 1] into c = 2·score − 1; None for anything else, NaN included."""
    value = number(score)
    return 2.0 * value - 1.0 if value is not None and 0.0 <= value <= 1.0 else None


def ending_of(file: Path) -> str:
    """The ending that names a file's format, whether it is compressed or not.

    >>> ending_of(Path("log.CSV.gz"))
    '.csv'
    """
    return Path(file.name.removesuffix(".gz").removesuffix(".zst")).suffix.lower()


def parse(file: Path) -> Any:
    """Return what a file holds: a JSON value, or a list of records."""
    ending = ending_of(file)
    if ending in _PICKLES:
        raise StreamError(
            f"{file}: got a pickle, which can run code when it is opened; expected CSV or JSON lines: "
            "convert it where you trust it (pandas: to_csv, to_json)"
        )
    if ending == ".eval":
        remedy = f"inspect log convert --to json --output-dir DIR {file}"
        raise StreamError(f"{file}: got a packed log; run: {remedy}")
    if ending == ".parquet":
        return _parquet(file)
    text = _decoded(file)
    if ending == ".csv":
        return _csv(file, text)
    if ending in (".jsonl", ".ndjson"):
        return [_json(file, line, number) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if ending == ".json":
        return _json(file, text)
    known = ".csv, .json, .jsonl or .parquet (or with .gz, .zst)"
    raise StreamError(f"{file}: got the ending {ending!r}; expected {known}")


def _decoded(file: Path) -> str:
    try:
        return read_file(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StreamError(f"{file}: byte {error.start} is not UTF-8; write the file as UTF-8") from error


def _json(file: Path, text: str, line: int | None = None) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        number = line or error.lineno
        raise StreamError(f"{file}, line {number}: not JSON ({error.msg}); repair it") from error
    except RecursionError as error:
        raise StreamError(f"{file}: JSON is nested too deeply; expected records") from error


def _csv(file: Path, text: str) -> list[dict[str, Any]]:
    before = csv.field_size_limit(sys.maxsize)  # a response may exceed the default of 128 KiB
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    rows = []
    try:
        _refuse_repeated(file, [name for name in reader.fieldnames or () if name])
        for row in reader:
            if None in row or None in row.values():
                raise csv.Error("it has more or fewer fields than the header")
            rows.append(row)
        return rows
    except csv.Error as error:
        raise StreamError(f"{file}, line {reader.line_num}: not CSV ({error}); repair it") from error
    finally:
        csv.field_size_limit(before)


def _refuse_repeated(file: Path, names: Sequence[str]) -> None:
    """Raise if two columns have one name, since either may be meant."""
    for name, times in Counter(names).items():
        if times > 1:
            raise StreamError(f"{file}: has {times} columns {name!r}; expected one: rename the others")


def _parquet(file: Path) -> list[dict[str, Any]]:
    parquet = require("pyarrow.parquet", extra="parquet", purpose="reading a Parquet file")
    rows: list[dict[str, Any]] = []
    try:
        size, packed = 0, file.stat().st_size
        with parquet.ParquetFile(file) as table:
            _refuse_repeated(file, table.schema_arrow.names)
            # A few rows at a time: a page may repeat one long text in millions of rows.
            for batch in table.iter_batches(_ROWS_AT_ONCE):
                found = batch.to_pylist()
                texts = sum(len(value) for row in found for value in row.values() if isinstance(value, str))
                size += max(texts, batch.nbytes)
                if size > most_unpacked(packed):
                    raise too_large(file, packed, most_unpacked(packed))
                rows += found
    except StreamError:
        raise
    except OSError as error:
        raise file_error(file, "read", error) from error
    except ValueError as error:  # pyarrow's own errors
        raise StreamError(f"{file}: got {error}; expected Parquet") from error
    return rows


class Imported(NamedTuple):
    """The stream that was made of a file, and how many of its answers were dropped for which reason."""

    stream: Stream
    dropped: Mapping[str, int]


def gather_events(file: Path, rows: Iterable[Row | str], kind: Kind) -> Imported:
    """Make a stream of rows, under the file's name: peers and events in order of first appearance."""
    groups: dict[str, dict[str, Row]] = {}
    dropped: Counter[str] = Counter()
    for row in rows:
        if isinstance(row, str):
            dropped[row] += 1
        elif (reason := _unfit(row, groups.get(row.key, {}))) is not None:
            dropped[reason] += 1
        else:
            groups.setdefault(row.key, {})[row.peer] = row
    if not groups:
        why = "; ".join(f"{count} dropped: {reason}" for reason, count in dropped.items())
        raise StreamError(f"{file}: holds no usable answer ({why or 'no rows'})")
    peers = tuple(dict.fromkeys(peer for group in groups.values() for peer in group))
    events = tuple(_event(key, group, kind) for key, group in groups.items())
    return Imported(Stream(file.name.split(".")[0], peers, events), dropped)


def _unfit(row: Row, group: Mapping[str, Row]) -> str | None:
    if not row.question.strip():
        return "the question is empty"
    if not row.peer:
        return "no peer is named"
    if row.peer in group:
        return "a second answer of the same peer to the same event"
    if any(other.question != row.question for other in group.values()):
        return "another question under the same id"
    return None


def _event(key: str, group: Mapping[str, Row], kind: Kind) -> Event:
    first = next(iter(group.values()))
    forms = {p: canon(r.text if r.answer is None else r.answer, kind) for p, r in group.items()}
    answers = {p: Answer(r.text, forms[p]) for p, r in group.items()}
    correct = {p: r.label for p, r in group.items() if r.label is not None}
    costs = {p: r.cost for p, r in group.items() if r.cost is not None}
    about = (first.domain, first.dataset, first.reference)
    return Event(key, first.question, answers, correct, *about, costs=costs)


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
    """Read a table as a stream, and count what was dropped.

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
    return gather_events(file, _rows(file, rows, columns, sorted(wide)), kind)


def _rows(file: Path, table: list[dict[str, Any]], columns: Columns, peers: list[str]) -> Iterator[Row]:
    """One answer a row, of the peer that it names or, in columns of their own, of each of these peers."""
    for place, row in enumerate(table):
        question, domain = _text(row, columns.question), _text(row, columns.domain)
        key = question if columns.event is None else _text(row, columns.event)
        for peer in peers or [_text(row, columns.peer)]:
            answer, label, score = (
                (columns.answers.get(peer), columns.labels.get(peer), columns.scores.get(peer))
                if peers
                else (columns.answer, columns.label, columns.score)
            )
            c = _label(file, place, row, label, score)
            yield Row(key, peer, question, _text(row, answer), c, domain=domain)


def _text(row: dict[str, Any], column: str | None) -> str:
    value = None if column is None else row[column]
    return "" if value is None else str(value)


def _label(file: Path, place: int, row: dict[str, Any], label: str | None, score: str | None) -> float | None:
    column = label if label is not None else score
    value = None if column is None else row[column]
    if value is None or value == "" or value != value:  # NaN differs from itself
        return None
    c = label_of_score(value) if label is None else signed_label(value)
    if c is None:
        expected = "a number from 0 to 1" if label is None else "true, false or a number from -1 to 1"
        zero = "; for 0 and 1 name the column as a score" if label is not None and str(value) == "0" else ""
        raise StreamError(f"{file}: row {place + 1} has {column} {value!r}; expected {expected}{zero}")
    return c


def signed_label(value: Any) -> float | None:
    """A label as c ∈ [−1, 1]: true, false, a word for them, or a number; None for anything else.

    The integer 0 is none: it could mean wrong or undecided.
    """
    if isinstance(value, bool):
        return 1.0 if value else -1.0
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    c = number(value)
    undecided = (isinstance(value, str) and value.strip() == "0") or (type(value) is int and value == 0)
    return c if c is not None and -1.0 <= c <= 1.0 and not undecided else None
