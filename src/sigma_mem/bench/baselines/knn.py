"""k nearest neighbours: the rate at which every peer was right on the most similar past questions."""

from __future__ import annotations

import numpy as np

from sigma_mem.bench.baselines.beta import successes
from sigma_mem.events import FloatArray

__all__ = ["NearestNeighbours"]


class NearestNeighbours:
    """Smoothed success rate over the k labelled events nearest to φ; keeps every event it learned from.

    Unlike the memory, whose state has one size, this one grows with the stream.

    Examples
    --------
    >>> import numpy as np
    >>> router = NearestNeighbours(n_peers=2, k=1)
    >>> router.learn(np.array([1.0, 0.0]), np.array([1.0, -1.0]), chosen=0)
    >>> router.learn(np.array([0.0, 1.0]), np.array([-1.0, 1.0]), chosen=0)
    >>> router.choose(np.array([0.8, 0.6])), router.choose(np.array([0.6, 0.8]))
    (0, 1)
    """

    def __init__(self, n_peers: int, k: int = 32) -> None:
        self.k = k
        self._n = 0
        self._phis = np.zeros((64, 0))
        self._r = np.zeros((64, n_peers))

    def choose(self, phi: FloatArray) -> int:
        """The peer with the largest (successes + 1)/(labels + 2) among the neighbours of φ."""
        if self._n == 0:
            return 0
        similarity = self._phis[: self._n] @ phi
        near = self._r[: self._n]
        if self._n > self.k:
            near = near[np.argpartition(similarity, self._n - self.k)[self._n - self.k :]]
        known = near == near  # NaN differs from itself
        right = np.where(known, near, 0.0).sum(axis=0)
        return int(((right + 1.0) / (known.sum(axis=0) + 2.0)).argmax())

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """Keep the event, if it has any label."""
        if np.isnan(labels).all():
            return
        if self._phis.shape[1] == 0:
            self._phis = np.zeros((len(self._r), len(phi)))
        if self._n == len(self._phis):  # double the room, so that learning is O(1) on average
            self._phis = np.concatenate((self._phis, np.zeros_like(self._phis)))
            self._r = np.concatenate((self._r, np.zeros_like(self._r)))
        self._phis[self._n], self._r[self._n] = phi, successes(labels)
        self._n += 1
