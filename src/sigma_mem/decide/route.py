"""Routing: pick a peer from the question alone, before anyone answers."""

import numpy as np

from sigma_mem.decide.read import Choice, Read, View
from sigma_mem.events import FloatArray

_NO_TOTALS = np.zeros(0)


def m_route(score: FloatArray) -> int:
    """argmax_p φᵀM_pφ, exactly as the paper writes it (eq:direct_m_route).

    >>> m_route(np.array([0.1, 0.4, 0.4]))
    1
    """
    return int(score.argmax())


def calibrated_route(prob: FloatArray) -> int:
    """argmax_p p̂_p: unlike the raw score it does not confuse how much was seen with how good it was.

    >>> calibrated_route(np.array([0.7, 0.9]))
    1
    """
    return int(prob.argmax())


def _of_candidates(view: View, values: FloatArray) -> FloatArray:
    """Values of those that may be chosen: everyone before anyone answers, then those that gave an answer."""
    groups = view.groups.tolist()
    if -2 not in groups or max(groups) == -2:
        return values
    return np.where(view.groups > -2, values, -np.inf)


def peer_choice(view: View, peer: int) -> Choice:
    """The choice of a read that picks a peer rather than an answer."""
    return Choice(peer, view.groups.item(peer), _NO_TOTALS)


def peer_prob(view: View, choice: Choice) -> float:
    """Confidence of a read that picks a peer: its p̂."""
    return view.prob.item(choice.peer)


ROUTES = (
    Read(
        "calibrated-route",
        "question",
        lambda view: peer_choice(view, calibrated_route(_of_candidates(view, view.prob))),
        peer_prob,
        "the peer with the largest calibrated competence",
    ),
    Read(
        "m-route",
        "question",
        lambda view: peer_choice(view, m_route(_of_candidates(view, view.score))),
        peer_prob,
        "the paper's M-route: the peer with the largest raw score",
    ),
)
