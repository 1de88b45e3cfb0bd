"""Training data: a stream, and episodes in which only the memory can know which peers are reliable.

In a recorded stream the same peer is always good at the same things, and a steering that sees it long
enough would learn the peer's style instead of its record. So every episode draws events in a new order and
deals the peers' (response, label) pairs to seats: within a domain the deal holds for a stretch of the
episode, then may change. Dealing again at every event would make the record worthless and only teach the
gain to vanish. Some episodes reset one seat's memory or all, and some of the written labels are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

IntArray = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class EpisodeSettings:
    """How episodes are drawn."""

    length: int = 4000  # events in an episode; all of them if the stream is shorter
    min_peers: int = 2  # seats; no more than the stream has peers
    max_peers: int = 6
    changes: int = 1  # at most this many change-points, at which every domain is dealt again
    resets: float = 0.15  # share of episodes that empty the memory somewhere, half of them for one seat only
    flips: float = 0.07  # share of written labels that are wrong; what is to be predicted stays right

    def __post_init__(self) -> None:
        if not 2 <= self.min_peers <= self.max_peers:
            raise InputError(
                f"an episode has {self.min_peers} to {self.max_peers} peers; expected 2 ≤ least ≤ most"
            )
        if self.length < 2 or self.changes < 0:
            raise InputError(f"length is {self.length}, changes is {self.changes}; expected at least 2 and 0")
        for name in ("resets", "flips"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"{name} is {getattr(self, name)}; expected a share in [0, 1]")


@dataclass(frozen=True, slots=True)
class Episode:
    """One drawn episode of T events and S seats."""

    events: IntArray  # (T,) events of the stream, in the order of the episode
    dealt: IntArray  # (T, S) which peer of the stream answers at each seat
    labels: FloatArray  # (T, S) correctness of what is dealt; NaN if there is none
    written: FloatArray  # (T, S) what is written to the memory: some labels flipped, 0 if there is none
    reset: IntArray  # (S,) place at which a seat's memory was last emptied; 0 if it never was

    def contested(self, start: int, among: IntArray | None = None) -> IntArray:
        """Places from ``start`` on, of some events with one seat right, one wrong, all labelled."""
        right, wrong = (self.labels > 0).any(axis=1), (self.labels < 0).any(axis=1)
        fit = right & wrong & ~np.isnan(self.labels).any(axis=1)
        if among is not None:
            fit &= np.isin(self.events, among)
        found: IntArray = np.flatnonzero(fit)
        return found[found >= start]


@dataclass(frozen=True, slots=True)
class TrainingStream:
    """N events of P peers: texts, labels and features side by side."""

    questions: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]  # by event and peer; empty if a peer gave none
    labels: FloatArray  # (N, P) ±1, NaN if there is no label or no answer to judge
    domains: IntArray  # (N,)
    features: FloatArray  # (N, D)
    train: IntArray  # events that gradient steps may see
    held_out: IntArray  # events that decide when to stop
    judged: IntArray  # the part of `train` that the language model reads; all of it is written to the memory
    names: tuple[str, ...] = ()  # of the seats: what a prompt that names the peer calls them

    def draw(self, among: IntArray, settings: EpisodeSettings, *seed: int) -> Episode:
        """Draw an episode from some of the events; equal seeds give equal episodes."""
        rng = np.random.default_rng(seed)
        drawn = draw_episode(self.labels[among], self.domains[among], settings, rng)
        return replace(drawn, events=among[drawn.events])

    def pairs(self, episode: Episode, at: IntArray) -> list[tuple[str, str, str]]:
        """(question, answer, name of the seat) of every seat at some places, seat by seat within a place.

        A name belongs to a seat, as the memory does, and not to the peer whose answer was dealt to it.
        """
        return [
            (self.questions[event], self.answers[event][peer], self.names[seat])
            for event, seats in zip(episode.events[at].tolist(), episode.dealt[at].tolist(), strict=True)
            for seat, peer in enumerate(seats)
        ]


def prepare(
    stream: Stream, features: FloatArray, *, seed: int, judged: int | None, held_out: float = 0.2
) -> TrainingStream:
    """Set a share of the events aside, and choose at random those that the language model reads."""
    if len(stream) < 10 or len(stream.peers) < 2:
        raise InputError(
            f"the stream has {len(stream)} events of {len(stream.peers)} peers; "
            "expected at least 10 events of 2 peers to learn from"
        )
    labels = stream.labels()
    if not ((labels > 0).any(axis=1) & (labels < 0).any(axis=1)).any():
        raise InputError(
            "the peers of the stream are all right or all wrong at every event; "
            "expected events on which they differ"
        )
    answers = tuple(tuple(e.answers[p].text if p in e.answers else "" for p in stream.peers) for e in stream)
    empty = np.array([[not text for text in row] for row in answers])
    order = np.random.default_rng((seed, 7)).permutation(len(stream))
    n_held = max(int(held_out * len(stream)), 4)
    return TrainingStream(
        questions=tuple(e.question for e in stream),
        answers=answers,
        labels=np.where(empty, np.nan, labels),
        domains=np.unique([e.domain for e in stream], return_inverse=True)[1].astype(np.intp),
        features=features,
        train=np.sort(order[n_held:]),
        held_out=np.sort(order[:n_held]),
        judged=np.sort(order[n_held:][:judged]),
        names=stream.peers,
    )


def draw_episode(
    labels: FloatArray, domains: IntArray, settings: EpisodeSettings, rng: np.random.Generator
) -> Episode:
    """Draw one episode of events with labels (N, P), NaN if there is none, and domains (N,).

    >>> rng = np.random.default_rng(0)
    >>> labels = np.array([[1.0, -1.0]] * 6)
    >>> drawn = draw_episode(labels, np.zeros(6, dtype=np.intp), EpisodeSettings(length=4), rng)
    >>> drawn.labels.shape, float(drawn.labels.sum())
    ((4, 2), 0.0)
    """
    n_events, n_peers = labels.shape
    if n_peers < settings.min_peers or n_events < 2:
        raise InputError(
            f"the training stream has {n_events} events and {n_peers} peers; expected at least 2 events "
            f"and {settings.min_peers} peers"
        )
    length = min(settings.length, n_events)
    events = rng.permutation(n_events)[:length]
    seats = int(rng.integers(settings.min_peers, min(settings.max_peers, n_peers) + 1))
    dealt = _deal(rng.permutation(n_peers)[:seats], domains[events], settings.changes, rng)
    chosen = labels[events[:, None], dealt]
    wrong = rng.random(chosen.shape) < settings.flips
    written = np.where(np.isnan(chosen), 0.0, np.where(wrong, -chosen, chosen))
    reset = np.zeros(seats, dtype=np.intp)
    if rng.random() < settings.resets:
        place = int(rng.integers(1, length))
        one, seat = rng.random() < 0.5, int(rng.integers(seats))
        reset[seat if one else slice(None)] = place
    return Episode(events, dealt, chosen, written, reset)


def _deal(pool: IntArray, domains: IntArray, changes: int, rng: np.random.Generator) -> IntArray:
    """Peers by seat, one permutation of the pool per domain and stretch between change-points."""
    length = len(domains)
    points = np.sort(rng.integers(0, length, size=int(rng.integers(0, changes + 1))))
    stretch = np.searchsorted(points, np.arange(length), side="right")
    dealt = np.empty((length, len(pool)), dtype=np.intp)
    for part in range(len(points) + 1):
        for domain in np.unique(domains):
            dealt[(stretch == part) & (domains == domain)] = rng.permutation(pool)
    return dealt
