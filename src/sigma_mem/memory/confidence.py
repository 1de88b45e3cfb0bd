"""Confidence that can be believed: a claim in a vote's model, calibrated by how such claims turned out.

Votes are not independent, so the posterior of an answer is too sure. It is claimed at several temperatures τ,
and by the decision itself;
the claims are mixed by their decayed log-likelihood, and the mixture is corrected by twelve bins,

    confidence = claim + Σ_b m_b·o_b,   o_b = (Σ(y − claim) + 10·o_{b−1})/(n_b + 10),

m_b the linear membership of the claim in the two bins that it lies between, y = 1 if the answer was right.
A bin of which little is known is corrected like the one below it: claims that are too sure are so in all.
From a cold start the confidence is the claim. All are decayed sums over recorded claims, so that a label
can be corrected and revoked in them.

A histogram of the confidences themselves, which needs no label, shows how sure a set of answers is.
"""

from bisect import bisect_left

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.sums import Sum

TEMPERATURES = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0])
N_CLAIMS = len(TEMPERATURES) + 1  # and what the decision itself claims
_CENTRES = np.array([0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.835, 0.9, 0.95, 0.985])
_BETWEEN = _CENTRES[1:-1].tolist()
_HALF = 4  # the temperature by which it is judged whether the right answer was given at all
_BELIEVED = 0.85  # of how far the decision's own probability is from one half: it chose the largest
_STRENGTH = 10.0  # prior strength of the correction of the bin below, in labels
_LEAST = 0.005  # bound of a claim
_DECIMALS = 4  # of a recorded claim
_SET = 21.0  # decisions like this one that a set of answers is taken to hold
_SET_BINS = 100


def confidence_sums(rate: float) -> dict[str, Sum]:
    """Declare how likely claims were, how far they held, and how sure decisions were."""
    return {
        "sure.likelihood": Sum((N_CLAIMS,), rate),
        "sure.bins": Sum((2, len(_CENTRES)), rate),
        "sure.decisions": Sum((2, _SET_BINS), rate),
    }


def answer_claims(totals: FloatArray, alternatives: float, group: int, sure: float) -> FloatArray:
    """Posterior of an answer at every temperature, and by the decision itself, (8,), as a ledger keeps it.

    Parameters
    ----------
    totals : array (groups,)
        Log-odds that every answer got in a vote.
    alternatives : float
        K − 1: with the answers given there are about K, and those that nobody gave may be right as well.
    group : int
        The answer; negative for one that could not be read.
    sure : float
        The decision's own probability of the answer, compared with the others that were given.

    >>> answer_claims(np.array([2.0, 0.0]), alternatives=3.0, group=0, sure=0.9)[-2:].round(3).tolist()
    [0.711, 0.572]
    """
    if group < 0:
        return np.full(N_CLAIMS, 4 * _LEAST)
    unseen = np.log(max(alternatives + 1.0 - len(totals), 0.2))
    scaled = TEMPERATURES[:, None] * totals
    highest = np.maximum(np.maximum.reduce(scaled, axis=1), unseen)
    weight = np.exp(scaled - highest[:, None])
    given = np.add.reduce(weight, axis=1)
    whole = given + np.exp(unseen - highest)
    own = 0.5 + _BELIEVED * (sure * (given / whole)[_HALF] - 0.5)
    claims = np.append(weight[:, group] / whole, own)
    bounded: FloatArray = np.minimum(np.maximum(claims, _LEAST), 1.0 - _LEAST)
    return bounded.round(_DECIMALS)


def membership(claim: float) -> FloatArray:
    """Weights of the twelve bins: linear in the two that the claim lies between.

    >>> membership(0.9).nonzero()[0].tolist(), membership(0.5)[4:6].round(2).tolist()
    ([9], [0.5, 0.5])
    """
    weights = np.zeros(len(_CENTRES))
    upper = bisect_left(_BETWEEN, claim) + 1
    low, high = _CENTRES.item(upper - 1), _CENTRES.item(upper)
    share = min(max((claim - low) / (high - low), 0.0), 1.0)
    weights[upper], weights[upper - 1] = share, 1.0 - share
    return weights


def mixed_claim(claims: FloatArray, likelihood: FloatArray) -> float:
    """All claims as one, as a ledger keeps it."""
    weights = np.exp(likelihood - np.maximum.reduce(likelihood))
    return round(float(weights @ claims / np.add.reduce(weights)), _DECIMALS)


def calibrated(claim: float, bins: FloatArray) -> float:
    """The claim, corrected by how such claims turned out.

    Claims of 0.9 of which six in ten hold:

    >>> _, bins = sure_rows(np.full((500, 8), 0.9), np.full(500, 0.9), np.arange(500) % 10 < 6, np.ones(500))
    >>> round(calibrated(0.9, bins.sum(axis=0)), 2)
    0.61
    """
    offset, offsets = 0.0, []
    for error, labels in bins.T.tolist():
        offset = (error + _STRENGTH * offset) / (labels + _STRENGTH)
        offsets.append(offset)
    corrected = claim + float(membership(claim) @ offsets)
    return min(max(corrected, _LEAST), 1.0 - _LEAST)


def sure_rows(
    claims: FloatArray, mixed: FloatArray, right: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What events contribute to "sure.likelihood", (T, 8), and to "sure.bins", (T, 2, 12).

    Parameters
    ----------
    claims, mixed : arrays (T, 8), and (T,)
        Recorded claims, and their mixture.
    right, weight : array (T,)
        How right the answer was, from 0 to 1, and how much that counts; a negative weight takes it back.
    """
    y = np.asarray(right, dtype=np.float64)[:, None]
    likelihood: FloatArray = weight[:, None] * (y * np.log(claims) + (1.0 - y) * np.log1p(-claims))
    bins = np.array([membership(claim) for claim in mixed.tolist()])[:, None]
    return likelihood, bins * np.stack((weight * (y[:, 0] - mixed), weight), axis=1)[..., None]


def decision_rows(confidence: FloatArray) -> FloatArray:
    """What decisions contribute to "sure.decisions", (T, 2, 100); no label is needed."""
    rows = np.zeros((len(confidence), 2, _SET_BINS))
    for row, sure in zip(rows, confidence.tolist(), strict=True):
        row[:, _bin(sure)] = 1.0, sure
    return rows


def of_set(confidence: float, decisions: FloatArray) -> float:
    """Mean confidence of the decisions that are at least as sure as this one, this one among them."""
    number, total = decisions[:, _bin(confidence) :].sum(axis=1)
    return float((total + _SET * confidence) / (number + _SET))


def _bin(confidence: float) -> int:
    return min(int(confidence * _SET_BINS), _SET_BINS - 1)
