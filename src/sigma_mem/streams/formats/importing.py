"""Import files of another tool as a stream: parse them, find the format, gather answers into events."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sigma_mem.answers.canon import Kind, canon
from sigma_mem.errors import InputError, StreamError
from sigma_mem.events import Answer, Event
from sigma_mem.streams.formats import inspect_log, langfuse, llmrouterbench, routerbench
from sigma_mem.streams.formats.rows import Fields, Row, parse
from sigma_mem.streams.stream import Stream

FORMATS = {
    "routerbench": routerbench,
    "llmrouterbench": llmrouterbench,
    "inspect": inspect_log,
    "langfuse": langfuse,
}
"""Every module has ``matches(value)`` for a parsed file, and ``rows(files, fields)`` for all of them."""


@dataclass(frozen=True, slots=True)
class Report:
    """What an import kept and dropped."""

    rows: int  # answers found
    kept: int  # answers in the stream
    unlabelled: int  # kept answers without a usable score
    events: int
    partial: int  # events in which not every peer answered
    dropped: Mapping[str, int] = field(default_factory=dict)  # by reason


@dataclass(frozen=True, slots=True)
class Imported:
    """The stream that was made, the format of its files, and what was kept and dropped."""

    stream: Stream
    format: str
    report: Report


def import_stream(
    paths: Sequence[str | PathLike[str]],
    *,
    format: str = "auto",
    kind: Kind = "auto",
    score: str | None = None,
    peer: str | None = None,
    event: str | None = None,
    name: str | None = None,
) -> Imported:
    """Turn one or more files of one format into a stream.

    A folder among ``paths`` stands for all its ``.json`` files; inspect_ai and LLMRouterBench write one file
    per model, so give them all. ``kind`` says how answers are read, as in `canon`; ``score`` which score says
    that an answer is right, where there are several (inspect, Langfuse). For Langfuse, ``peer`` is the field
    that names the peer (``metadata.agent``; by default the model) and ``event`` the one that says which
    traces belong to the same event (by default the input). The stream's name is that of the first path.
    """
    if format not in ("auto", *FORMATS):
        raise InputError(f"got format {format!r}; expected auto or one of {', '.join(FORMATS)}")
    files = [(path, parse(path)) for path in _found(paths)]
    names = {_detect(path, value, format) for path, value in files}
    if len(names) > 1:
        raise StreamError(f"got files of several formats ({', '.join(sorted(names))}); import each by itself")
    (found,) = names
    peers, events, report = gather_events(FORMATS[found].rows(files, Fields(score, peer, event)), kind)
    if not events:
        why = "; ".join(f"{count} dropped: {reason}" for reason, count in report.dropped.items())
        raise StreamError(f"{files[0][0]}: holds no usable answer ({why or 'no rows'})")
    plain = Path(fspath(paths[0])).name.split(".")[0]
    return Imported(Stream(name if name is not None else plain, peers, events), found, report)


def _found(paths: Sequence[str | PathLike[str]]) -> list[Path]:
    files: list[Path] = []
    for path in (Path(fspath(p)) for p in paths):
        files += sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files:
        raise StreamError(f"got no file to import in {', '.join(map(str, paths)) or 'no paths'}; name files")
    return files


def _detect(path: Path, value: Any, asked: str) -> str:
    likely = [name for name, module in FORMATS.items() if module.matches(value)]
    if asked in likely:
        return asked
    if asked != "auto":
        looks = f" but like {likely[0]}" if likely else ""
        raise StreamError(f"{path}: does not look like {asked}{looks}; check the file or --format")
    if not likely:
        known = ", ".join(FORMATS)
        raise StreamError(f"{path}: is of no known format; expected one of {known} (see docs/streams.md)")
    return likely[0]


def gather_events(rows: Iterable[Row | str], kind: Kind) -> tuple[tuple[str, ...], tuple[Event, ...], Report]:
    """Return peers, events (both in order of first appearance) and the report."""
    groups: dict[str, dict[str, Row]] = {}
    dropped: Counter[str] = Counter()
    total = 0
    for row in rows:
        total += 1
        if isinstance(row, str):
            dropped[row] += 1
        elif (reason := _unfit(row, groups.get(row.key, {}))) is not None:
            dropped[reason] += 1
        else:
            groups.setdefault(row.key, {})[row.peer] = row
    peers = tuple(dict.fromkeys(peer for group in groups.values() for peer in group))
    events = tuple(_event(key, group, kind) for key, group in groups.items())
    kept = [row for group in groups.values() for row in group.values()]
    report = Report(
        rows=total,
        kept=len(kept),
        unlabelled=sum(row.label is None for row in kept),
        events=len(events),
        partial=sum(len(group) < len(peers) for group in groups.values()),
        dropped=dict(dropped),
    )
    return peers, events, report


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
    latency = {p: r.latency for p, r in group.items() if r.latency is not None}
    about = (first.domain, first.dataset, first.reference)
    return Event(key, first.question, answers, correct, *about, costs=costs, latency=latency)
