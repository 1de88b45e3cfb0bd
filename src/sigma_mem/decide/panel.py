"""Whom to ask: which peer next, when the rest would hardly matter, and whether a judge is worth it.

The rest matters if it would change the answer. Its answers are drawn 128 times from the memory's own model:
the truth t from the posterior of the answers so far, at half of its log-odds, since peers err together; then
every peer that was not asked gives t with probability p̂, else one of the K − 1 wrong answers. The share of
draws in which the vote of all would choose another answer is the chance of a change. If two or more peers
agree and none differs, the task is easy for the others, too: a change is then a third as likely.

A judge is worth asking if its verdict may turn a wrong choice into a right one. A judge of power d gives the
true answer log-odds d² more than the others, with noise of deviation d on every answer: two normal
distributions, as its verdicts are read.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide.read import View
from sigma_mem.decide.weights import calibrated_weights, tempered
from sigma_mem.events import FloatArray

CHANGE = 0.15  # chance that the rest would change the answer, at which a panel stops by default
_DRAWS = 128
_TEMPERATURE = 0.5  # share of a vote's log-odds that is believed: the best of 0.35, 0.5 and 0.7
_AGREED = 1.0 / 3.0  # how often a drawn change comes true if all agree; on real streams 0.1 to 0.4
_LEAST_VOTES = 1.5  # that an agreement takes: copies of one another agree on everything
_LEAST_UNSEEN = 0.2  # answers that nobody gave yet, however many were given
_MOST_WRONG = 50  # wrong answers that are kept apart
LEAST_GAIN = 0.002  # in probability, of asking a judge: less is not worth a free call's time


def change_probability(view: View, rest: NDArray[np.intp]) -> float:
    """Chance that the answers of these peers would change the outcome of a vote; 1 without an answer so far.

    Parameters
    ----------
    view : View
        The answers so far, and what the memory knows of every peer.
    rest : int array
        The peers that may still be asked.

    Examples
    --------
    Three peers that are mostly right agree, and a fourth can hardly change it:

    >>> groups, zero, one = np.array([0, 0, 0, -2]), np.zeros(4), np.ones(4)
    >>> view = View(zero, np.full(4, 0.8), groups, zero, 3.0, one, lambda: np.eye(4), 50.0, None)
    >>> change_probability(view, np.array([3]))
    0.0
    >>> split = replace(view, groups=np.array([0, 1, -2, -2]))
    >>> change_probability(split, np.array([2, 3])) > 0.3
    True
    """
    if not len(rest):
        return 0.0
    totals = view.vote_totals
    if not len(totals):
        return 1.0
    answers = _drawn_answers(view, totals, rest)
    weights = tempered(
        calibrated_weights(view.prob, view.alternatives, view.readable),
        np.zeros(len(view.prob), np.intp),
        view.labelled,
    )
    given = len(totals)
    final = np.zeros((_DRAWS, int(answers.max(initial=given)) + 1))
    final[:, :given] = totals
    silent = answers < 0
    np.add.at(
        final,
        (np.arange(_DRAWS)[:, None], np.where(silent, 0, answers)),
        np.where(silent, 0.0, weights[rest]),
    )
    final[:, given:][final[:, given:] == 0.0] = -np.inf  # nobody gave this one
    drawn = float((final.argmax(axis=1) != totals.argmax()).mean())
    return _AGREED * drawn if _all_agree(view) else drawn


def change_if_agreed(view: View, rest: NDArray[np.intp]) -> float:
    """`change_probability` if all peers that were asked had given one answer: about the least that it can be.

    >>> groups, zero, one = np.array([0, 1, -2, -2]), np.zeros(4), np.ones(4)
    >>> view = View(zero, np.full(4, 0.8), groups, zero, 3.0, one, lambda: np.eye(4), 50.0, None)
    >>> change_probability(view, np.array([2, 3])) > 0.3 > change_if_agreed(view, np.array([2, 3]))
    True
    """
    groups = np.where(view.groups > -2, 0, -2)
    return change_probability(replace(view, groups=groups, text_log_odds=np.zeros(len(groups))), rest)


def _all_agree(view: View) -> bool:
    """Whether two votes or more are for one answer, and none for another."""
    votes = np.ones(len(view.groups)) if view.votes is None else view.votes
    return bool(view.groups.max() == 0 and votes[view.groups == 0].sum() > _LEAST_VOTES)


def _drawn_answers(view: View, totals: FloatArray, rest: NDArray[np.intp]) -> NDArray[np.intp]:
    """Answers of the rest, (draws, rest), as numbers of groups; −1 for one that cannot be read.

    Numbers from len(totals) on are answers that nobody gave so far, the first of them the truth if it is not
    among those given.
    """
    uniform_truth, right, which, readable = _uniform(len(rest))
    unseen = max(view.alternatives + 1.0 - len(totals), _LEAST_UNSEEN)
    truth = _drawn_truth(totals, unseen, uniform_truth)[:, None]
    wrong = (which * max(view.alternatives, 1.0)).astype(np.intp).clip(max=_MOST_WRONG)
    wrong = wrong + (wrong >= truth)
    answers = np.where(right < view.prob[rest], truth, wrong)
    unreadable = (readable > view.readable[rest]) & (answers != truth)
    out: NDArray[np.intp] = np.where(unreadable, -1, answers)
    return out


def _drawn_truth(totals: FloatArray, unseen: float, uniform: FloatArray) -> NDArray[np.intp]:
    """The right answer in every draw; as many as there are totals if it is none of those given."""
    log_odds = np.append(_TEMPERATURE * totals, np.log(unseen) if unseen else -np.inf)
    odds = np.exp(log_odds - log_odds.max())
    return np.searchsorted(odds.cumsum() / odds.sum(), uniform).clip(max=len(totals))


@lru_cache
def _uniform(rest: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The same numbers every time, so that a decision can be made again: (draws,), then (draws, rest)."""
    rng = np.random.default_rng(0)
    return (rng.random(_DRAWS), *rng.random((3, _DRAWS, rest)))


def next_peer(view: View, rest: NDArray[np.intp], price: FloatArray | None = None) -> int:
    """Which peer to ask next: the best record for its price, less for one that errs with those already asked.

    Parameters
    ----------
    rest : int array
        The peers that may still be asked.
    price : array (P,), optional
        Of one call to each; None if all cost the same.

    >>> zero, one = np.zeros(3), np.ones(3)
    >>> prob, groups = np.array([0.7, 0.6, 0.5]), np.full(3, -2)
    >>> view = View(zero, prob, groups, zero, 3.0, one, lambda: np.eye(3), 50.0, None)
    >>> next_peer(view, np.array([0, 1, 2])), next_peer(view, np.array([0, 1]), np.array([9.0, 1.0, 1.0]))
    (0, 1)
    """
    asked = view.groups > -2
    worth = view.prob[rest]
    if asked.any():
        together = view.relation()[np.ix_(rest, np.flatnonzero(asked))].max(axis=1)
        worth = worth * (1.0 - together.clip(0.0, 1.0))
    if price is not None:
        worth = worth / np.maximum(price[rest], 1e-12)
    return int(rest[worth.argmax()])


def judge_gain(totals: FloatArray, alternatives: float, power: float) -> float:
    """By how much the chance of a right choice grows if a judge of this power is asked.

    Parameters
    ----------
    totals : array (answers,)
        What every answer weighs.
    alternatives : float
        K − 1, the effective number of wrong answers that compete.

    Examples
    --------
    >>> even, sure = np.array([1.0, 1.0]), np.array([9.0, 0.0])
    >>> [judge_gain(totals, 1.0, 1.5) > 0.1 for totals in (even, sure)]
    [True, False]
    >>> judge_gain(even, 1.0, 0.0)
    0.0
    """
    if len(totals) < 2 or power <= 0.0:
        return 0.0
    uniform, noise = _noise(len(totals))
    truth = _drawn_truth(totals, max(alternatives + 1.0 - len(totals), 0.0), uniform)
    said = power * noise
    there = truth < len(totals)
    said[there, truth[there]] += power * power
    chosen = (_TEMPERATURE * totals + said).argmax(axis=1)
    before = int(totals.argmax())
    return float(((chosen == truth).mean() - (truth == before).mean()).clip(min=0.0))


@lru_cache
def _noise(n_answers: int) -> tuple[FloatArray, FloatArray]:
    """The same numbers every time, so that a decision can be made again."""
    rng = np.random.default_rng(0)
    return rng.random(_DRAWS), rng.standard_normal((_DRAWS, n_answers))
