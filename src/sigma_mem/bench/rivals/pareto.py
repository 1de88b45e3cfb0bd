"""ParetoBandit: discounted LinUCB with cost pacing (paretobandit on PyPI)."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from sigma_mem.bench.baselines.beta import successes
from sigma_mem.bench.rivals.extra import rival_module
from sigma_mem.events import FloatArray

__all__ = ["ParetoBandit"]


class ParetoBandit:
    """`BanditRouter` over φ and its bias feature; peers cost the same, so only quality decides.

    Parameters
    ----------
    n_peers, rank : int
    seed : int
        Of its tie-breaking.
    explore : bool
        Whether its confidence bonus is added; without it the router runs in its `exploit` context.
    """

    def __init__(self, n_peers: int, rank: int, seed: int = 0, *, explore: bool = False) -> None:
        module = rival_module("pareto_bandit")
        price = {"input_cost_per_m": 1.0, "output_cost_per_m": 1.0}
        self._router = module.BanditRouter.create(
            model_registry={str(p): dict(price) for p in range(n_peers)},
            priors="none",
            feature_service=module.FeatureService.for_precomputed(dimension=rank + 1),
            bandit_seed=seed,
            cost_penalty=0.0,
        )
        self._explore = explore

    def choose(self, phi: FloatArray) -> int:
        """What `route` returns."""
        with nullcontext() if self._explore else self._router.exploit():
            return int(self._router.route(np.append(phi, 1.0))[0])

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """One `update` per labelled peer; its clock was advanced by `route`."""
        context = np.append(phi, 1.0)
        for peer, r in enumerate(successes(labels).tolist()):
            if r == r:  # NaN differs from itself
                self._router.update(str(peer), context, r, advance_time=False)
