"""Ridge regression of a peer's labels on φ: what a kernel mean cannot see where all tasks look alike.

    w_p = (N_p + λI)⁻¹ Σ γ^age (c − rate_p) φ,   claim_p(φ) = rate_p + w_pᵀφ.

A kernel mean weighs labels by (φ·φ′)², which hardly differs between tasks of narrow traffic; a regression
uses the small directions in which they do differ. If there is little to learn from φ it is the worse of the
two, so p̂ mixes them by likelihood (`rates`).

φᵀ(N_p + λI)⁻¹φ is one over the number of labels that speak of φ, and goes to 1/λ where nothing does: what
exploration and intervals need.

Peers that are labelled on the same events share N_p and Σφ. Each set of such peers is kept once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.decayed import DecayedSum

_RIDGE = 0.1  # λ: small, because the kernel mean is there for what is hard to learn


class Regression:
    """Σφφᵀ, Σφ and Σcφ of every peer at the slowest rate.

    Examples
    --------
    Two kinds of task that are alike but for a little; a peer is right on the one and wrong on the other:

    >>> memory, a, b = Regression(1, 2, rate=0.0), np.array([1.0, 0.1]), np.array([1.0, -0.1])
    >>> for tick in range(500):
    ...     memory.write(np.array([a, b]), np.array([[1.0], [-1.0]]), np.ones((2, 1)), [tick, tick])
    >>> w = memory.weights(np.zeros(1), np.ones(1))
    >>> (w @ a).round(2).tolist(), (w @ b).round(2).tolist()
    ([0.99], [-0.99])
    """

    def __init__(self, n_peers: int, rank: int, rate: float) -> None:
        self.rank = rank
        self._set_of = [0] * n_peers  # which set of equally labelled peers each belongs to
        arrays = {"labels": np.zeros((n_peers, rank)), "sets": np.zeros((1, rank + 1, rank))}
        self.decayed = DecayedSum(rate, arrays)

    # --- write ---------------------------------------------------------------------------

    def write(self, phis: FloatArray, label: FloatArray, weight: FloatArray, ticks: Sequence[float]) -> None:
        """Add the labels of events, a row each, in order.

        Parameters
        ----------
        phis : array (events, rank)
        label, weight : arrays (events, P)
            Labels times their weight, and the weights; 0 where there is no label, negative to take back.
        """
        factors = self.decayed.weights(ticks)
        labels = self.decayed.arrays["labels"]
        for phi, c, w, factor in zip(phis, label, weight.tolist(), factors.tolist(), strict=True):
            labels += (factor * c)[:, None] * phi
            moments = np.empty((self.rank + 1, self.rank))
            np.multiply(phi[:, None], phi, out=moments[:-1])
            moments[-1] = phi
            self._split(w)
            sets = self.decayed.arrays["sets"]
            for number, share in {self._set_of[p]: share for p, share in enumerate(w)}.items():
                if share:
                    sets[number] += (factor * share) * moments

    def _split(self, weight: Sequence[float]) -> None:
        """Give peers of one set that an event weighs differently sets of their own."""
        pairs = list(zip(self._set_of, weight, strict=True))
        first = dict(reversed(pairs))  # of every set, the first peer's share
        if all(first[number] == share for number, share in pairs):
            return
        sets = list(self.decayed.arrays["sets"])
        numbers = {(number, share): number for number, share in first.items()}
        for pair in pairs:
            if pair not in numbers:
                numbers[pair] = len(sets)
                sets.append(sets[pair[0]].copy())
        self._set_of = [numbers[pair] for pair in pairs]
        self.decayed.arrays["sets"] = np.array(sets)

    # --- read ----------------------------------------------------------------------------

    def weights(self, rate: FloatArray, fresh: FloatArray) -> FloatArray:
        """w of every peer, (P, rank), from labels less its rate; sums are multiplied by `fresh`, (P,)."""
        labels, sets = self.decayed.arrays["labels"], self.decayed.arrays["sets"]
        out = np.zeros_like(labels)
        for number, members in self._members().items():
            factor = float(fresh[members[0]])
            if factor:
                moments = factor * (labels[members] - rate[members, None] * sets[number, -1])
                out[members] = np.linalg.solve(self._penalised(sets[number], factor), moments.T).T
        return out

    def leverage(self, phi: FloatArray, now: float) -> FloatArray:
        """φᵀ(N_p + λI)⁻¹φ of every peer, (P,), by what is known now."""
        factor, sets = self.decayed.factor(now), self.decayed.arrays["sets"]
        out = np.empty(len(self._set_of))
        for number, members in self._members().items():
            out[members] = phi @ np.linalg.solve(self._penalised(sets[number], factor), phi)
        return out

    def _penalised(self, moments: FloatArray, factor: float) -> FloatArray:
        matrix: FloatArray = factor * moments[:-1]
        matrix.reshape(-1)[:: self.rank + 1] += _RIDGE  # the diagonal
        return matrix

    def _members(self) -> dict[int, list[int]]:
        members: dict[int, list[int]] = {}
        for peer, number in enumerate(self._set_of):
            members.setdefault(number, []).append(peer)
        return members

    # --- peers, merge, snapshot ----------------------------------------------------------

    def take(self, order: Sequence[int]) -> Regression:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out = Regression(len(order), self.rank, self.decayed.rate)
        taken = self.decayed.take(order, {"labels": [0], "sets": []})
        new = len(taken.arrays["sets"])
        taken.arrays["sets"] = np.concatenate((taken.arrays["sets"], np.zeros((1, self.rank + 1, self.rank))))
        out.decayed, out._set_of = taken, [new if p < 0 else self._set_of[p] for p in order]
        out._drop_unused()
        return out

    def _drop_unused(self) -> None:
        used = sorted(set(self._set_of))
        self.decayed.arrays["sets"] = self.decayed.arrays["sets"][used]
        self._set_of = [used.index(number) for number in self._set_of]

    def scale(self, factors: FloatArray) -> None:
        """Multiply the sums of every peer by a factor, (P,)."""
        self._split(factors.tolist())
        self.decayed.arrays["labels"] *= factors[:, None]
        for number, members in self._members().items():
            self.decayed.arrays["sets"][number] *= factors[members[0]]

    def merge(self, other: Regression, now: float) -> None:
        """Add what another memory of the same peers holds at `now`."""
        self._split([float(number) for number in other._set_of])
        ratio = other.decayed.factor(now) / self.decayed.factor(now)
        self.decayed.arrays["labels"] += ratio * other.decayed.arrays["labels"]
        for number, members in self._members().items():
            theirs = other.decayed.arrays["sets"][other._set_of[members[0]]]
            self.decayed.arrays["sets"][number] += ratio * theirs

    def pack(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        return {**self.decayed.pack(), "set_of": np.array(self._set_of, dtype=np.float64)}

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from packed arrays."""
        self._set_of = [int(number) for number in packed["set_of"].tolist()]
        self.decayed.arrays["sets"] = np.zeros(packed["sets"].shape)
        self.decayed.unpack(packed)
