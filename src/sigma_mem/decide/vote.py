"""Voting: equal canonical answers vote together, weighted by what the memory says of their peers.

Groups are small integers, one per peer; −1 is a null canon, which cannot win. The winner of a
vote is represented by its most competent member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray

__all__ = [
    "Vote",
    "calibrated_vote",
    "calibrated_weights",
    "expert_vote",
    "group",
    "informed",
    "m_vote",
    "majority",
    "tally",
]

_LOW, _HIGH = 0.001, 0.98  # no peer's word alone is worth more, however good its record
_EXPERT = 4.0  # how many voices the mean supporter of an answer is worth beside all of them


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote's outcome: the representing peer's index, the winning group, and every group's total."""

    peer: int
    group: int
    totals: FloatArray


def group(canons: Sequence[str | None]) -> NDArray[np.intp]:
    """Number the distinct canons in order of first appearance; None becomes −1.

    >>> group(["7", None, "8", "7"]).tolist()
    [0, -1, 1, 0]
    """
    numbers: dict[str, int] = {}
    return np.array([-1 if c is None else numbers.setdefault(c, len(numbers)) for c in canons], dtype=np.intp)


def tally(groups: NDArray[np.intp], weights: FloatArray, competence: FloatArray) -> Vote:
    """The group with the largest sum of weights, represented by its most competent member.

    Ties between groups go to the one whose first member is listed first (groups are numbered so).
    Where every canon is null, the most competent peer is returned with group −1.

    Parameters
    ----------
    groups : int array (P,)
    weights, competence : array (P,)
    """
    return _winner(groups, _sums(groups, weights), competence)


def _sums(groups: NDArray[np.intp], weights: FloatArray) -> FloatArray:
    """Σ of the weights of every group; empty where every canon is null."""
    valid = groups >= 0
    return np.bincount(groups[valid], weights=weights[valid]).astype(np.float64, copy=False)


def _winner(groups: NDArray[np.intp], totals: FloatArray, competence: FloatArray) -> Vote:
    if not len(totals):
        return Vote(int(competence.argmax()), -1, totals)
    winner = int(totals.argmax())
    members = np.flatnonzero(groups == winner)
    return Vote(int(members[competence[members].argmax()]), winner, totals)


def majority(groups: NDArray[np.intp], competence: FloatArray) -> Vote:
    """Every peer's vote counts 1/P (eq:direct_majority).

    >>> import numpy as np
    >>> majority(np.array([0, 1, 1]), np.zeros(3)).group
    1
    """
    return tally(groups, np.full(len(groups), 1.0 / len(groups)), competence)


def m_vote(groups: NDArray[np.intp], score: FloatArray) -> Vote:
    """Every peer's vote counts φᵀM_pφ, exactly as the paper writes it (eq:direct_m_vote).

    A peer that is wrong more often than right has a negative weight and speaks against its answer.
    """
    return tally(groups, score, score)


def calibrated_weights(
    prob: FloatArray, alternatives: float | FloatArray, readable: float | FloatArray = 1.0
) -> FloatArray:
    """log p/(1 − p) + log(K − 1), p = p̂/√ρ: the log-likelihood ratio that one independent vote carries.

    p̂ counts an unreadable answer as wrong. If a peer failed to answer at random, it would be right
    with probability p̂/ρ given that it did; since it fails more on what it would get wrong anyway, with
    p̂. √ρ stands between the two, and on real streams above both.

    Parameters
    ----------
    prob : array (..., P)
        Calibrated competence p̂.
    alternatives : float or array (..., 1)
        K − 1, the effective number of wrong answers that compete.
    readable : float or array (..., P)
        ρ, the rate at which a peer gives an answer that can be read.
    """
    weights: FloatArray = _log_odds(prob / np.sqrt(readable)) + np.log(alternatives)
    return weights


def informed(prob: FloatArray, lean: FloatArray) -> FloatArray:
    """p̂ once the answers are there: its log-odds moved by what the signs of each answer say.

    >>> import numpy as np
    >>> informed(np.array([0.5, 0.5, 0.9]), np.array([0.0, 1.0, -1.0])).round(2).tolist()
    [0.5, 0.73, 0.77]
    """
    odds = prob * np.exp(lean)
    out: FloatArray = odds / (odds + 1.0 - prob)
    return out


def _log_odds(prob: FloatArray) -> FloatArray:
    p = np.clip(prob, _LOW, _HIGH)
    odds: FloatArray = np.log(p / (1.0 - p))
    return odds


def calibrated_vote(
    groups: NDArray[np.intp], prob: FloatArray, alternatives: float, readable: float | FloatArray = 1.0
) -> Vote:
    """The answer with the largest posterior, if peers err independently over K − 1 wrong answers.

    Parameters are those of `group` and `calibrated_weights`.

    Examples
    --------
    Two peers that are right 60 % of the time outvote one with 75 % when there are many ways to err:

    >>> import numpy as np
    >>> calibrated_vote(np.array([0, 1, 1]), np.array([0.75, 0.6, 0.6]), alternatives=9.0).group
    1
    >>> calibrated_vote(np.array([0, 1, 1]), np.array([0.75, 0.6, 0.6]), alternatives=1.0).group
    0
    """
    return tally(groups, calibrated_weights(prob, alternatives, readable), prob)


def expert_vote(
    groups: NDArray[np.intp], prob: FloatArray, alternatives: float, readable: float | FloatArray = 1.0
) -> Vote:
    """As `calibrated_vote`, but who supports an answer counts for more than how many do.

    If peers erred independently, the log-odds of an answer's supporters would add up; if they erred as one,
    their mean would be all there is. Real peers stand between: this read adds four times the mean. It is the
    better one where the memory knows well who is right, as under attack.

    Examples
    --------
    >>> import numpy as np
    >>> groups, prob = np.array([0, 1, 1]), np.array([0.75, 0.6, 0.6])
    >>> calibrated_vote(groups, prob, 9.0).group, expert_vote(groups, prob, 9.0).group
    (1, 0)
    """
    totals = _sums(groups, calibrated_weights(prob, alternatives, readable))
    if len(totals):
        totals = totals + _EXPERT * _sums(groups, _log_odds(prob)) / _sums(groups, np.ones(len(groups)))
    return _winner(groups, totals, prob)
