"""Per-cluster Beta: the question decides which cell is read, as LiteLLM's adaptive router does."""

from __future__ import annotations

import numpy as np

from sigma_mem.bench.baselines.beta import successes
from sigma_mem.events import FloatArray

__all__ = ["ClusterBeta", "cluster"]


def cluster(phis: FloatArray, k: int, seed: int, rounds: int = 20) -> FloatArray:
    """Centres (k, rank) of the φ's by k-means from a seeded k-means++ start. No label is looked at.

    The bench hands in every φ of the stream, the later ones too: more than a router in use would
    know, in favour of this baseline.
    """
    rng = np.random.default_rng(seed)
    k = min(k, len(phis))
    centres = phis[_spread(phis, k, rng)]
    for _ in range(rounds):
        members = np.eye(k)[_nearest(phis, centres)]
        sizes = members.sum(axis=0)
        means = (members.T @ phis) / np.maximum(sizes, 1.0)[:, None]
        centres = np.where(sizes[:, None] > 0, means, centres)
    return centres


def _nearest(phis: FloatArray, centres: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    distance = np.square(centres).sum(axis=1) - 2.0 * phis @ centres.T
    return np.asarray(distance.argmin(axis=1), dtype=np.intp)


def _spread(phis: FloatArray, k: int, rng: np.random.Generator) -> list[int]:
    """k-means++: each further start is drawn by its squared distance to the nearest one so far."""
    chosen = [int(rng.integers(len(phis)))]
    distance = np.square(phis - phis[chosen[0]]).sum(axis=1)
    while len(chosen) < k:
        total = distance.sum()
        weight = distance / total if total > 0 else np.full(len(phis), 1.0 / len(phis))
        chosen.append(int(rng.choice(len(phis), p=weight)))
        distance = np.minimum(distance, np.square(phis - phis[chosen[-1]]).sum(axis=1))
    return chosen


class ClusterBeta:
    """Beta(α, β) of every peer in every cluster, with the memory's decay on the cells that are written.

    Examples
    --------
    >>> import numpy as np
    >>> router = ClusterBeta(n_peers=2, centres=np.eye(2), gamma=0.99)
    >>> router.learn(np.array([1.0, 0.0]), np.array([-1.0, 1.0]), chosen=0)
    >>> router.choose(np.array([1.0, 0.0])), router.choose(np.array([0.0, 1.0]))
    (1, 0)
    """

    def __init__(self, n_peers: int, centres: FloatArray, gamma: float) -> None:
        self.gamma = gamma
        self.centres = centres
        self.alpha = np.ones((len(centres), n_peers))
        self.beta = np.ones((len(centres), n_peers))

    def _cell(self, phi: FloatArray) -> int:
        return int(_nearest(phi[None, :], self.centres)[0])

    def choose(self, phi: FloatArray) -> int:
        """The peer with the largest posterior mean in the cluster of φ."""
        cell = self._cell(phi)
        return int((self.alpha[cell] / (self.alpha[cell] + self.beta[cell])).argmax())

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """Update every labelled peer in the cluster of φ."""
        cell, r = self._cell(phi), successes(labels)
        known = r == r  # NaN differs from itself
        self.alpha[cell, known] = self.gamma * self.alpha[cell, known] + r[known]
        self.beta[cell, known] = self.gamma * self.beta[cell, known] + 1.0 - r[known]
