"""Peers whose recent record left their long one: found from the newest labels of the ledger."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from sigma_mem.memory.drift import SURE, WINDOW, find_changes
from sigma_mem.session.fold import EventState, Fold
from sigma_mem.store.base import Store

_BLOCK = 4096  # positions of the ledger that are read at once, from its end; then twice as many
_LINES = 65536  # of this memory that are read at most


@dataclass(frozen=True, slots=True)
class Drift:
    """A peer whose record changed.

    Attributes
    ----------
    peer : str
    was, now : float
        How often it was right before, over its long record, and how often since.
    since : str
        The event from which on: the id of its first decision.
    tick, time : float
        Where that event is on the decay axis, and when it was decided, in seconds since 1970.
    labels : int
        How many labels the peer has since.
    confidence : float
        Probability that there was a change among the newest labels.
    """

    peer: str
    was: float
    now: float
    since: str
    tick: float
    time: float
    labels: int
    confidence: float

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.time, UTC)
        return (
            f"{self.peer}: right {self.was:.0%} before and {self.now:.0%} since {when:%Y-%m-%d %H:%M} UTC "
            f"(event {self.since}, {self.labels} labels ago), {self.confidence:.0%} sure"
        )


def find_drift(fold: Fold, store: Store, namespace: str) -> list[Drift]:
    """Peers whose record changed, the surest first."""
    events = _labelled_events(fold, store, namespace)
    if not events:
        return []
    peers, ids = fold.state.peers, list(events)
    ticks = np.array([event.tick for event in events.values()])
    phis = np.array([event.phi for event in events.values()])
    labels = np.array([[event.labels().get(p, np.nan) for p in peers] for event in events.values()])
    # The long record before the change: the decayed sums less what was added since.
    total, seen = fold.state.competence.trace(fold.state.now)
    recency = np.exp(-fold.state.settings.rate * (fold.state.now - ticks))
    found = []
    for i, change in enumerate(find_changes(phis, labels)):
        if change is None or change.confidence < SURE:
            continue
        c, weight = labels[change.place :, i], recency[change.place :]
        there = ~np.isnan(c)
        before = (total[i] - weight[there] @ c[there]) / max(seen[i] - weight[there].sum(), 1e-9)
        found.append(
            Drift(
                peer=peers[i],
                was=_rate(before),
                now=_rate(c[there].mean()),
                since=ids[change.place],
                tick=float(ticks[change.place]),
                time=float(fold.line(ids[change.place]).body["time"]),
                labels=int(there.sum()),
                confidence=change.confidence,
            )
        )
    return sorted(found, key=lambda drift: -drift.confidence)


def _rate(mean: float) -> float:
    """A mean label as a rate of being right."""
    return float(np.clip(0.5 * (1.0 + mean), 0.0, 1.0))


def _labelled_events(fold: Fold, store: Store, namespace: str) -> dict[str, EventState]:
    """The newest labelled events by id, in the order of their ticks, as they stand now."""
    newest: dict[str, EventState] = {}
    for id in _labelled(store, namespace, fold.seq):
        event = None if id in newest else fold.event(id)
        if event is not None and event.labels():
            newest[id] = event
        if len(newest) == WINDOW:
            break
    return dict(sorted(newest.items(), key=lambda pair: pair[1].tick))


def _labelled(store: Store, namespace: str, end: int) -> Iterator[str]:
    """Events that feedback is about, the newest feedback first; some more than once."""
    block, read = _BLOCK, 0
    while end > 0 and read < _LINES:
        lines = list(store.records(namespace, after=max(end - block, 0), until=end))
        yield from (line.event for line in reversed(lines) if line.kind == "feedback")
        end, block, read = end - block, 2 * block, read + len(lines)
