"""Voting: equal canonical answers vote together, weighted by what the memory says of their peers.

Groups are small integers, one per peer; −1 is a null canon, which cannot win. The winner of a
vote is represented by its most competent member; where every canon is null, a vote chooses nobody.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide.posterior import first_largest, normalized_utility, posterior
from sigma_mem.decide.read import NOBODY, Choice, Outcome, Read, View
from sigma_mem.decide.route import peer_choice, peer_prob
from sigma_mem.decide.weights import LEAST_TRUST, vote_log_odds
from sigma_mem.events import FloatArray

_MOST_LOG = 700.0  # of what can be exponentiated
_EXPERT = 4.0  # weight of the supporters' mean log-odds beside their sum


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
    Where every canon is null, nobody is chosen.

    Parameters
    ----------
    groups : int array (P,)
    weights, competence : array (P,)
    """
    return _winner(groups, _sums(groups, weights), competence)


def _sums(groups: NDArray[np.intp], weights: FloatArray) -> FloatArray:
    """Σ of the weights of every group; empty where every canon is null."""
    numbers = groups.tolist()
    totals = [0.0] * (max(numbers, default=-1) + 1)
    for group, weight in zip(numbers, weights.tolist(), strict=True):
        if group >= 0:
            totals[group] += weight
    return np.array(totals)


def _winner(groups: NDArray[np.intp], totals: FloatArray, competence: FloatArray) -> Choice:
    if not len(totals):
        return Choice(NOBODY, -1, totals)
    winner, best = int(totals.argmax()), competence.tolist()
    members = [peer for peer, group in enumerate(groups.tolist()) if group == winner]
    return Choice(max(members, key=best.__getitem__), winner, totals)


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


def calibrated_vote(
    groups: NDArray[np.intp], prob: FloatArray, weights: FloatArray, votes: FloatArray | None = None
) -> Choice:
    """The answer with the largest posterior, if peers err independently over K − 1 wrong answers.

    Parameters
    ----------
    groups : int array (P,)
    prob, weights : array (P,)
        p̂, and the weights that follow from it (`calibrated_weights`, `tempered`).
    votes : array (P,), optional
        How many votes each peer is worth, if not 1.

    Examples
    --------
    Two peers that are right 60 % of the time outvote one with 75 % when there are many ways to err:

    >>> from sigma_mem.decide.weights import calibrated_weights
    >>> groups, prob = np.array([0, 1, 1]), np.array([0.75, 0.6, 0.6])
    >>> [calibrated_vote(groups, prob, calibrated_weights(prob, k)).group for k in (9.0, 1.0)]
    [1, 0]
    """
    return tally(groups, weights if votes is None else votes * weights, prob)


def expert_vote(
    groups: NDArray[np.intp], prob: FloatArray, weights: FloatArray, votes: FloatArray | None = None
) -> Choice:
    """As `calibrated_vote`, but who supports an answer counts for more than how many do.

    If peers erred independently, the log-odds of an answer's supporters would add up; if they erred as one,
    their mean would be all there is. Real peers stand between: this read adds four times the mean. It is the
    better one where the memory knows well who is right, as under attack.

    Examples
    --------
    >>> from sigma_mem.decide.weights import calibrated_weights
    >>> groups, prob = np.array([0, 1, 1]), np.array([0.75, 0.6, 0.6])
    >>> weights = calibrated_weights(prob, 9.0)
    >>> calibrated_vote(groups, prob, weights).group, expert_vote(groups, prob, weights).group
    (1, 0)
    """
    worth = np.ones(len(groups)) if votes is None else votes
    totals = _sums(groups, worth * weights)
    if len(totals):
        totals = totals + _EXPERT * _sums(groups, worth * vote_log_odds(prob)) / _sums(groups, worth)
    return _winner(groups, totals, prob)


def vote_confidence(choice: Choice, alternatives: float) -> float:
    """Posterior of a log-odds vote's winner: e^total over all answers, the ones nobody gave included.

    >>> round(vote_confidence(Choice(0, 0, np.array([2.0, 0.0])), alternatives=3.0), 3)
    0.711
    """
    if choice.group < 0:
        return 0.0
    total = choice.totals.item(choice.group)
    unseen = max(0.0, alternatives + 1.0 - len(choice.totals))
    unseen = unseen and unseen * float(np.exp(min(-total, _MOST_LOG)))  # 0·∞ is no number
    return 1.0 / (float(np.add.reduce(np.exp(choice.totals - total))) + unseen)


def vote_totals(view: View, outcome: Outcome | None = None) -> FloatArray:
    """What every answer weighs in the calibrated vote, which may be among what was computed already."""
    known = None if outcome is None else outcome.choices.get(VOTES[0].name)
    return (VOTES[0].choose(view) if known is None else known).totals


def _posterior_on_scores(view: View, relation: FloatArray | None) -> Choice:
    readable = view.groups >= 0
    if not readable.any():
        return Choice(NOBODY, -1, np.zeros(0))
    result = posterior(normalized_utility(view.score), relation)
    return peer_choice(view, first_largest(np.where(readable, result.expectation, -2.0)))


def _tie_weights(view: View) -> FloatArray:
    """Weights that break the ties of a majority: those of the calibrated vote."""
    return view.weights if view.votes is None else view.votes * view.weights


def _on_view(vote: Callable[..., Choice], view: View) -> Choice:
    """A log-odds vote on what the memory and the texts say."""
    return vote(view.groups, view.moved_prob, view.tempered_weights, view.votes)


def _share_of_peers(view: View, choice: Choice) -> float:
    return float((view.groups == choice.group).mean()) if choice.group >= 0 else 0.0


VOTES = (
    Read(
        "calibrated-vote",
        "answers",
        partial(_on_view, calibrated_vote),
        lambda view, choice: vote_confidence(choice, view.alternatives),
        "the answer with the largest posterior, from calibrated competence and text features",
        uses_text_features=True,
        row=4,
    ),
    Read(
        "m-vote",
        "answers",
        lambda view: m_vote(view.groups, view.score),
        peer_prob,
        "the paper's M-vote: answers weighed by raw scores",
        row=2,
    ),
    Read(
        "majority",
        "answers",
        lambda view: majority(view.groups, view.prob, _tie_weights(view)),
        _share_of_peers,
        "the answer that most peers gave; a tie goes to the peers that the memory trusts more",
        row=0,
    ),
    Read(
        "posterior",
        "answers",
        lambda view: _posterior_on_scores(view, view.relation()),
        peer_prob,
        "the paper's posterior with relation G, on raw scores",
        row=5,
    ),
    Read(
        "posterior-no-g",
        "answers",
        lambda view: _posterior_on_scores(view, None),
        peer_prob,
        "the same without G",
        row=6,
    ),
    Read(
        "expert-vote",
        "answers",
        partial(_on_view, expert_vote),
        lambda view, choice: view.moved_prob.item(choice.peer),
        "who supports an answer counts for more than how many do",
        uses_text_features=True,
    ),
)
