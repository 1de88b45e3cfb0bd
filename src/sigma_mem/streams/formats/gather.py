"""Gather single answers into events, and count what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sigma_mem.answers.canon import Kind, canon
from sigma_mem.events import Answer, Event

__all__ = ["Dropped", "Report", "Row", "gather", "label_of_score"]


@dataclass(frozen=True, slots=True)
class Row:
    """One answer of one peer, as some file holds it.

    ``key`` says which rows belong to the same event; ``label`` is c ∈ [−1, 1] or None. An
    ``answer`` that the file's own scorer read from the text is what the canon is made of.
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


@dataclass(frozen=True, slots=True)
class Dropped:
    """A row that could not be used, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """What an import kept and dropped.

    Attributes
    ----------
    rows, kept, unlabelled : int
        Answers found; those in the stream; those of them without a usable score.
    dropped : mapping from reason to count
    events, partial : int
        Events made; those of them in which not every peer answered.
    """

    rows: int
    kept: int
    unlabelled: int
    events: int
    partial: int
    dropped: Mapping[str, int] = field(default_factory=dict)


def label_of_score(score: float) -> float | None:
    """Turn a score in [0, 1] into c = 2·score − 1; None outside (NaN included)."""
    return 2.0 * score - 1.0 if 0.0 <= score <= 1.0 else None


def gather(rows: Iterable[Row | Dropped], kind: Kind) -> tuple[tuple[str, ...], tuple[Event, ...], Report]:
    """Return peers, events (both in order of first appearance) and the report."""
    groups: dict[str, dict[str, Row]] = {}
    dropped: Counter[str] = Counter()
    total = 0
    for row in rows:
        total += 1
        if isinstance(row, Dropped):
            dropped[row.reason] += 1
        elif (reason := _unfit(row, groups.get(row.key))) is not None:
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


def _unfit(row: Row, group: Mapping[str, Row] | None) -> str | None:
    if not row.question.strip():
        return "the question is empty"
    if not row.peer:
        return "no peer is named"
    if group is None:
        return None
    if row.peer in group:
        return "a second answer of the same peer to the same event"
    if next(iter(group.values())).question != row.question:
        return "another question under the same id"
    return None


def _event(key: str, group: Mapping[str, Row], kind: Kind) -> Event:
    first = next(iter(group.values()))
    return Event(
        id=key,
        question=first.question,
        answers={
            p: Answer(r.text, canon(r.text if r.answer is None else r.answer, kind)) for p, r in group.items()
        },
        correct={p: r.label for p, r in group.items() if r.label is not None},
        domain=first.domain,
        dataset=first.dataset,
        reference=first.reference,
    )
