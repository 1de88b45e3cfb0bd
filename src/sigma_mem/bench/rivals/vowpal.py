"""Vowpal Wabbit's contextual bandit with action-dependent features (vowpalwabbit on PyPI)."""

from __future__ import annotations

import numpy as np

from sigma_mem.bench.baselines.beta import successes
from sigma_mem.bench.rivals.extra import rival_module
from sigma_mem.events import FloatArray

__all__ = ["VowpalWabbit"]

_OPTIONS = "--cb_explore_adf --epsilon 0.05 -q ca --quiet"  # φ × peer, its own exploration


class VowpalWabbit:
    """`--cb_explore_adf` over φ × peer.

    Exploring, it draws from the distribution it predicts and hands back the probability of the
    draw; otherwise the likeliest peer is taken, and every label has probability 1.
    """

    def __init__(self, n_peers: int, rank: int, seed: int = 0, *, explore: bool = False) -> None:
        module = rival_module("vowpalwabbit")
        self._vw = module.Workspace(f"{_OPTIONS} --random_seed {seed}")
        self._actions = [f"|a p{p}" for p in range(n_peers)]
        self._rng = np.random.default_rng(seed)
        self._explore = explore
        self._propensity = 1.0

    def choose(self, phi: FloatArray) -> int:
        """The likeliest peer, or a draw."""
        pmf = np.array(self._vw.predict([_shared(phi), *self._actions]))
        if not self._explore:
            return int(pmf.argmax())
        chosen = int(self._rng.choice(len(pmf), p=pmf / pmf.sum()))
        self._propensity = float(pmf[chosen])
        return chosen

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """One `learn` per labelled peer, with cost −r."""
        shared = _shared(phi)
        for peer, r in enumerate(successes(labels).tolist()):
            if r == r:  # NaN differs from itself
                propensity = self._propensity if self._explore and peer == chosen else 1.0
                actions = list(self._actions)
                actions[peer] = f"0:{-r}:{propensity} {actions[peer]}"
                self._vw.learn([shared, *actions])


def _shared(phi: FloatArray) -> str:
    return "shared |c " + " ".join(f"{i}:{x:.7g}" for i, x in enumerate(phi.tolist()))
