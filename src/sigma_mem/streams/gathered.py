"""Answers gathered into events: which rows belong together, what was kept, what was dropped and why."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sigma_mem.answers.canon import Kind, canon
from sigma_mem.events import Answer, Event
from sigma_mem.streams.rows import Row
from sigma_mem.streams.stream import Stream


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
