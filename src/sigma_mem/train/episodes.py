"""Training episodes: a stream retold so that only the memory can say who is reliable.

The same peer is always good at the same things in a recorded stream, and a steering that sees it
long enough would learn the peer's style instead of its record. So every episode draws events in
a new order and deals the peers' (response, label) pairs to seats: within a domain the deal
holds for a stretch of the episode, then may change. Dealing anew at every event would make the record
worthless and only teach the gain to vanish. Some episodes forget one seat's record or all of it, and some
of the labels that are written are wrong, as they are in life.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray

__all__ = ["Episode", "EpisodeSettings", "draw_episode"]

IntArray = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class EpisodeSettings:
    """How episodes are drawn.

    Attributes
    ----------
    length : int
        Events in an episode (all of them where the stream is shorter).
    min_peers, max_peers : int
        Seats; no more than the stream has peers.
    changes : int
        At most this many change-points, at which every domain is dealt anew.
    resets : float
        Share of episodes in which the memory is emptied somewhere, half of them for one seat only.
    flips : float
        Share of written labels that are wrong; what is to be predicted stays right.
    """

    length: int = 4000
    min_peers: int = 2
    max_peers: int = 6
    changes: int = 1
    resets: float = 0.15
    flips: float = 0.07

    def __post_init__(self) -> None:
        if not 2 <= self.min_peers <= self.max_peers:
            raise InputError(
                f"an episode has {self.min_peers} to {self.max_peers} peers; expected 2 ≤ least ≤ most"
            )
        if self.length < 2 or self.changes < 0:
            raise InputError(
                f"length is {self.length} and changes is {self.changes}; expected at least 2 and 0"
            )
        for name in ("resets", "flips"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"{name} is {getattr(self, name)}; expected a share in [0, 1]")


@dataclass(frozen=True, slots=True)
class Episode:
    """One drawn episode of T events and S seats.

    Attributes
    ----------
    events : (T,) int
        Which event of the stream, in the order of the episode.
    dealt : (T, S) int
        Which peer of the stream answers at each seat.
    labels : (T, S) float
        Correctness of what is dealt; NaN where there is none.
    written : (T, S) float
        What the memory is told: some labels flipped, 0 where there is none.
    reset : (S,) int
        Place at which a seat's memory was last emptied; 0 where it never was.
    """

    events: IntArray
    dealt: IntArray
    labels: FloatArray
    written: FloatArray
    reset: IntArray

    def contested(self, start: int, among: IntArray | None = None) -> IntArray:
        """Places from ``start`` on where some seat is right, some is wrong and none is without a label.

        With ``among``, only places of these events of the stream.
        """
        right, wrong = (self.labels > 0).any(axis=1), (self.labels < 0).any(axis=1)
        fit = right & wrong & ~np.isnan(self.labels).any(axis=1)
        if among is not None:
            fit &= np.isin(self.events, among)
        found: IntArray = np.flatnonzero(fit)
        return found[found >= start]


def draw_episode(
    labels: FloatArray, domains: IntArray, settings: EpisodeSettings, rng: np.random.Generator
) -> Episode:
    """Draw one episode.

    Parameters
    ----------
    labels : (N, P) float
        Correctness of a training stream, NaN where there is none.
    domains : (N,) int
        Domain of every event.

    Examples
    --------
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
    return Episode(events, dealt, chosen, written, _resets(length, seats, settings.resets, rng))


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


def _resets(length: int, seats: int, share: float, rng: np.random.Generator) -> IntArray:
    reset = np.zeros(seats, dtype=np.intp)
    if rng.random() < share:
        place = int(rng.integers(1, length))
        one, seat = rng.random() < 0.5, int(rng.integers(seats))
        reset[seat if one else slice(None)] = place
    return reset
