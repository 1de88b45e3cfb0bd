"""Peers whose recent record left their long one: found from the newest labels of the ledger."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.ledger.event import EventState
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.records import line_of, pages_back
from sigma_mem.memory.drift import SURE, WINDOW, find_changes
from sigma_mem.store.base import Store
from sigma_mem.tabular import Rows

_PAGE = 4096  # lines that are read at once
_LINES = 65536  # that are read at most
_EVENTS = 4 * WINDOW  # that are used, at most
_NEWEST = 50  # labels that show how a peer is doing now
_RECOVERED = 0.1  # a change that is no longer worth reporting


@dataclass(frozen=True, slots=True)
class Drift:
    """A peer whose record changed.

    Attributes
    ----------
    peer : str
    was, now : float
        How often it was right before, over its long record, and how often since, over its newest 50 labels.
    since : str
        The event from which on: the id of its first decision.
    tick, time : float
        The place of that event on the decay axis, and when it was decided, in seconds since 1970.
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


@dataclass(frozen=True, slots=True)
class RecentLabels:
    """The newest labelled events, oldest first, and the decayed sums of the whole record."""

    peers: tuple[str, ...]
    events: tuple[str, ...]
    ticks: FloatArray
    phis: FloatArray
    labels: FloatArray  # (events, peers), NaN if there is none
    recency: FloatArray  # weight of each event in the sums
    total: FloatArray  # Σ c by peer
    seen: FloatArray  # Σ 1

    def before(self, peer: int, place: int) -> float:
        """The mean label of the long record before an event: the sums less what was added since."""
        c, weight = self.labels[place:, peer], self.recency[place:]
        there = ~np.isnan(c)
        left = self.seen[peer] - weight[there].sum()
        return float((self.total[peer] - weight[there] @ c[there]) / max(left, 1e-9))


def recent_labels(fold: Fold, store: Store, namespace: str) -> RecentLabels:
    """What is known of the peers now, from the end of the ledger and from the state."""
    state, newest = fold.state, _labelled_events(fold, store, namespace)
    events = newest.values()
    ticks = np.array([event.tick for event in events])
    c = [[event.labels().c.get(peer, np.nan) for peer in state.peers] for event in events]
    total, seen = state.label_sums()
    return RecentLabels(
        peers=state.peers,
        events=tuple(newest),
        ticks=ticks,
        phis=np.array([event.phi for event in events]).reshape(len(ticks), state.rank),
        labels=np.array(c).reshape(len(ticks), len(state.peers)),
        recency=np.exp(-state.settings.rate * (state.now - ticks)),
        total=total,
        seen=seen,
    )


def find_drift(recent: RecentLabels, store: Store, namespace: str) -> list[Drift]:
    """Peers whose record changed, the surest first."""
    found = []
    for i, change in enumerate(find_changes(recent.phis, recent.labels)):
        if change is None or change.confidence < SURE:
            continue
        since, c = recent.events[change.place], recent.labels[change.place :, i]
        line = store.find(namespace, "decision", since)
        if line is None:  # the store had to drop it meanwhile
            continue
        c = c[~np.isnan(c)]
        was, now = _rate(recent.before(i, change.place)), _rate(float(c[-_NEWEST:].mean()))
        if abs(was - now) < _RECOVERED:
            continue
        found.append(
            Drift(
                peer=recent.peers[i],
                was=was,
                now=now,
                since=since,
                tick=float(recent.ticks[change.place]),
                time=line_of(line).body.time,
                labels=len(c),
                confidence=change.confidence,
            )
        )
    return Rows(sorted(found, key=lambda drift: -drift.confidence))


def _rate(mean: float) -> float:
    """A mean label as a rate of being right."""
    return float(np.clip(0.5 * (1.0 + mean), 0.0, 1.0))


def _labelled_events(fold: Fold, store: Store, namespace: str) -> dict[str, EventState]:
    """Events with the newest labels of every peer, by id, in the order of their ticks, as they stand now.

    A peer that is seldom asked is judged by old labels: nothing newer is known of it.
    """
    newest: dict[str, EventState] = {}
    wanted = Counter({peer: min(fold.labelled[peer], WINDOW) for peer in fold.state.peers})
    for id in _labelled(store, namespace, fold.seq):
        event = None if id in newest else fold.event(id)
        labelled = () if event is None else event.labels().c
        if event is not None and any(wanted[peer] > 0 for peer in labelled):
            newest[id] = event
            wanted.subtract(list(labelled))
        if len(newest) == _EVENTS or not any(wanted[peer] > 0 for peer in fold.state.peers):
            break
    return dict(sorted(newest.items(), key=lambda pair: pair[1].tick))


def _labelled(store: Store, namespace: str, end: int) -> Iterator[str]:
    """Events that feedback is about, the newest feedback first; some more than once."""
    read = 0
    for page in pages_back(partial(store.records, namespace), end, _PAGE):
        yield from (record.event for record in reversed(page) if record.kind == "feedback")
        if (read := read + len(page)) >= _LINES:
            return
