"""Beta reputation: one global posterior per peer, blind to the question."""

from __future__ import annotations

import numpy as np

from sigma_mem.events import FloatArray

__all__ = ["Beta", "successes"]


def successes(labels: FloatArray) -> FloatArray:
    """Labels c ∈ [−1, 1] as r ∈ [0, 1]: the share of a success; NaN stays NaN."""
    r: FloatArray = 0.5 * (labels + 1.0)
    return r


class Beta:
    """Decayed Beta(α_p, β_p) of every peer, from Beta(1, 1); the largest posterior mean is chosen.

    α_p ← γα_p + r_p,  β_p ← γβ_p + (1 − r_p)                  (appendix:role)

    The paper's B1 has γ = 0.9, about ten events of memory. A peer without a label is left as it is.

    Examples
    --------
    >>> import numpy as np
    >>> b1 = Beta(n_peers=2, gamma=0.9)
    >>> b1.learn(np.zeros(1), np.array([-1.0, 1.0]), chosen=0)
    >>> b1.choose(np.zeros(1)), b1.alpha.round(2).tolist(), b1.beta.round(2).tolist()
    (1, [0.9, 1.9], [1.9, 0.9])
    """

    def __init__(self, n_peers: int, gamma: float) -> None:
        self.gamma = gamma
        self.alpha = np.ones(n_peers)
        self.beta = np.ones(n_peers)

    def choose(self, phi: FloatArray) -> int:
        """The peer with the largest posterior mean, whatever φ is."""
        return int((self.alpha / (self.alpha + self.beta)).argmax())

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """Update every labelled peer."""
        r = successes(labels)
        known = r == r  # NaN differs from itself
        self.alpha = np.where(known, self.gamma * self.alpha + np.where(known, r, 0.0), self.alpha)
        self.beta = np.where(known, self.gamma * self.beta + np.where(known, 1.0 - r, 0.0), self.beta)
