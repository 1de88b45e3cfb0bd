"""MABWiser's LinUCB (mabwiser on PyPI)."""

from __future__ import annotations

import numpy as np

from sigma_mem.bench.baselines.beta import successes
from sigma_mem.bench.rivals.extra import rival_module
from sigma_mem.events import FloatArray

__all__ = ["MabWiser"]


class MabWiser:
    """`MAB` with `LearningPolicy.LinUCB` at its defaults (α = 1, λ = 1); it never forgets.

    With full feedback every peer has seen the same φ, so that the bonus is the same for all and
    needs no switching off.
    """

    def __init__(self, n_peers: int, rank: int, seed: int = 0, *, explore: bool = False) -> None:
        module = rival_module("mabwiser.mab")
        self._mab = module.MAB(
            arms=list(range(n_peers)), learning_policy=module.LearningPolicy.LinUCB(), seed=seed
        )
        # `fit` must come before `predict`: a zero context with reward zero leaves λI and 0 as they are.
        self._mab.fit(list(range(n_peers)), [0.0] * n_peers, np.zeros((n_peers, rank)))

    def choose(self, phi: FloatArray) -> int:
        """What `predict` returns."""
        return int(self._mab.predict(phi[None, :]))

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """One `partial_fit` with a row per labelled peer."""
        r = successes(labels)
        known = np.flatnonzero(r == r)  # NaN differs from itself
        if len(known):
            self._mab.partial_fit(known.tolist(), r[known].tolist(), np.tile(phi, (len(known), 1)))
