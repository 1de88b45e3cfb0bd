"""What a read of the memory returns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.calibration import shrunk_mean, wilson
from sigma_mem.memory.mixing import rounded
from sigma_mem.memory.topics import TopicReading


class SeenLately(NamedTuple):
    """Sums at φ at the fast rate, and the prior that their mean is shrunk to, beyond that at φ."""

    sums: FloatArray  # of labels and of 1, (2, P)
    beyond: FloatArray
    strength: float

    def mean(self, near: FloatArray) -> FloatArray:
        """Mean label, (P,), where that at φ over all time is `near`."""
        return shrunk_mean(self.sums[0], self.sums[1], near + self.beyond, self.strength)


class Reading(NamedTuple):
    """What the memory says of every peer at one φ; arrays of shape (P,).

    Attributes
    ----------
    score : φᵀM_pφ, the paper's historical reliability (eq:direct_m_score)
    effective : φᵀN_pφ/η, how many labelled events stand behind it
    prob : calibrated competence p̂
    pseudo : weight of the prior in p̂, in observations
    near, overall : mean label at φ, and at every horizon whatever the φ, (P, H): what p̂ is made of
    lately : what was seen at φ lately, of which `local` is made; None with one horizon
    topics : what topics changed of score, effective and p̂; None where none was given
    compared : decayed number of events, near φ and anywhere, in which its answer was compared with others';
        None where there was none
    """

    score: FloatArray
    effective: FloatArray
    prob: FloatArray
    pseudo: float
    near: FloatArray
    overall: FloatArray
    lately: SeenLately | None = None
    topics: TopicReading | None = None
    compared: tuple[FloatArray, FloatArray] | None = None

    @property
    def local(self) -> FloatArray:
        """Mean label at φ lately; computed when it is asked for, since it seldom counts."""
        return self.near if self.lately is None else self.lately.mean(self.near)

    def recorded(self) -> NDArray[np.float16]:
        """What is claimed, as a ledger keeps it, (P, H + 2)."""
        return rounded(self.near, self.overall, self.local)

    def interval(self, z: float = 1.96) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of p̂'s interval (Wilson, on effective + pseudo observations)."""
        return wilson(self.prob, self.effective + self.pseudo, z)


class OverallReading(NamedTuple):
    """What the memory says of every peer whatever the φ."""

    now: float
    means: FloatArray  # mean label at every horizon, (H, P)
    slowest: FloatArray  # at the slowest one, (P,)
    change: FloatArray  # Σ_g u_g·(over_g − over_slow), (P,); 0 with one horizon
    recent: FloatArray  # over_fast − over_slow, (P,)
    agreed: FloatArray | None = None  # mean agreement, (P,); None where none was seen
    compared: FloatArray | None = None  # decayed number of events in which it was seen, (P,)
