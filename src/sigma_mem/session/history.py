"""What was decided and how each peer did, from the ledger, as values that people see as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import Any, overload

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.events import Decision, FloatArray, shortened
from sigma_mem.ledger.event import EventState
from sigma_mem.ledger.lines import DecisionLine, Line, is_decision
from sigma_mem.ledger.pool import PoolChanges
from sigma_mem.ledger.records import Ledger, pages_back
from sigma_mem.tabular import Tabular, html_table

_SHOWN = 20  # rows in a notebook
Moment = float | str | datetime


class Decisions(Sequence[Decision], Tabular):
    """Decisions, newest first. They are read from the ledger while they are iterated, not before.

    Each iteration starts again, and sees what was decided meanwhile. ``len`` and negative indexes read all of
    them.
    """

    __slots__ = ("_iterate",)

    def __init__(self, iterate: Callable[[], Iterator[Decision]]) -> None:
        self._iterate = iterate

    def __iter__(self) -> Iterator[Decision]:
        return self._iterate()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, place: int) -> Decision: ...

    @overload
    def __getitem__(self, place: slice) -> list[Decision]: ...

    def __getitem__(self, place: int | slice) -> Decision | list[Decision]:
        if isinstance(place, slice):
            ends = (place.start, place.stop, place.step)
            if place.stop is not None and all(x is None or x >= 0 for x in ends):
                return list(islice(self, *ends))
            return list(self)[place]
        if place < 0:
            return list(self)[place]
        for decision in islice(self, place, None):
            return decision
        raise IndexError(f"there is no decision {place}")

    def __repr__(self) -> str:
        newest = next(iter(self), None)
        return "<Decisions: none>" if newest is None else f"<Decisions, the newest {newest!r}>"

    def rows(self) -> list[dict[str, Any]]:
        """One row a decision."""
        return [_row(decision) for decision in self]

    def to_dict(self) -> dict[str, Any]:
        """Under "decisions", each as `Decision.to_dict` gives it."""
        return {"decisions": [decision.to_dict() for decision in self]}

    def _repr_html_(self) -> str:
        shown = list(islice(self, _SHOWN + 1))
        return html_table(repr(self), [_row(d) for d in shown[:_SHOWN]], len(shown))


def _row(decision: Decision) -> dict[str, Any]:
    return {
        "id": decision.id,
        "event": decision.event,
        "time": decision.time,
        "read": decision.read,
        "peer": decision.peer,
        "confidence": decision.confidence,
        "answer": None if decision.answer is None else shortened(decision.answer),
        "question": None if decision.question is None else shortened(decision.question),
    }


def decision_lines(ledger: Ledger, end: int) -> Iterator[Line[DecisionLine]]:
    """Lines of decisions up to line `end`, the newest first, read page by page."""
    for page in pages_back(ledger.lines, end):
        yield from (line for line in reversed(page) if is_decision(line))


def decision_filter(
    *,
    peer: str | None,
    read: str | None,
    since: Moment | None,
    until: Moment | None,
    text: str | None,
    topic: str | None = None,
    below: float | None = None,
) -> Callable[[Line[DecisionLine], PoolChanges], bool]:
    """Whether a line of a decision fits: since ≤ time < until, and `text` occurs in question or answer.

    A peer may be named by any of its names; the changes of the pool define which those are.
    """
    for what, name in (("peer", peer), ("read", read), ("text", text), ("topic", topic)):
        if name is not None and not isinstance(name, str):
            raise InputError(f"{what} is {name!r:.80}; expected text, or None")
    first = None if since is None else seconds_of(since)
    end = None if until is None else seconds_of(until)
    wanted = None if text is None else text.casefold()

    def fits(line: Line[DecisionLine], pool: PoolChanges) -> bool:
        body = line.body
        chosen = () if body.chosen is None else (body.chosen,)
        return (
            (peer is None or pool.name_then(peer, line.seq, chosen) is not None)
            and (read is None or body.read == read)
            and (first is None or body.time >= first)
            and (end is None or body.time < end)
            and (topic is None or topic in body.topics)
            and (below is None or body.confidence < below)
            and (wanted is None or wanted in f"{body.question}\n{body.answer}".casefold())
        )

    return fits


def verdict_on(decision: Decision) -> str:
    """The label of the answer that was served: right, wrong, or none if there is no label of it."""
    label = decision.labels.get(decision.served or decision.peer or "", 0.0)
    return "right" if label > 0.0 else "wrong" if label < 0.0 else "none"


def seconds_of(moment: Moment) -> float:
    """A moment as seconds since 1970; a text is a date or date and time, as ISO 8601 writes them.

    >>> seconds_of("2026-01-01T00:00:00+00:00")
    1767225600.0
    """
    try:
        if isinstance(moment, str):
            moment = datetime.fromisoformat(moment)
        seconds = moment.timestamp() if isinstance(moment, datetime) else float(moment)
        if math.isfinite(seconds) and not isinstance(moment, bool):
            return seconds
    except (TypeError, ValueError, OverflowError, OSError):  # no date, or none that this system can count
        pass
    raise InputError(
        f"time is {moment!r}; expected seconds since 1970, a datetime, or a text such as 2026-01-31T12:00"
    )


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One event in a peer's record.

    Attributes
    ----------
    event, time
        The event, and when it was first decided, in seconds since 1970.
    prob : float, optional
        p̂ that its last decision claimed; None for a peer that was not in the pool.
    chosen : bool
        Whether a decision on the event chose the peer.
    label, weight : float, optional
        c ∈ [−1, 1] as it stands now, and how much evidence it is; None if there is no label.
    question : str, optional
    """

    event: str
    time: float
    prob: float | None
    chosen: bool
    label: float | None
    weight: float | None
    question: str | None


class History(Sequence[HistoryEntry], Tabular):
    """Events in which a peer was labelled or chosen, oldest first."""

    __slots__ = ("_entries", "peer")

    def __init__(self, peer: str, entries: Iterable[HistoryEntry]) -> None:
        self.peer = peer
        self._entries = tuple(entries)

    @overload
    def __getitem__(self, place: int) -> HistoryEntry: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[HistoryEntry, ...]: ...

    def __getitem__(self, place: int | slice) -> HistoryEntry | tuple[HistoryEntry, ...]:
        return self._entries[place]

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        labels = self._labels()
        chosen = sum(entry.chosen for entry in self._entries)
        right = f", right {0.5 + 0.5 * labels.mean():.0%}" if len(labels) else ""
        return f"<History of {self.peer}: chosen {chosen} times, {len(labels)} labels{right}>"

    def trend(self, parts: int = 24) -> list[float]:
        """Share right in this many equal parts of its labels, oldest first; fewer if there are few."""
        labels = self._labels()
        cut = np.array_split(labels, min(parts, max(1, len(labels))))
        return [0.5 + 0.5 * float(part.mean()) for part in cut if len(part)]

    def rolling(self, window: int = 50) -> tuple[FloatArray, FloatArray]:
        """Times, and the share right over the last `window` labels up to each."""
        times = np.array([entry.time for entry in self._entries if entry.label is not None])
        total = np.concatenate(([0.0], np.cumsum(self._labels())))
        end = np.arange(1, len(total))
        start = np.maximum(end - window, 0)
        return times, 0.5 + 0.5 * (total[end] - total[start]) / np.maximum(end - start, 1)

    def rows(self) -> list[dict[str, Any]]:
        """One row an event."""
        return [{**asdict(e), "question": shortened(e.question) if e.question else None} for e in self]

    def to_dict(self) -> dict[str, Any]:
        """The peer and its entries."""
        return {"peer": self.peer, "entries": [asdict(entry) for entry in self._entries]}

    def _labels(self) -> FloatArray:
        return np.array([entry.label for entry in self._entries if entry.label is not None], dtype=np.float64)


def histories(
    decisions: Iterable[Line[DecisionLine]], events: dict[str, EventState], peers: Iterable[str]
) -> dict[str, History]:
    """The record of every one of these peers.

    Parameters
    ----------
    decisions : iterable of Line
        Lines of decisions, in order.
    events : mapping
        Events by id, as they stand now.
    """
    made: dict[str, list[Line[DecisionLine]]] = {}
    for line in decisions:
        made.setdefault(line.event, []).append(line)
    return {peer: History(peer, _entries(peer, made, events)) for peer in peers}


def _entries(
    peer: str, made: dict[str, list[Line[DecisionLine]]], events: dict[str, EventState]
) -> Iterator[HistoryEntry]:
    for id, lines in made.items():
        event = events.get(id)
        if event is None:
            continue
        said = event.labels()
        chosen = any(line.body.chosen == peer for line in lines)
        if not chosen and peer not in said.c:
            continue
        label = said.c.get(peer)
        yield HistoryEntry(
            event=id,
            time=lines[0].body.time,
            prob=_prob(lines[-1].body, peer),
            chosen=chosen,
            label=label,
            weight=None if label is None else said.weight.get(peer, 1.0),
            question=event.question,
        )


def _prob(body: DecisionLine, peer: str) -> float | None:
    """p̂ of a peer; None if it was not in the pool."""
    return float(body.read_of_peers()[1][body.peers.index(peer)]) if peer in body.peers else None
