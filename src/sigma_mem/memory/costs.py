"""What calls really cost beside their price, by peer and by φ, and how far labels scatter around p̂.

A price says what a call costs on average; a long task costs more, whoever answers it. Of every call whose
real cost is known the ratio to its price is kept,

    cost_p(φ) = price_p · ratio_p · m(φ)/m,

its mean ratio_p for the peer, m(φ) for all peers near φ and m for all of them, each shrunk towards 1. All are
decayed sums, so that a corrected cost is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.competence import Competence
from sigma_mem.memory.decayed import DecayedSum

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
        self.rank, self.rate = rank, rate
        self.by_peer = DecayedSum(rate, {"ratios": np.zeros((2, n_peers))})  # Σ ratio, and how many
        self.residuals = DecayedSum(rate, {"residuals": np.zeros(2)})
        self.near: Competence | None = None  # Σ ratio·φφᵀ of all peers; made with the first cost

    def write_ratio(self, peer: int, ratio: float, phi: FloatArray, tick: float, sign: float = 1.0) -> None:
        """Add the real cost of a call, over its price; sign −1 takes it back."""
        contribution = np.zeros_like(self.by_peer.arrays["ratios"])
        contribution[:, peer] = sign * ratio, sign
        self.by_peer.add("ratios", contribution, tick)
        if self.near is None:
            self.near = Competence(1, self.rank, self.rate)
        self.near.write(phi, np.array([sign * ratio]), np.array([sign]), tick)

    def ratios(self, phi: FloatArray, now: float) -> FloatArray:
        """What a call at φ will cost, over its price, (P,)."""
        total, n = self.by_peer.value("ratios", now)
        ratio: FloatArray = (total + _STRENGTH) / (np.abs(n) + _STRENGTH)
        if self.near is None:
            return ratio
        overall = (total.sum() + _STRENGTH) / (np.abs(n).sum() + _STRENGTH)
        near, seen = (float(x[0]) for x in self.near.score(phi, now))
        here = (near + _STRENGTH * overall) / (abs(seen) + _STRENGTH)
        ratio *= max(here / overall, _LEAST)
        return ratio

    def write_residual(self, residual: float, tick: float, sign: float = 1.0) -> None:
        """Add how far a label in [0, 1] was from p̂; sign −1 takes it back."""
        self.residuals.add("residuals", np.array([sign * residual * residual, sign]), tick)

    def variance(self, now: float, rate: float) -> float:
        """Variance of a label around p̂: p(1 − p) for right and wrong, less for graded labels.

        `rate` is how often peers are right overall, which is all that is known at first.
        """
        squares, n = self.residuals.value("residuals", now).tolist()
        return float((max(squares, 0.0) + _SCATTER * rate * (1.0 - rate)) / (max(n, 0.0) + _SCATTER))

    def advance(self, now: float) -> None:
        """Move the anchors that are due."""
        for part in (self.by_peer, self.residuals, *(() if self.near is None else (self.near.decayed,))):
            part.advance(now)

    def take(self, order: Sequence[int]) -> None:
        """Peers in this order from now on; −1 stands for a new one."""
        self.by_peer = self.by_peer.take(order, {"ratios": [1]})

    def pack(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        parts = {"by_peer": self.by_peer.pack(), "residuals": self.residuals.pack()}
        if self.near is not None:
            parts["near"] = self.near.pack()
        return {f"{name}.{key}": array for name, part in parts.items() for key, array in part.items()}

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from packed arrays of as many peers."""
        self.by_peer.unpack(_part(packed, "by_peer."))
        self.residuals.unpack(_part(packed, "residuals."))
        near = _part(packed, "near.")
        if near:
            self.near = Competence(1, self.rank, self.rate)
            self.near.unpack(near)


def _part(packed: Mapping[str, FloatArray], prefix: str) -> dict[str, FloatArray]:
    return {key.removeprefix(prefix): array for key, array in packed.items() if key.startswith(prefix)}
