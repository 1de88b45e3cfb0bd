"""Reveal: which labels of an event are shown, when, and by which source.

Every class has one verb, ``reveal(index, event, chosen)``, and wraps another (``of``), so
conditions are composed by nesting::

    Delayed(50, of=Bandit(Share(0.2)))   # the chosen peer's label of 20 % of the events, 50 events late

What is drawn depends on a seed and the event's id, not on the order of the stream.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import InputError
from sigma_mem.events import Event
from sigma_mem.streams.stream import Stream, chance, pair_of


@dataclass(frozen=True, slots=True)
class Revealed:
    """Labels that one source gives together."""

    due: int  # they may be written once the event with this index is decided, before the next one is
    labels: Mapping[str, float]
    source: str = "stream"


class Reveal(Protocol):
    """Decides which labels of an event are shown after ``chosen`` was chosen."""

    def reveal(self, index: int, event: Event, chosen: str) -> list[Revealed]:
        """Return what is shown of the event at ``index``: nothing, or one or more sets of labels."""


@dataclass(frozen=True, slots=True)
class Everything:
    """Every recorded label, at once: full feedback.

    >>> event = Event("e1", "2+2?", {}, {"a": 1.0, "b": -1.0})
    >>> Everything().reveal(7, event, "a")
    [Revealed(due=7, labels={'a': 1.0, 'b': -1.0}, source='stream')]
    """

    source: str = "stream"

    def reveal(self, index: int, event: Event, chosen: str) -> list[Revealed]:
        """Show all labels of the event right after its decision."""
        return [Revealed(index, dict(event.correct), self.source)] if event.correct else []


@dataclass(frozen=True, slots=True)
class Share:
    """The labels of a share of the events, drawn by seed; the events of 5 % are among those of 10 %.

    Both orders of a pair (`pair_of`) are drawn together.
    """

    share: float
    seed: int = 0
    of: Reveal = field(default_factory=Everything)

    def __post_init__(self) -> None:
        _check_share("share", self.share)

    def reveal(self, index: int, event: Event, chosen: str) -> list[Revealed]:
        """Show the event's labels if it was drawn, else nothing."""
        drawn = chance(self.seed, "share", pair_of(event.id)) < self.share
        return self.of.reveal(index, event, chosen) if drawn else []


@dataclass(frozen=True, slots=True)
class Bandit:
    """Only the label of the peer that was chosen."""

    of: Reveal = field(default_factory=Everything)

    def reveal(self, index: int, event: Event, chosen: str) -> list[Revealed]:
        """Show the label of ``chosen``, if it has one."""
        shown = self.of.reveal(index, event, chosen)
        return [replace(r, labels={chosen: r.labels[chosen]}) for r in shown if chosen in r.labels]


@dataclass(frozen=True, slots=True)
class Delayed:
    """Labels that come ``by`` events later: at ``by=1`` after the next event is decided."""

    by: int
    of: Reveal = field(default_factory=Everything)

    def __post_init__(self) -> None:
        if self.by < 0:
            raise InputError(f"got a delay of {self.by} events; expected 0 or more")

    def reveal(self, index: int, event: Event, chosen: str) -> list[Revealed]:
        """Show the same labels, due later."""
        return [replace(r, due=r.due + self.by) for r in self.of.reveal(index, event, chosen)]


@dataclass(frozen=True, slots=True)
class Dishonest:
    """One source that lies: a share of the events is labelled by it instead of by the others.

    It flips every label it gives; or, with ``favours``, labels this peer right and every
    other one wrong. Its labels carry its name, so a memory can revoke or distrust it.

    >>> event = Event("e1", "2+2?", {}, {"a": 1.0, "b": -1.0})
    >>> Dishonest(1.0, favours="b").reveal(0, event, "a")
    [Revealed(due=0, labels={'a': -1.0, 'b': 1.0}, source='liar')]
    """

    share: float
    source: str = "liar"
    favours: str | None = None
    seed: int = 0
    of: Reveal = field(default_factory=Everything)

    def __post_init__(self) -> None:
        _check_share("share", self.share)

    def reveal(self, index: int, event: Event, chosen: str) -> list[Revealed]:
        """Show the labels, or, in the liar's share of the events, its lies."""
        shown = self.of.reveal(index, event, chosen)
        if chance(self.seed, "dishonest", self.source, event.id) >= self.share:
            return shown
        if self.favours is None:
            lies = [{peer: -c for peer, c in r.labels.items()} for r in shown]
        else:
            lies = [{peer: 1.0 if peer == self.favours else -1.0 for peer in r.labels} for r in shown]
        return [replace(r, labels=said, source=self.source) for r, said in zip(shown, lies, strict=True)]


@dataclass(frozen=True, slots=True)
class When:
    """Labels of the places for which ``at`` holds; elsewhere what ``otherwise`` shows, if anything.

    >>> event = Event("e1", "2+2?", {}, {"a": 1.0})
    >>> [len(When(lambda place: place < 2).reveal(i, event, "a")) for i in range(3)]
    [1, 1, 0]
    """

    at: Callable[[int], bool]
    of: Reveal = field(default_factory=Everything)
    otherwise: Reveal | None = None

    def reveal(self, index: int, event: Event, chosen: str) -> list[Revealed]:
        """Show what is shown at this place."""
        shown = self.of if self.at(index) else self.otherwise
        return [] if shown is None else shown.reveal(index, event, chosen)


def shown_events(stream: Stream, reveal: Reveal) -> NDArray[np.bool_]:
    """Which events of a stream have any label shown, (T,), if the first peer is always chosen."""
    return np.array([bool(reveal.reveal(t, e, stream.peers[0])) for t, e in enumerate(stream)], dtype=bool)


def _check_share(what: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise InputError(f"got {what} {value}; expected a number in [0, 1]")
