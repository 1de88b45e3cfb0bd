"""The routers that a user would otherwise pick, behind the extra `rivals`.

Each has the two verbs of `Router` and is fed the same φ (with the constant feature if its documentation
requires one) and the same labels: with full feedback one update per peer, with bandit feedback the chosen
peer's alone. Every rival keeps its published defaults. Under full feedback there is nothing to explore, so it
is read greedily, in its favour; ``explore=True`` reads it as its authors mean it to be read.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_lab.bench.baselines import Router, best_present
from sigma_lab.bench.row import successes
from sigma_mem.events import FloatArray
from sigma_mem.extras import require

_TOKENS = 600.0  # of a call: ParetoBandit's default, by which a price per call becomes one per token


def _module(name: str) -> Any:
    return require(name, extra="rivals", distribution="sigma-lab", purpose="this rival")


def _labelled(labels: FloatArray) -> dict[int, float]:
    """Peers that have a label, and their success in [0, 1]."""
    return {peer: r for peer, r in enumerate(successes(labels).tolist()) if not isnan(r)}


class ParetoBandit:
    """`BanditRouter` of paretobandit: discounted LinUCB with cost pacing, over φ and its bias feature.

    By default peers cost the same, so only quality decides. With a budget per event its pacer alone penalizes
    cost, as in its own demonstration; ``prices`` are those of a call. Without exploration it runs in its
    `exploit` context.
    """

    def __init__(
        self,
        n_peers: int,
        rank: int,
        seed: int = 0,
        *,
        explore: bool = False,
        prices: Sequence[float] | None = None,
        budget: float | None = None,
    ) -> None:
        module = _module("pareto_bandit")
        per_token = [1.0] * n_peers if prices is None else [1e6 * price / _TOKENS for price in prices]
        pacer = None if budget is None else _module("pareto_bandit.budget_pacer").BudgetPacer(budget)
        self._router = module.BanditRouter.create(
            model_registry={
                str(p): {"input_cost_per_m": price, "output_cost_per_m": price, "scores": {}}
                for p, price in enumerate(per_token)
            },
            priors="none",
            feature_service=module.FeatureService.for_precomputed(dimension=rank + 1),
            bandit_seed=seed,
            cost_penalty=0.0,
            **({} if pacer is None else {"budget_pacer": pacer}),
        )
        self._explore = explore

    def choose(self, phi: FloatArray, present: NDArray[np.bool_]) -> int:
        """What `route` returns; an absent peer fails a floor of quality."""
        floor = None if present.all() else {"present": 0.5}
        for peer, there in enumerate(present.tolist()):
            self._router.registry[str(peer)]["scores"]["present"] = float(there)
        with nullcontext() if self._explore else self._router.exploit():
            return int(self._router.route(np.append(phi, 1.0), quality_floor=floor)[0])

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """One `update` per labelled peer; its clock was advanced by `route`."""
        for peer, r in _labelled(labels).items():
            self._router.update(str(peer), np.append(phi, 1.0), r, advance_time=False)

    def spend(self, cost: float) -> None:
        """What the last call cost, for its pacer."""
        self._router.budget_pacer.observe(cost)


class MabWiser:
    """`MAB` of mabwiser with `LearningPolicy.LinUCB` at its defaults (α = 1, λ = 1); it never forgets.

    With full feedback every peer has seen the same φ: the bonus is the same for all, and stays switched on.
    """

    def __init__(self, n_peers: int, rank: int, seed: int = 0, *, explore: bool = False) -> None:
        module = _module("mabwiser.mab")
        policy = module.LearningPolicy.LinUCB()
        self._mab = module.MAB(arms=list(range(n_peers)), learning_policy=policy, seed=seed)
        # `fit` must come before `predict`: a zero context with reward zero leaves λI and 0 as they are.
        self._mab.fit(list(range(n_peers)), [0.0] * n_peers, np.zeros((n_peers, rank)))

    def choose(self, phi: FloatArray, present: NDArray[np.bool_]) -> int:
        """The largest of what `predict_expectations` returns."""
        expected = self._mab.predict_expectations(phi[None, :])
        return best_present(np.array([expected[peer] for peer in range(len(present))]), present)

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """One `partial_fit` with a row per labelled peer."""
        found = _labelled(labels)
        if found:
            self._mab.partial_fit(list(found), list(found.values()), np.tile(phi, (len(found), 1)))


RIVALS: dict[str, Callable[..., Router]] = {
    "paretobandit": ParetoBandit,
    "mabwiser-linucb": MabWiser,
}
