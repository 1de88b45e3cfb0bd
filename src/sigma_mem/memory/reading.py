"""What a read of the memory returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.rates import LEAST, wilson
from sigma_mem.memory.topics import TopicReading

_CERTAIN = 0.02  # added to p(1 − p) when it is compared with how far claims are apart


@dataclass(frozen=True, eq=False)
class Reading:
    """What the memory knows of every peer at one φ; arrays of shape (P,).

    Attributes
    ----------
    score : φᵀM_pφ, the paper's historical reliability (eq:direct_m_score)
    effective : φᵀN_pφ/η, how many labelled events stand behind it now
    prob : calibrated competence p̂
    labels : effective number of labels near φ behind p̂, as of each peer's last label
    recent, of_local : the same at the fast rate, and the weight of the claim that rests on them
    doubt : variance that faster horizons add, which have fewer labels
    near : mean label at φ by the slowest horizon
    slowest : mean label at the slowest horizon, whatever the φ
    claims : what every estimator and horizon claims alone, (P, K), as a ledger keeps it; None for one
    of_regression : weight of the regression against the kernel mean
    away : computes by how much labels near φ alone differ from p̂'s mean label, which is shrunk to a prior,
        and the variance of p̂ between the claims that it mixes
    leverage, stretch : compute φᵀ(N_p + λI)⁻¹φ, and how many times as much variance the regression's claim
        has because it is sharpened; None without regression
    topics : what topics changed of score, effective and p̂; None if none was given
    """

    score: FloatArray
    effective: FloatArray
    prob: FloatArray
    labels: FloatArray
    recent: FloatArray
    of_local: FloatArray
    doubt: FloatArray
    near: FloatArray
    slowest: FloatArray
    claims: NDArray[np.float16] | None
    of_regression: FloatArray
    away: Callable[[], tuple[FloatArray, FloatArray]]
    leverage: Callable[[], FloatArray] | None
    stretch: Callable[[], FloatArray] | None = None
    topics: TopicReading | None = None

    @cached_property
    def observations(self) -> FloatArray:
        """How many labels of tasks like this one p̂ is worth now: it falls while nothing is seen of a peer."""
        if self.topics is not None:
            spread = self.topics.spread
        else:
            spread = 1.0 / (self.effective + LEAST)
            if self.leverage is not None:
                stretched = 1.0 if self.stretch is None else self.stretch()
                spread += self.of_regression * (stretched * self.leverage() - spread)
        fewer = (self.labels + LEAST) / (self.recent + LEAST)  # than at the slowest rate
        spread = spread * (1.0 + self.of_local * np.maximum(fewer - 1.0, 0.0))
        between = self.away()[1] / (self.prob * (1.0 - self.prob) + _CERTAIN)
        out: FloatArray = 1.0 / (spread + self.doubt + between)
        return out

    def interval(self, z: float = 1.96) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of p̂'s interval: Wilson's, of what labels near φ alone say, and p̂ is in it."""
        alone = np.minimum(np.maximum(self.prob + 0.5 * self.away()[0], 0.0), 1.0)
        low, high = wilson(alone, self.observations, z)
        return np.minimum(low, self.prob), np.maximum(high, self.prob)
