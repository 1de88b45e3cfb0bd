"""How many independent votes an agreement is worth, by how such agreements turned out."""

import math

import numpy as np

from sigma_mem.decide import View
from sigma_mem.decide.vote import vote_totals
from sigma_mem.decide.weights import calibrated_weights
from sigma_mem.events import FloatArray
from sigma_mem.memory import SigmaState
from sigma_mem.memory.confidence import answer_claims

_LEAST_EVIDENCE = 0.05  # log-odds of a single vote, below which votes cannot be counted in it


def votes_of_groups(state: SigmaState, view: View) -> FloatArray:
    """Of every answer group: its calibrated log-odds, in units of the weight of an average vote for it.

    Nine peers that err together may be worth two. Where a single vote says next to nothing, copies of one
    another are the only thing that counts.
    """
    totals = vote_totals(view)
    weights = calibrated_weights(view.prob, view.alternatives, view.readable)
    votes = np.ones(len(weights)) if view.votes is None else view.votes
    found = np.zeros(len(totals))
    for group, total in enumerate(totals):
        members = view.groups == group
        most = max(float(votes[members].sum()), 1.0)
        single = float(weights[members].mean())
        independent = _evidence(state, view, total) / single if single > _LEAST_EVIDENCE else most
        found[group] = min(max(independent, 1.0), most)
    return found


def _evidence(state: SigmaState, view: View, total: float) -> float:
    """Calibrated log-odds of an answer with this total, if nobody spoke for another one."""
    claims = answer_claims(np.array([total]), view.alternatives, 0)
    believed = state.calibrated(state.mixed_claim(claims))
    return math.log(believed / (1.0 - believed)) + math.log(view.alternatives)
