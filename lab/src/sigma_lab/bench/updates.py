"""A stream in which models are updated under their names: another real model answers from some event on.

A pool of names is drawn from the stream's models, and among the others the models that take over names. Under
a name stand at every event the answer, text and label of one recorded model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sigma_mem.events import Event
from sigma_mem.streams import Stream
from sigma_mem.streams.stream import chance

When = Callable[[int, Event], bool]  # whether the update is there at an event


@dataclass(frozen=True, slots=True)
class Draw:
    """Which models have a name in the pool, and which of the others stand by to take one over."""

    seed: int
    pool: tuple[str, ...]  # in the order of the stream
    others: tuple[str, ...]  # as drawn

    def successors(self, count: int) -> dict[str, str]:
        """Names of the pool, drawn, and the model that takes each over; fewer if too few stand by."""
        drawn = sorted(self.pool, key=lambda peer: chance(self.seed, "updated", peer))
        return dict(zip(drawn[:count], self.others, strict=False))


@dataclass(frozen=True, slots=True)
class Update:
    """A drawn pool's stream, what happened in it, and the first event of every updated peer."""

    stream: Stream
    happened: str = ""
    began: Mapping[str, int] = field(default_factory=dict)


def draw_pool(peers: Sequence[str], size: int, seed: int) -> Draw:
    """Draw a pool of this size among the peers, all of them if there are no more.

    >>> draw_pool("abcde", 2, seed=0)
    Draw(seed=0, pool=('c', 'd'), others=('a', 'b', 'e'))
    """
    drawn = sorted(peers, key=lambda peer: chance(seed, "pool", peer))
    return Draw(seed, tuple(p for p in peers if p in drawn[:size]), tuple(drawn[size:]))


def updated(stream: Stream, pool: Sequence[str], successors: Mapping[str, str], when: When) -> Stream:
    """The pool's part of a stream; ``when`` the update is there, successors answer under the old names.

    A name whose model has neither answer nor label at an event is absent there. Every event stays.
    """
    before = {name: name for name in pool}
    after = {**before, **successors}

    def answered(event: Event, models: Mapping[str, str]) -> Event:
        return replace(
            event,
            answers={name: event.answers[m] for name, m in models.items() if m in event.answers},
            correct={name: event.correct[m] for name, m in models.items() if m in event.correct},
        )

    events = (answered(e, after if when(t, e) else before) for t, e in enumerate(stream))
    return Stream(stream.name, tuple(pool), tuple(events))


def from_halfway(stream: Stream) -> When:
    """The update comes at once, in the middle of the stream."""
    half = len(stream) // 2
    return lambda t, event: t >= half


def ever_more(stream: Stream, seed: int) -> When:
    """The update reaches ever more of the events: none up to 30 % of the stream, all from 70 % on."""
    n = max(len(stream), 1)
    return lambda t, event: chance(seed, "gradual", event.id) < (t / n - 0.3) / 0.4


def strongest(stream: Stream) -> list[str]:
    """The peers by their mean label over the whole stream, best first."""
    labels = {p: [e.correct[p] for e in stream if p in e.correct] for p in stream.peers}
    return sorted(stream.peers, key=lambda p: -sum(labels[p]) / max(len(labels[p]), 1))


def _unchanged(stream: Stream, draw: Draw) -> Update:
    return Update(updated(stream, draw.pool, {}, lambda t, event: False))


def _replaced(stream: Stream, draw: Draw, *, everyone: bool, gradual: bool) -> Update:
    """Other models take over one name, or all of them, at once or ever more often."""
    successors = draw.successors(len(draw.pool) if everyone else 1)
    when = ever_more(stream, draw.seed) if gradual else from_halfway(stream)
    happened = ", ".join(f"{name} becomes {model}" for name, model in successors.items())
    began = next(t for t, event in enumerate(stream) if when(t, event))
    return Update(updated(stream, draw.pool, successors, when), happened, dict.fromkeys(successors, began))


def _swapped(stream: Stream, draw: Draw) -> Update:
    """The best and the worst model of the pool exchange names."""
    order = strongest(_unchanged(stream, draw).stream)
    best, worst = order[0], order[-1]
    changed = updated(stream, draw.pool, {best: worst, worst: best}, from_halfway(stream))
    began = dict.fromkeys((best, worst), len(stream) // 2)
    return Update(changed, f"{best} and {worst} change places", began)


CONDITIONS: dict[str, tuple[str, Callable[[Stream, Draw], Update]]] = {
    "none": ("nothing changes", _unchanged),
    "one": (
        "halfway one name is taken over by another model",
        partial(_replaced, everyone=False, gradual=False),
    ),
    "all": ("halfway every name is", partial(_replaced, everyone=True, gradual=False)),
    "gradual": (
        "one name is ever more often: on no event up to 30 % of the stream, on all from 70 % on",
        partial(_replaced, everyone=False, gradual=True),
    ),
    "swap": ("halfway the best and the worst model exchange names", _swapped),
}
