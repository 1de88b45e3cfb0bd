"""How much a vote weighs: log-odds of p̂, moved by the texts, tempered while labels are few."""

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray

_LOW, _HIGH = 0.001, 0.98  # bounds of p̂ in a vote: no single peer decides it, however good its record
_NOISE = 4.0  # variance of log-odds that one label shows, at least
_LEAST_SPREAD = 0.01  # variance of the weights that is taken for granted
LEAST_TRUST = 1e-6  # in weights before any label: enough to break the ties of a majority
_LEAST_WEIGHT = 0.3  # of an average vote while there are few labels: a majority counts for its answer


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
    weights: FloatArray = vote_log_odds(prob / np.sqrt(readable)) + np.log(alternatives)
    return weights


def tempered(weights: FloatArray, groups: NDArray[np.intp], labelled: float) -> FloatArray:
    """Weights drawn towards their mean while labels may not distinguish them: w̄ + λ(w − w̄).

    λ = x²/(1 + x²), where x is the variance of the weights, and 0.01, over 4/n, that of an estimate from
    n labelled events. So peers that differ much are distinguished after a few labels, peers that hardly
    differ after many. Before the first label this is a majority, whose ties go to the larger sum of weights.

    >>> import numpy as np
    >>> tempered(np.array([1.0, 3.0]), np.array([0, 1]), labelled=4.0).round(2).tolist()
    [1.5, 2.5]
    """
    there = weights[groups >= 0]
    if not len(there):
        return weights
    average = np.add.reduce(there) / len(there)
    beside = there - average
    told = labelled * (float(beside.dot(beside)) / len(there) + _LEAST_SPREAD) / _NOISE
    trust = max(told**2 / (1.0 + told**2), LEAST_TRUST)
    mean = max(float(average), _LEAST_WEIGHT)
    out: FloatArray = mean + trust * (weights - mean)
    return out


def group_totals(groups: NDArray[np.intp], weights: FloatArray) -> FloatArray:
    """Σ of the weights of every group; empty if every canon is null."""
    totals = np.bincount(groups + 2, weights, minlength=2)[2:]  # −1 and −2 are no answers
    return np.asarray(totals, dtype=np.float64)


def with_text(prob: FloatArray, text_log_odds: FloatArray) -> FloatArray:
    """p̂ once the answers are there: its log-odds moved by the text of each answer.

    >>> import numpy as np
    >>> with_text(np.array([0.5, 0.5, 0.9]), np.array([0.0, 1.0, -1.0])).round(2).tolist()
    [0.5, 0.73, 0.77]
    """
    if not text_log_odds.any():
        return prob
    odds = prob * np.exp(text_log_odds)
    out: FloatArray = odds / (odds + 1.0 - prob)
    return out


def vote_log_odds(prob: FloatArray) -> FloatArray:
    """log p/(1 − p), with p̂ kept from certainty."""
    p = np.minimum(np.maximum(prob, _LOW), _HIGH)
    odds: FloatArray = np.log(p / (1.0 - p))
    return odds
