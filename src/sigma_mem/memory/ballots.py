"""Ballots: who answers with whom, who is right when answers differ, and which vote to believe.

A log-odds vote adds up what the supporters of an answer are worth, as if they erred independently. Peers that
err together are one vote. So what the votes of all peers are worth is regressed jointly. X is 1 for the peers
that gave an answer (answers × peers), y its truth, both less their mean over the answers of the event:

    A = Σ XᵀX over all events,   b = Σ Xᵀy over the n labelled ones,
    w = (n·S + λI)⁻¹(b + λ·w₀),  S = (A + ½·n₀·I)/(events + n₀).

A needs no label. Without labels every vote is worth w₀, and w is a majority.

Several votes use the same answers (`sigma_mem.decide.mixture`). Votes are too sure, so the totals of each
become probabilities at one to three temperatures: its opinions. Opinions are mixed by half of the decayed
log-likelihood of what turned out right: a majority that labels have shown to mislead is left after a
few of them, and no opinion leads by luck.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.sums import PEERS, Sum

_RIDGE = 5.0  # λ, in labelled events
_PRIOR_WEIGHT = 0.2  # w₀, in units of y
_PRIOR_EVENTS = 20.0  # n₀: events in which every peer stood alone against another one
_LEAST = 0.005  # bound of a probability that is scored
_CAUTION = 0.5  # of a log-likelihood: opinions err on the same events, so that the luckiest of them leads


class Opinion(NamedTuple):
    """A vote at a temperature, and its prior weight in the mixture: the leader's is that of two votes."""

    vote: str
    temperature: float
    prior: float


VOTES = ("leader", "calibrated", "expert", "joint")
OPINIONS = (
    Opinion("leader", 1.0, 2.0),
    *(Opinion("calibrated", temperature, 1.0 / 3.0) for temperature in (0.35, 0.7, 1.0)),
    *(Opinion("expert", temperature, 1.0 / 2.0) for temperature in (0.2, 0.4)),
    *(Opinion("joint", temperature, 1.0 / 3.0) for temperature in (2.0, 4.0, 8.0)),
)
_VOTE = np.array([VOTES.index(opinion.vote) for opinion in OPINIONS])
_TEMPERATURE = np.array([opinion.temperature for opinion in OPINIONS])
_LOG_PRIOR = np.log([opinion.prior for opinion in OPINIONS])
_INDEPENDENT = np.array([float(opinion.vote == "calibrated") for opinion in OPINIONS])


class Ballots(NamedTuple):
    """What votes need to know of a pool apart from φ.

    Attributes
    ----------
    rate, labels : array (P,)
        How often every peer was right, from 0 to 1, and over how many labels.
    joint : array (P,)
        What a vote of every peer is worth, regressed jointly.
    likelihood : array (opinions,)
        Log-likelihood of what turned out right, by every opinion.
    """

    rate: FloatArray
    labels: FloatArray
    joint: FloatArray
    likelihood: FloatArray


def ballot_sums(rate: float) -> dict[str, Sum]:
    """Declare A, b, log-likelihoods, and numbers of events: with several answers, labelled."""
    return {
        "ballots.pairs": Sum((PEERS, PEERS), rate),
        "ballots.events": Sum((1,), rate),
        "ballots.right": Sum((PEERS,), rate, together=True),
        "ballots.labelled": Sum((1,), rate),
        "ballots.likelihood": Sum((len(OPINIONS),), rate),
    }


def pair_ballots(groups: NDArray[np.intp]) -> FloatArray:
    """XᵀX of every event (leading axes), centred, (..., P, P); 0 if all answers are equal.

    With one column of X per peer this is 1 for a pair that agrees, less 1/(number of answers).

    Parameters
    ----------
    groups : int array (..., P)
        Answer groups, negative if there is no readable answer.

    Examples
    --------
    >>> pair_ballots(np.array([0, 0, 1, -1])).tolist()[0]
    [0.5, 0.5, -0.5, 0.0]
    """
    readable = groups >= 0
    several = n_answers(groups) > 1
    both = readable[..., :, None] & readable[..., None, :] & several[..., None, None]
    same = groups[..., :, None] == groups[..., None, :]
    share = 1.0 / np.maximum(n_answers(groups), 1)[..., None, None]
    out: FloatArray = np.where(both, same - share, 0.0)
    return out


class LabelledAnswers(NamedTuple):
    """What the labels of events imply about their answers, by peer; leading axes are events.

    Attributes
    ----------
    share : array (..., P)
        One over the number of peers that gave an answer, so that sums over peers are sums over answers;
        0 for one that cannot be read.
    labelled : bool array (..., P)
        Whether any peer that gave the answer has a label.
    right, truth : array (..., P)
        The mean over these labels, from 0 to 1, 0 for an answer without any; and how right every answer is
        taken to be. Answers without a label share what is left of 1 with one that nobody gave.
    found, unlabelled : array (...)
        Σ of `right` over answers, and how many answers have no label.
    counts : bool array (...)
        Whether there are several answers, and a label.

    Examples
    --------
    >>> labelled_answers(np.array([1.0, np.nan, np.nan]), np.array([0, 0, 1])).truth.tolist()
    [1.0, 1.0, 0.0]
    >>> labelled_answers(np.array([-1.0, np.nan, np.nan]), np.array([0, 0, 1])).truth.tolist()
    [0.0, 0.0, 0.5]
    """

    share: FloatArray
    labelled: NDArray[np.bool_]
    right: FloatArray
    truth: FloatArray
    found: FloatArray
    unlabelled: FloatArray
    counts: NDArray[np.bool_]


def labelled_answers(c: FloatArray, groups: NDArray[np.intp]) -> LabelledAnswers:
    """Of labels in [−1, 1], NaN if there is none, and answer groups, (..., P) each."""
    readable = groups >= 0
    same = (groups[..., :, None] == groups[..., None, :]) & readable[..., None, :]
    share = np.where(readable, 1.0 / np.maximum(np.add.reduce(same, axis=-1), 1), 0.0)
    there = c == c  # NaN differs from itself
    of_labels = np.add.reduce(same & there[..., None, :], axis=-1)
    total = np.add.reduce(same * np.where(there, 0.5 * c + 0.5, 0.0)[..., None, :], axis=-1)
    labelled = readable & (of_labels > 0)
    right = np.where(labelled, total / np.maximum(of_labels, 1), 0.0)
    found = np.add.reduce(right * share, axis=-1)
    unlabelled = np.add.reduce((readable & ~labelled) * share, axis=-1)
    truth = np.where(labelled, right, (np.maximum(1.0 - found, 0.0) / (unlabelled + 1.0))[..., None])
    counts = np.logical_or.reduce(labelled, axis=-1) & (n_answers(groups) > 1)
    return LabelledAnswers(share, labelled, right, truth, found, unlabelled, counts)


def label_ballots(answers: LabelledAnswers) -> FloatArray:
    """Xᵀy of every event, (..., P); 0 for one that does not count.

    Examples
    --------
    >>> label_ballots(labelled_answers(np.array([1.0, 1.0, -1.0]), np.array([0, 0, 1]))).tolist()
    [0.5, 0.5, -0.5]
    """
    n = np.maximum(np.add.reduce(answers.share, axis=-1), 1.0)
    mean = np.add.reduce(answers.truth * answers.share, axis=-1) / n
    counted = (answers.share > 0.0) & answers.counts[..., None]
    return np.where(counted, answers.truth - mean[..., None], 0.0)


def opinion_likelihood(answers: LabelledAnswers, opinions: FloatArray) -> FloatArray:
    """Log-likelihood of every event's labels by every opinion, (..., E).

    Σ r·log q over the labelled answers, r their truth; if some have no label, what is left of 1 times the
    log of what the opinion gave them. Nothing is learned from an event with one answer, or if every answer
    is wrong.

    Parameters
    ----------
    opinions : array (..., E, P)
        Probability of the answer that each peer gave, by every opinion, as recorded at the decision; NaN if
        it mixed no votes.

    Examples
    --------
    >>> opinions = np.array([[0.8, 0.8, 0.2], [0.5, 0.5, 0.5]])
    >>> labels, groups = np.array([[1.0, 1.0, -1.0], [-1.0, np.nan, np.nan]]), np.array([[0, 0, 1]] * 2)
    >>> opinion_likelihood(labelled_answers(labels, groups), np.stack([opinions] * 2)).round(2).tolist()
    [[-0.22, -0.69], [-1.61, -0.69]]
    """
    r = (answers.right * answers.share / np.maximum(answers.found, 1.0)[..., None])[..., None, :]
    likely = np.add.reduce(r * np.log(np.maximum(opinions, _LEAST)), axis=-1)
    if answers.unlabelled.any():
        of_labelled = (answers.labelled * answers.share)[..., None, :]
        rest = np.maximum(1.0 - np.add.reduce(of_labelled * opinions, axis=-1), _LEAST)
        left = np.where(answers.unlabelled > 0.0, np.maximum(1.0 - answers.found, 0.0), 0.0)
        likely += left[..., None] * np.log(rest)
    known = answers.counts[..., None] & (likely == likely)  # NaN differs from itself
    return np.where(known, likely, 0.0)


def answer_opinions(totals: FloatArray) -> FloatArray:
    """Probability of every answer by every opinion, (opinions, answers); rows sum to 1.

    Parameters
    ----------
    totals : array (votes, answers)
        What every answer weighs in each of `VOTES`.

    Examples
    --------
    >>> answer_opinions(np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])).round(2)[:2].tolist()
    [[0.88, 0.12], [0.5, 0.5]]
    """
    scaled = _TEMPERATURE[:, None] * totals[_VOTE]
    weight: FloatArray = np.exp(scaled - np.maximum.reduce(scaled, axis=1, keepdims=True))
    weight /= np.add.reduce(weight, axis=1, keepdims=True)
    return weight


def opinion_weights(likelihood: FloatArray, alternatives: float) -> FloatArray:
    """Weight of every opinion in the mixture, (opinions,); they sum to 1.

    Agreement among many possible answers is strong evidence, between two it is weak: beforehand the
    calibrated vote is (K − 1)² times as likely as others to be the one to believe.

    Parameters
    ----------
    alternatives : float
        K − 1, the effective number of wrong answers that compete.
    """
    log_weight = _CAUTION * likelihood + _LOG_PRIOR + 2.0 * math.log(alternatives) * _INDEPENDENT
    weight: FloatArray = np.exp(log_weight - np.maximum.reduce(log_weight))
    weight /= np.add.reduce(weight)
    return weight


def opinions_of_peers(opinions: FloatArray, groups: NDArray[np.intp]) -> FloatArray:
    """Opinions of the answer that each peer gave, (opinions, P); 0 for one that cannot be read."""
    out: FloatArray = np.where(groups >= 0, opinions[:, np.maximum(groups, 0)], 0.0)
    return out


def joint_weights(pairs: FloatArray, events: float, right: FloatArray, labelled: float) -> FloatArray:
    """w, what a vote of every peer adds to those of the others, (P,).

    Parameters
    ----------
    pairs, events : array (P, P), and float
        A, and how many events with several answers it holds.
    right, labelled : array (P,), and float
        b, and how many labelled events it holds.

    Examples
    --------
    Ann and bob answer as one, and cat is right as often as they are: each of the two is worth half of cat.

    >>> pairs = 100.0 * np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.5]])
    >>> joint_weights(pairs, 100.0, 100.0 * np.array([0.25, 0.25, 0.25]), 100.0).round(2).tolist()
    [0.27, 0.27, 0.47]
    """
    spread = pairs.copy()
    spread.flat[:: len(right) + 1] += 0.5 * _PRIOR_EVENTS
    spread *= max(labelled, 0.0) / (max(events, 0.0) + _PRIOR_EVENTS)
    spread.flat[:: len(right) + 1] += _RIDGE
    return np.asarray(np.linalg.solve(spread, right + _RIDGE * _PRIOR_WEIGHT), dtype=np.float64)


def n_answers(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many different answers can be read: groups are numbered from 0."""
    return np.asarray(groups.max(axis=-1, initial=-1) + 1, dtype=np.intp)
