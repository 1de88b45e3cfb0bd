"""A peer's record, from the ledger: what it was trusted with, and whether it was right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

import numpy as np

from sigma_mem.events import FloatArray, shortened
from sigma_mem.ledger.event import EventState
from sigma_mem.ledger.lines import DecisionLine, Line
from sigma_mem.session.tabular import Tabular


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One event in a peer's record.

    Attributes
    ----------
    event, time
        The event, and when it was first decided, in seconds since 1970.
    prob : float, optional
        p̂ that its last decision claimed; None for a peer that was not in the pool then.
    chosen : bool
        Whether a decision on the event chose the peer.
    label, weight : float, optional
        c ∈ [−1, 1] as it stands now, and how much evidence it is; None where there is no label.
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
        """Share right in so many equal parts of its labels, oldest first; fewer where there are few."""
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
    """p̂ of a peer; None where it was not in the pool."""
    return float(body.read_of_peers()[1][body.peers.index(peer)]) if peer in body.peers else None
