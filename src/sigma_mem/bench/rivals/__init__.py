"""The routers that a user would otherwise pick, behind the extra `[rivals]`.

Each has the two verbs of :class:`~sigma_mem.bench.baselines.Router` and is fed the same φ (with the
constant feature where its documentation asks for one) and the same labels: with full feedback one
update per peer, with bandit feedback the chosen peer's alone. Every rival keeps its published
defaults. Under full feedback there is nothing to explore, so it is read greedily, in its favour;
``explore=True`` reads it as its authors mean it to be read.
"""

from __future__ import annotations

from collections.abc import Callable

from sigma_mem.bench.baselines.base import Router
from sigma_mem.bench.rivals.bayesian import BayesianBandits
from sigma_mem.bench.rivals.linucb import MabWiser
from sigma_mem.bench.rivals.pareto import ParetoBandit
from sigma_mem.bench.rivals.vowpal import VowpalWabbit

__all__ = ["RIVALS", "BayesianBandits", "MabWiser", "ParetoBandit", "VowpalWabbit"]

RIVALS: dict[str, Callable[..., Router]] = {
    "paretobandit": ParetoBandit,
    "mabwiser-linucb": MabWiser,
    "vowpal-wabbit": VowpalWabbit,
    "bayesianbandits": BayesianBandits,
}
