"""Relation G: who is right and wrong together, relative to the rest of the pool.

    q_p = c_p − mean of c over the labelled peers           (eq:sigma_centered_correctness)
    G′  = γ_G G + η_G qqᵀ,  diag G′ = 1                      (eq:sigma_topology_update)

Only the block of the labelled peers is written; with fewer than two of them the event only
decays. G is symmetric with unit diagonal, but not positive semidefinite in general: Weyl's
bound holds for E = G′ − γ_G G off the reset diagonal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.decayed import DecayedSum, added

WINDOW = 64  # events that wait to be added by one product


def centred(c: FloatArray, departed: Sequence[float] = ()) -> FloatArray:
    """q of an event: c minus its mean over the labelled peers, 0 for the unlabelled (NaN).

    Parameters
    ----------
    c : array (P,)
        Labels, NaN where there is none.
    departed : sequence of float
        Labels of peers that have left the pool since: they count in the mean.

    Returns
    -------
    array (P,); all 0 where fewer than two peers are labelled.

    >>> import numpy as np
    >>> centred(np.array([1.0, np.nan, -1.0, -1.0])).round(3).tolist()
    [1.333, 0.0, -0.667, -0.667]
    """
    values = c.tolist()
    known = [x for x in values if x == x]  # NaN differs from itself
    labels = len(known) + len(departed)
    if labels < 2:
        return np.zeros(len(c))
    mean = (added(known) + sum(departed)) / labels
    return np.array([x - mean if x == x else 0.0 for x in values])


def centred_events(c: FloatArray) -> FloatArray:
    """`centred` of every row of c, shape (T, P), at once."""
    seen = c == c
    labels = seen.sum(axis=1, keepdims=True)
    known = np.where(seen, c, 0.0)
    mean = known.sum(axis=1, keepdims=True) / np.maximum(labels, 1)
    return np.where(seen & (labels > 1), known - mean, 0.0)


class Relation:
    """G off its diagonal, without the factor η_G (the state applies it).

    Examples
    --------
    >>> import numpy as np
    >>> g = Relation(3, rate=0.0)
    >>> g.write(centred(np.array([1.0, 1.0, -1.0])), tick=1)
    >>> g.matrix(now=1, eta=0.9).round(2).tolist()
    [[1.0, 0.4, -0.8], [0.4, 1.0, -0.8], [-0.8, -0.8, 1.0]]
    """

    def __init__(self, n_peers: int, rate: float) -> None:
        arrays = {"sum": np.zeros((n_peers, n_peers)), "weights": np.zeros(WINDOW)}
        self.decayed = DecayedSum(rate, arrays)
        self._q = np.zeros((WINDOW, n_peers))  # of the last events, which are not yet in the sum
        self._filled = 0

    def write(self, q: FloatArray, tick: float, sign: float = 1.0) -> None:
        """Add qqᵀ of the event at `tick`; sign −1 takes it back."""
        if self._filled == WINDOW:
            self.fold_window()
        self._q[self._filled] = q
        self.decayed.arrays["weights"][self._filled] = sign * self.decayed.weight(tick)
        self._filled += 1

    def fold_window(self) -> None:
        """Add the last events to the sum; before the pool changes, since rounding depends on its size."""
        self.decayed.arrays["sum"] += self._window()
        self.decayed.arrays["weights"][:] = 0.0
        self._filled = 0

    def _window(self) -> FloatArray:
        """Σ weight·qqᵀ over the window: x + xᵀ is symmetric bit for bit, a product only up to rounding."""
        half = (0.5 * self.decayed.arrays["weights"] * self._q.T) @ self._q
        return half + half.T

    def matrix(self, now: float, eta: float) -> FloatArray:
        """G, shape (P, P): symmetric, diagonal 1."""
        g: FloatArray = (eta * self.decayed.factor(now)) * (self.decayed.arrays["sum"] + self._window())
        g.reshape(-1)[:: len(g) + 1] = 1.0  # the diagonal
        return g

    def take(self, order: Sequence[int]) -> Relation:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out = Relation(len(order), self.decayed.rate)
        out.decayed = self.decayed.take(order, {"sum": [0, 1], "weights": []})
        known = np.array(order) >= 0
        out._q[:, known] = self._q[:, [p for p in order if p >= 0]]
        out._filled = self._filled
        return out

    def scale(self, factors: FloatArray) -> None:
        """Multiply what two peers have in common by both their factors, (P,)."""
        self.decayed.arrays["sum"] *= np.outer(factors, factors)
        self._q *= factors

    def merge(self, other: Relation, now: float) -> None:
        """Add what another memory of the same peers holds at `now`."""
        copy = other.take(range(other._q.shape[1]))
        for relation in (self, copy):
            relation.fold_window()
        self.decayed.merge(copy.decayed, now)

    def pack(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        return {**self.decayed.pack(), "q": self._q[: self._filled]}

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from packed arrays."""
        self.decayed.unpack(packed)
        self._filled = len(packed["q"])
        self._q[: self._filled] = packed["q"]
