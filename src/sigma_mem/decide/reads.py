"""The single reads of one memory, by name: what each of them would choose for this event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide.route import calibrated_route, m_route
from sigma_mem.decide.select import first_largest, normalized_utility, posterior
from sigma_mem.decide.vote import Vote, calibrated_vote, expert_vote, informed, m_vote, majority
from sigma_mem.events import FloatArray

__all__ = ["INFORMED", "READS", "ROUTES", "VOTES", "View", "choose", "vote_confidence"]


@dataclass(frozen=True, slots=True)
class View:
    """What a read may look at: the memory at φ, how the answers fall into groups and how they are written.

    Attributes
    ----------
    score, prob : array (P,)
        φᵀM_pφ and p̂: what is known before anyone answers.
    lean : array (P,)
        Log-odds by which the signs of each answer speak for it.
    """

    score: FloatArray
    prob: FloatArray
    lean: FloatArray
    groups: NDArray[np.intp]
    alternatives: float
    readable: FloatArray
    G: FloatArray

    @property
    def informed(self) -> FloatArray:
        """p̂ moved by the signs of each answer."""
        return informed(self.prob, self.lean) if self.lean.any() else self.prob


def _peer(index: int, view: View) -> Vote:
    return Vote(index, int(view.groups[index]), np.zeros(0))


def _posterior(view: View, w_g: float) -> Vote:
    result = posterior(normalized_utility(view.score), view.G, w_g=w_g)
    # A null canon cannot win.
    expectation = np.where(view.groups >= 0, result.expectation, -2.0)
    return _peer(first_largest(expectation), view)


ROUTES: dict[str, Callable[[View], Vote]] = {
    "calibrated-route": lambda view: _peer(calibrated_route(view.prob), view),
    "m-route": lambda view: _peer(m_route(view.score), view),
}

VOTES: dict[str, Callable[[View], Vote]] = {
    "calibrated-vote": lambda view: calibrated_vote(
        view.groups, view.informed, view.alternatives, view.readable
    ),
    "m-vote": lambda view: m_vote(view.groups, view.score),
    "majority": lambda view: majority(view.groups, view.prob),
    "posterior": lambda view: _posterior(view, 1.0),
    "posterior-no-g": lambda view: _posterior(view, 0.0),
    "expert-vote": lambda view: expert_vote(view.groups, view.informed, view.alternatives, view.readable),
}

INFORMED = ("calibrated-vote", "expert-vote")  # they look at the signs of the answers

READS: tuple[str, ...] = (*VOTES, *ROUTES, "select")  # "select" needs a center; it is absent without one


def choose(read: str, view: View) -> Vote:
    """What one read chooses."""
    return (VOTES.get(read) or ROUTES[read])(view)


def vote_confidence(vote: Vote, alternatives: float) -> float:
    """Posterior of a log-odds vote's winner: e^total over all answers, the ones nobody gave included.

    >>> import numpy as np
    >>> round(vote_confidence(Vote(0, 0, np.array([2.0, 0.0])), alternatives=3.0), 3)
    0.711
    """
    if vote.group < 0:
        return 0.0
    lead = vote.totals - vote.totals[vote.group]
    unseen = max(0.0, alternatives + 1.0 - len(vote.totals)) * np.exp(-vote.totals[vote.group])
    return float(1.0 / (np.exp(lead).sum() + unseen))
