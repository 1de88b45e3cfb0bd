"""Confidence that can be believed: a claim in a vote's model, calibrated by how such claims turned out.

Votes are not independent, so the posterior of an answer is too sure. It is claimed at several temperatures τ;
the claims are mixed by their decayed log-likelihood, and the mixture is corrected by twelve bins,

    confidence = claim + Σ_b m_b·o_b,   o_b = (Σ(y − claim) + 10·o_{b−1})/(n_b + 10),

m_b the linear membership of the claim in the two bins that it lies between, y = 1 where the answer was right.
A bin of which little is known is corrected like the one below it: claims that are too sure are so in all.
From a cold start the confidence is the claim. All are decayed sums over recorded claims, so that a label
can be corrected and revoked in them.

A histogram of the confidences themselves, which needs no label, tells how sure a set of answers is.
"""

from bisect import bisect_left

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.decayed import DecayedSum

TEMPERATURES = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0])
_CENTRES = np.array([0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.835, 0.9, 0.95, 0.985])
_BETWEEN = _CENTRES[1:-1].tolist()
_STRENGTH = 10.0  # prior strength of the correction of the bin below, in labels
_LEAST = 0.005  # bound of a claim
_DECIMALS = 4  # of a recorded claim
_SET = 21.0  # decisions like this one that a set of answers is taken to hold
_SET_BINS = 100


def answer_claims(totals: FloatArray, alternatives: float, group: int) -> FloatArray:
    """Posterior of an answer at every temperature, (7,), as a ledger keeps it.

    Parameters
    ----------
    totals : array (groups,)
        Log-odds that every answer got in a vote.
    alternatives : float
        K − 1: with the answers given there are about K, and those that nobody gave may be right as well.
    group : int
        The answer; negative for one that could not be read.

    >>> answer_claims(np.array([2.0, 0.0]), alternatives=3.0, group=0)[-1].round(3).item()
    0.711
    """
    if group < 0:
        return np.full(len(TEMPERATURES), 4 * _LEAST)
    unseen = np.log(max(alternatives + 1.0 - len(totals), 0.2))
    scaled = TEMPERATURES[:, None] * totals
    highest = np.maximum(np.maximum.reduce(scaled, axis=1), unseen)
    weight = np.exp(scaled - highest[:, None])
    claims = weight[:, group] / (np.add.reduce(weight, axis=1) + np.exp(unseen - highest))
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


class Confidence:
    """How far claims of being right held.

    Examples
    --------
    Claims of 0.9 of which six in ten hold:

    >>> memory = Confidence(rate=0.0)
    >>> claims = np.full(7, 0.9)
    >>> for tick in range(500):
    ...     memory.write(claims, 0.9, right=float(tick % 10 < 6), tick=tick)
    >>> round(memory.calibrated(0.9, fresh=1.0), 2)
    0.61
    """

    def __init__(self, rate: float) -> None:
        arrays = {
            "likelihood": np.zeros(len(TEMPERATURES)),
            "bins": np.zeros((2, len(_CENTRES))),
            "decisions": np.zeros((2, _SET_BINS)),
        }
        self.decayed = DecayedSum(rate, arrays)

    def mixed(self, claims: FloatArray, fresh: float) -> float:
        """The claims of all temperatures as one, as a ledger keeps it; sums are multiplied by `fresh`."""
        likelihood = fresh * self.decayed.arrays["likelihood"]
        weights = np.exp(likelihood - np.maximum.reduce(likelihood))
        return round(float(weights @ claims / np.add.reduce(weights)), _DECIMALS)

    def calibrated(self, claim: float, fresh: float) -> float:
        """The claim, corrected by how such claims turned out; sums are multiplied by `fresh`."""
        offset, offsets = 0.0, []
        for error, labels in (fresh * self.decayed.arrays["bins"]).T.tolist():
            offset = (error + _STRENGTH * offset) / (labels + _STRENGTH)
            offsets.append(offset)
        corrected = claim + float(membership(claim) @ offsets)
        return min(max(corrected, _LEAST), 1.0 - _LEAST)

    def write(self, claims: FloatArray, claim: float, right: float, tick: float, weight: float = 1.0) -> None:
        """Score recorded claims by how right the answer was, from 0 to 1; a negative weight takes it back."""
        likelihood = weight * (right * np.log(claims) + (1.0 - right) * np.log1p(-claims))
        self.decayed.add("likelihood", likelihood, tick)
        bins = membership(claim) * np.array([[weight * (right - claim)], [weight]])
        self.decayed.add("bins", bins, tick)

    def count(self, confidence: float, tick: float) -> None:
        """Take a decision into the histogram; no label is needed."""
        weight, (number, total) = self.decayed.weight(tick), self.decayed.arrays["decisions"]
        number[_bin(confidence)] += weight
        total[_bin(confidence)] += confidence * weight

    def of_set(self, confidence: float, now: float) -> float:
        """Mean confidence of the decisions that are at least as sure as this one, this one among them."""
        number, total = self.decayed.value("decisions", now)[:, _bin(confidence) :].sum(axis=1)
        return float((total + _SET * confidence) / (number + _SET))


def _bin(confidence: float) -> int:
    return min(int(confidence * _SET_BINS), _SET_BINS - 1)
