"""Voting: equal canonical answers vote together, weighted by what the memory knows of their peers.

Groups are small integers, one per peer; −1 is a null canon, which cannot win. The winner of a
vote is represented by its most competent member. If every canon is null, a vote chooses nobody.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide.posterior import first_largest, normalized_utility, posterior
from sigma_mem.decide.read import NOBODY, Choice, Read, View
from sigma_mem.decide.route import peer_choice, peer_prob
from sigma_mem.decide.weights import LEAST_TRUST, group_totals
from sigma_mem.events import FloatArray

_MOST_LOG = 700.0  # of what can be exponentiated


def group_answers(canons: Sequence[str | None]) -> NDArray[np.intp]:
    """Number the distinct canons in order of first appearance; None becomes −1.

    >>> group_answers(["7", None, "8", "7"]).tolist()
    [0, -1, 1, 0]
    """
    numbers: dict[str, int] = {}
    return np.array([-1 if c is None else numbers.setdefault(c, len(numbers)) for c in canons], dtype=np.intp)


def tally(groups: NDArray[np.intp], weights: FloatArray, competence: FloatArray) -> Choice:
    """The group with the largest sum of weights, represented by its most competent member.

    Ties between groups go to the one whose first member is listed first (groups are numbered so).
    If every canon is null, nobody is chosen.

    Parameters
    ----------
    groups : int array (P,)
    weights, competence : array (P,)
    """
    return winner(groups, group_totals(groups, weights), competence)


def winner(groups: NDArray[np.intp], totals: FloatArray, competence: FloatArray) -> Choice:
    """The first of the largest totals, represented by its most competent member; nobody without any."""
    if not len(totals):
        return Choice(NOBODY, -1, totals)
    chosen, best = int(totals.argmax()), competence.tolist()
    members = [peer for peer, group in enumerate(groups.tolist()) if group == chosen]
    return Choice(max(members, key=best.__getitem__), chosen, totals)


def majority(groups: NDArray[np.intp], competence: FloatArray, weights: FloatArray | None = None) -> Choice:
    """Every peer's vote counts 1/P (eq:direct_majority); a tie goes to the larger sum of weights.

    Without weights a tie goes to the answer listed first.

    >>> import numpy as np
    >>> majority(np.array([0, 1, 1]), np.zeros(3)).group
    1
    >>> majority(np.array([0, 1]), np.zeros(2), weights=np.array([0.2, 0.3])).group
    1
    """
    votes = np.full(len(groups), 1.0 / len(groups))
    if weights is not None:
        votes *= 1.0 + LEAST_TRUST * weights
    return tally(groups, votes, competence)


def m_vote(groups: NDArray[np.intp], score: FloatArray) -> Choice:
    """Every peer's vote counts φᵀM_pφ, exactly as the paper writes it (eq:direct_m_vote).

    A peer that is wrong more often than right has a negative weight and counts against its answer.
    """
    return tally(groups, score, score)


def vote_confidence(choice: Choice, alternatives: float) -> float:
    """Posterior of a log-odds vote's winner: e^total over all answers, the ones nobody gave included.

    >>> round(vote_confidence(Choice(0, 0, np.array([2.0, 0.0])), alternatives=3.0), 3)
    0.711
    """
    if choice.group < 0:
        return 0.0
    total = choice.totals.item(choice.group)
    unseen = max(0.0, alternatives + 1.0 - len(choice.totals))
    unseen = unseen and unseen * float(np.exp(min(-total, _MOST_LOG)))  # 0·∞ is not a number
    return 1.0 / (float(np.add.reduce(np.exp(choice.totals - total))) + unseen)


def _posterior_on_scores(view: View, relation: FloatArray | None) -> Choice:
    readable = view.groups >= 0
    if not readable.any():
        return Choice(NOBODY, -1, np.zeros(0))
    result = posterior(normalized_utility(view.score), relation)
    return peer_choice(view, first_largest(np.where(readable, result.expectation, -2.0)))


def _tie_weights(view: View) -> FloatArray:
    """Weights that break the ties of a majority: those of the calibrated vote."""
    return view.weights if view.votes is None else view.votes * view.weights


def _share_of_peers(view: View, choice: Choice) -> float:
    return float((view.groups == choice.group).mean()) if choice.group >= 0 else 0.0


VOTES = (
    Read(
        "calibrated-vote",
        "answers",
        lambda view: winner(view.groups, view.vote_totals, view.moved_prob),
        lambda view, choice: vote_confidence(choice, view.alternatives),
        "the answer with the largest posterior, from calibrated competence and text features",
        uses_text_features=True,
    ),
    Read(
        "m-vote",
        "answers",
        lambda view: m_vote(view.groups, view.score),
        peer_prob,
        "the paper's M-vote: answers weighed by raw scores",
    ),
    Read(
        "majority",
        "answers",
        lambda view: majority(view.groups, view.prob, _tie_weights(view)),
        _share_of_peers,
        "the answer that most peers gave; a tie goes to the peers that the memory trusts more",
    ),
    Read(
        "posterior",
        "answers",
        lambda view: _posterior_on_scores(view, view.relation()),
        peer_prob,
        "the paper's posterior with relation G, on raw scores",
    ),
    Read(
        "posterior-no-g",
        "answers",
        lambda view: _posterior_on_scores(view, None),
        peer_prob,
        "the same without G",
    ),
)
