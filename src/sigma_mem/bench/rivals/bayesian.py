"""bayesianbandits: a Bayesian linear model per arm (bayesianbandits on PyPI)."""

from __future__ import annotations

import numpy as np

from sigma_mem.bench.baselines.beta import successes
from sigma_mem.bench.rivals.extra import rival_module
from sigma_mem.events import FloatArray

__all__ = ["BayesianBandits"]


class BayesianBandits:
    """`ContextualAgent` with a `NormalRegressor` per peer; Thompson sampling where it explores.

    The noise precision is that of a coin, 1/Var = 4. Without exploration the largest posterior
    mean is chosen.
    """

    def __init__(self, n_peers: int, rank: int, seed: int = 0, *, explore: bool = False) -> None:
        module = rival_module("bayesianbandits")
        arms = [
            module.Arm(p, learner=module.NormalRegressor(alpha=1.0, beta=4.0, random_state=seed))
            for p in range(n_peers)
        ]
        self._agent = module.ContextualAgent(arms, module.ThompsonSampling(), random_seed=seed)
        self._explore = explore

    def choose(self, phi: FloatArray) -> int:
        """What `pull` returns, or the largest posterior mean."""
        row = phi[None, :]
        if self._explore:
            return int(self._agent.pull(row)[0])
        return int(np.argmax([float(arm.learner.predict(row)[0]) for arm in self._agent.arms]))

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """One `update` per labelled peer."""
        for peer, r in enumerate(successes(labels).tolist()):
            if r == r:  # NaN differs from itself
                self._agent.select_for_update(peer).update(phi[None, :], np.array([r]))
