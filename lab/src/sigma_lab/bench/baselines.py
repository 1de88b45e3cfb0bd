"""Routers that the memory is compared with: they see φ and past labels, never an answer.

Each has two verbs. `choose` takes φ and which peers are present; `learn` takes the labels of an event.
`BASELINES` lists those that are rows of every table.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sigma_lab.bench.row import successes
from sigma_mem.events import FloatArray


class Router(Protocol):
    """Chooses a peer from φ alone, and learns from labels that come later."""

    def choose(self, phi: FloatArray, present: NDArray[np.bool_]) -> int:
        """Index of the present peer to trust with this task; ties go to the one listed first."""

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """Take the labels c ∈ [−1, 1] of an event, NaN if there is none; ``chosen`` was chosen for it."""


def best_present(values: FloatArray, present: NDArray[np.bool_]) -> int:
    """Index of the largest value among those present."""
    return int(np.where(present, values, -np.inf).argmax())


class Beta:
    """Decayed Beta(α_p, β_p) of every peer, from Beta(1, 1), blind to the question.

    α_p ← γα_p + r_p,  β_p ← γβ_p + (1 − r_p)                  (appendix:role)

    The largest posterior mean is chosen. The paper's B1 has γ = 0.9, about ten events of memory; γ = 1
    follows the leader, the peer with the best rate so far. A peer without a label is left as it is.

    >>> b1 = Beta(n_peers=2, gamma=0.9)
    >>> b1.learn(np.zeros(1), np.array([-1.0, 1.0]), chosen=0)
    >>> b1.choose(np.zeros(1), np.full(2, True)), b1.alpha.round(2).tolist(), b1.beta.round(2).tolist()
    (1, [0.9, 1.9], [1.9, 0.9])
    """

    def __init__(self, n_peers: int, gamma: float) -> None:
        self.gamma = gamma
        self.alpha = np.ones(n_peers)
        self.beta = np.ones(n_peers)

    def choose(self, phi: FloatArray, present: NDArray[np.bool_]) -> int:
        """The peer with the largest posterior mean, whatever φ is."""
        return best_present(self.alpha / (self.alpha + self.beta), present)

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """Update every labelled peer."""
        r, known = successes(labels), ~np.isnan(labels)
        self.alpha[known] = self.gamma * self.alpha[known] + r[known]
        self.beta[known] = self.gamma * self.beta[known] + (1.0 - r[known])


class ClusterBeta:
    """A `Beta` per cluster of questions, as LiteLLM's adaptive router keeps; only the cell of φ decays."""

    def __init__(self, n_peers: int, centres: FloatArray, gamma: float) -> None:
        self.centres = centres
        self.cells = [Beta(n_peers, gamma) for _ in centres]

    def choose(self, phi: FloatArray, present: NDArray[np.bool_]) -> int:
        """The peer with the largest posterior mean in the cluster of φ."""
        return self.cells[int(_nearest(phi[None, :], self.centres)[0])].choose(phi, present)

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """Update every labelled peer in the cluster of φ."""
        self.cells[int(_nearest(phi[None, :], self.centres)[0])].learn(phi, labels, chosen)


def cluster(phis: FloatArray, k: int, seed: int, rounds: int = 20) -> FloatArray:
    """Centres (k, rank) of the φ's by k-means from a seeded k-means++ start. No label is used.

    The bench hands in every φ of the stream, more than a router in use would know, in this baseline's favour.
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


def _nearest(phis: FloatArray, centres: FloatArray) -> NDArray[np.intp]:
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


class NearestNeighbours:
    """Smoothed success rate over the k labelled events nearest to φ; keeps every event it learned from.

    Unlike the memory, whose state has one size, this one grows with the stream.
    """

    def __init__(self, n_peers: int, k: int = 32) -> None:
        self.k = k
        self._n = 0
        self._phis, self._r = np.zeros((0, 0)), np.zeros((0, n_peers))

    def choose(self, phi: FloatArray, present: NDArray[np.bool_]) -> int:
        """The peer with the largest (successes + 1)/(labels + 2) among the neighbours of φ."""
        if self._n == 0:
            return int(present.argmax())
        near = self._r[: self._n]
        if self._n > self.k:
            similarity = self._phis[: self._n] @ phi
            near = near[np.argpartition(similarity, self._n - self.k)[self._n - self.k :]]
        labels = (~np.isnan(near)).sum(axis=0)
        return best_present((np.nansum(near, axis=0) + 1.0) / (labels + 2.0), present)

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """Keep the event, if it has any label."""
        if np.isnan(labels).all():
            return
        if self._n == len(self._r):  # double the room, so that learning is O(1) on average
            room = max(64, 2 * self._n)
            self._phis = np.resize(self._phis, (room, len(phi)))
            self._r = np.resize(self._r, (room, len(labels)))
        self._phis[self._n], self._r[self._n] = phi, successes(labels)
        self._n += 1


class LinearThompson:
    """Thompson sampling with a decayed ridge regression of success on φ: ten lines that anyone would write.

    Read greedily it is the regression alone.
    """

    def __init__(self, n_peers: int, rank: int, seed: int = 0, *, explore: bool = False) -> None:
        self._A, self._b = np.tile(np.eye(rank), (n_peers, 1, 1)), np.zeros((n_peers, rank))
        self._rng, self._width, self._decay = np.random.default_rng(seed), 0.3 if explore else 0.0, 0.99

    def choose(self, phi: FloatArray, present: NDArray[np.bool_]) -> int:
        """The largest draw of every peer's expected success."""
        solved = np.linalg.solve(self._A, np.broadcast_to(phi, self._b.shape)[..., None])[..., 0]
        mean, variance = (solved * self._b).sum(axis=1), np.maximum(solved @ phi, 0.0)
        return best_present(
            mean + self._width * np.sqrt(variance) * self._rng.standard_normal(len(mean)), present
        )

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """One update of every labelled peer."""
        for peer, r in enumerate(successes(labels).tolist()):
            if r == r:  # NaN differs from itself
                self._A[peer] = self._decay * self._A[peer] + np.outer(phi, phi)
                self._A[peer].flat[:: len(phi) + 1] += 1.0 - self._decay
                self._b[peer] = self._decay * self._b[peer] + r * phi


# From the number of peers, every φ of the stream, the memory's γ, and a seed.
BASELINES: Mapping[str, Callable[[int, FloatArray, float, int], Router]] = {
    "leader": lambda n_peers, phis, gamma, seed: Beta(n_peers, 1.0),
    "beta-b1": lambda n_peers, phis, gamma, seed: Beta(n_peers, 0.9),
    "beta-decayed": lambda n_peers, phis, gamma, seed: Beta(n_peers, gamma),
    "beta-cluster": lambda n_peers, phis, gamma, seed: ClusterBeta(n_peers, cluster(phis, 16, seed), gamma),
    "knn": lambda n_peers, phis, gamma, seed: NearestNeighbours(n_peers),
}
