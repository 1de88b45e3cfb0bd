"""Routing: pick a peer from the question alone, before anyone answers."""

import numpy as np

from sigma_mem.decide.read import Choice, Read, View
from sigma_mem.events import FloatArray

_NO_TOTALS = np.zeros(0)


def _best_candidate(view: View, values: FloatArray) -> int:
    """The first of the largest: of all before anyone answers, then of those that gave an answer."""
    groups = view.groups.tolist()
    if -2 in groups and max(groups) > -2:
        values = np.where(view.groups > -2, values, -np.inf)
    return int(values.argmax())


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
        lambda view: peer_choice(view, _best_candidate(view, view.prob)),
        peer_prob,
        "the peer with the largest calibrated competence",
    ),
    Read(  # eq:direct_m_route
        "m-route",
        "question",
        lambda view: peer_choice(view, _best_candidate(view, view.score)),
        peer_prob,
        "the paper's M-route: the peer with the largest raw score",
    ),
)
