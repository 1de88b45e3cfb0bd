"""What calls really cost compared with their price, by peer and by φ, and how far labels scatter around p̂.

A price is what a call costs on average. A long task costs more with any peer. Of every call whose
real cost is known the ratio to its price is kept,

    cost_p(φ) = price_p · ratio_p · m(φ)/m,

its mean ratio_p for the peer, m(φ) for all peers near φ and m for all of them, each shrunk towards 1. All are
decayed sums, so that a corrected cost is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.kernel import add_events, kernel, pair_products, scores
from sigma_mem.memory.sums import PEERS, Sum, Sums

_STRENGTH = 5.0  # observations that a ratio of 1 is worth
_LEAST = 0.05  # of m(φ)/m: no call is free
_SCATTER = 2.0  # labels that p(1 − p) is worth as their variance


class CostSums:
    """Decayed sums of cost ratios, and of squared residuals of labels.

    Examples
    --------
    >>> sums = CostSums(n_peers=2, rank=2, rate=0.0)
    >>> for _ in range(95):
    ...     sums.write_ratio(0, 2.0, np.array([1.0, 0.0]), tick=1.0)
    >>> sums.ratios(np.array([1.0, 0.0]), now=1.0).round(2).tolist()
    [2.0, 1.02]
    """

    def __init__(self, n_peers: int, rank: int, rate: float) -> None:
        self._rate = rate
        self._sums = Sums(
            n_peers,
            {
                "ratios": Sum((2, PEERS), rate),  # Σ ratio, and how many
                "residuals": Sum((2,), rate),
                **kernel("near", (2,), rate, rank),  # Σ ratio·φφᵀ of all peers
            },
        )

    def write_ratio(self, peer: int, ratio: float, phi: FloatArray, tick: float, weight: float = 1.0) -> None:
        """Add the real cost of a call, over its price, with a weight; a negative one takes it back."""
        sums, both = self._sums, np.array([weight * ratio, weight])
        contribution = np.zeros((1, 2, sums.n_peers))
        contribution[0, :, peer] = both
        weights = sums.weights(np.array([tick]), contribution[0, 1])
        sums.add("ratios", contribution, weights)
        add_events(sums, "near", phi[None], both * sums.weight_of("near.recent", weights)[..., 0])

    def ratios(self, phi: FloatArray, now: float) -> FloatArray:
        """What a call at φ will cost, over its price, (P,)."""
        sums = self._sums
        total, n = sums["ratios"] * sums.factors("ratios", now)
        ratio: FloatArray = (total + _STRENGTH) / (np.abs(n) + _STRENGTH)
        overall = (total.sum() + _STRENGTH) / (np.abs(n).sum() + _STRENGTH)
        found = scores(sums, "near", phi, pair_products(phi)) * sums.factor(self._rate, now)[-1]
        near, seen = found.tolist()
        here = (near + _STRENGTH * overall) / (abs(seen) + _STRENGTH)
        ratio *= max(here / overall, _LEAST)
        return ratio

    def write_residual(self, residual: float, tick: float, sign: float = 1.0) -> None:
        """Add how far a label in [0, 1] was from p̂; sign −1 takes it back."""
        weights = self._sums.weights(np.array([tick]))
        self._sums.add("residuals", np.array([[sign * residual * residual, sign]]), weights)

    def variance(self, now: float, rate: float) -> float:
        """Variance of a label around p̂: p(1 − p) for right and wrong, less for graded labels.

        `rate` is how often peers are right overall, which is all that is known at first.
        """
        squares, n = (self._sums["residuals"] * self._sums.factors("residuals", now)).tolist()
        return float((max(squares, 0.0) + _SCATTER * rate * (1.0 - rate)) / (max(n, 0.0) + _SCATTER))

    def take(self, order: Sequence[int]) -> None:
        """Peers in this order from now on; −1 stands for a new one."""
        self._sums = self._sums.take(order)

    def pack(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        return self._sums.pack()

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from packed arrays of as many peers."""
        self._sums.unpack(packed)
