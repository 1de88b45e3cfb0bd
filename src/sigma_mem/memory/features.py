"""Text features that predict correctness beyond a peer's record.

The features of an answer are numbers that can be computed before anything is labelled (how long it is, how
much it repeats itself …: `sigma_mem.answers.features`). z is an answer's features less their mean over the
event's answers. The residual e is its label less the label that the memory expected when it decided,
2p̂ − 1, again less the mean: what all answers to a question share does not show which to trust. The memory
keeps one decayed symmetric matrix, shared by all peers,

    J = Σ γ^age Σ_p (z_p, e_p)(z_p, e_p)ᵀ,

from which ridge regression of e on z gives the weights w. wᵀz is the log-odds that a text adds to its
answer. A label that comes late, is corrected or revoked counts in J exactly as it stands; what was
expected at a decision stays what it was.

How an answer that others agree with is written needs no label. A second such matrix, of agreement labels
instead of e, gives the weights that w is shrunk to, at half their size, and the spread of every feature.
"""

from __future__ import annotations

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.sums import Sum

_RIDGE = 30.0  # ridge penalty, in answers
_LOG_ODDS = 1.0  # log-odds per unit of c: half of the slope near p = ½, since the weights are estimates
_LEAST = 1e-8  # floor of a variance and of a count: below is what rounding leaves of revoked labels
_MOST = 1.5  # bound of the log-odds: no text outweighs a record
_OF_AGREEMENT = (
    0.5  # of the weights that predict agreement: what is expected of those that predict correctness
)


def feature_sum(n_features: int, rate: float) -> Sum:
    """Declare J and, in a last row, how many answers it compares."""
    return Sum((n_features + 2, n_features + 1), rate)


def feature_rows(features: FloatArray, residual: FloatArray, weight: FloatArray) -> FloatArray:
    """What events contribute to J and to the last row, (T, S + 2, S + 1); see `feature_evidence`."""
    evidence, compared = feature_evidence(features, residual)
    out = np.zeros((len(features), evidence.shape[1] + 1, evidence.shape[2]))
    out[:, :-1] = evidence
    out[:, -1, 0] = compared
    out *= weight[:, None, None]
    return out


def feature_evidence(features: FloatArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
    """J of every event (leading axes), and how many answers it compares, less one.

    Parameters
    ----------
    features : array (..., P, S)
    residual : array (..., P)
        c − (2p̂ − 1); NaN if an answer has no label or could not be read.

    Examples
    --------
    >>> J, compared = feature_evidence(np.array([[1.0], [3.0], [9.0]]), np.array([-1.0, 1.0, np.nan]))
    >>> J.tolist(), float(compared)
    ([[2.0, 2.0], [2.0, 2.0]], 1.0)
    """
    there = residual == residual  # NaN differs from itself
    count = there.sum(axis=-1)
    joint = np.where(there[..., None], np.concatenate((features, residual[..., None]), axis=-1), 0.0)
    mean = joint.sum(axis=-2, keepdims=True) / np.maximum(count, 1)[..., None, None]
    z = np.where(there[..., None], joint - mean, 0.0)
    return np.swapaxes(z, -1, -2) @ z, np.maximum(count - 1.0, 0.0)


def feature_weights(labelled: FloatArray, agreed: FloatArray | None = None) -> FloatArray:
    """w of every feature, in units of c, (S,).

    Ridge regression on features in units of their own spread s, over n compared answers:
    (J_zz + λ·diag(s²))·w = J_ze + λ·diag(s²)·w₀, where s² is diag(J_zz)/n and w₀ is 0. With agreement, s² is
    that of all answers, labelled or not, and w₀ half of the weights by which texts predict agreement.

    Parameters
    ----------
    labelled, agreed : array (S + 2, S + 1)
        J and how many answers it compares, as `feature_rows` has them; of labels, and of agreement labels.

    Examples
    --------
    Before any label, half of what agreement suggests:

    >>> J = np.array([[60.0, 30.0], [30.0, 30.0], [60.0, 0.0]])
    >>> feature_weights(0.0 * J, J).round(3).tolist(), feature_weights(J).round(3).tolist()
    ([0.167], [0.333])
    """
    spread = feature_units(labelled, agreed)
    prior = 0.0 if agreed is None else _OF_AGREEMENT * _ridge(agreed, spread)
    w: FloatArray = _ridge(labelled, spread, prior) / spread
    return w


def _ridge(sums: FloatArray, spread: FloatArray, prior: FloatArray | float = 0.0) -> FloatArray:
    """Weights of features in units of their spread, shrunk to a prior."""
    scaled = sums[:-2, :-1] / (spread[:, None] * spread)
    scaled.reshape(-1)[:: len(scaled) + 1] += _RIDGE  # the diagonal
    moments: FloatArray = sums[:-2, -1] / spread
    moments += _RIDGE * prior
    return np.asarray(np.linalg.solve(scaled, moments), dtype=np.float64)


def feature_units(labelled: FloatArray, agreed: FloatArray | None = None) -> FloatArray:
    """The unit of every feature: its spread over all answers, or over those with labels."""
    return _spread(labelled if agreed is None or agreed[-1, 0] <= _LEAST else agreed)


def _spread(sums: FloatArray) -> FloatArray:
    """Standard deviation of every feature within events."""
    square = sums.diagonal()[:-1] / max(float(sums[-1, 0]), _LEAST)
    out: FloatArray = np.sqrt(np.maximum(square, _LEAST))
    return out


def text_log_odds(features: FloatArray, weights: FloatArray) -> FloatArray:
    """Log-odds that its text adds to each answer, compared with the others, (answers,)."""
    raw = features @ weights
    apart = raw - np.add.reduce(raw) / len(raw)
    out: FloatArray = np.maximum(np.minimum(_LOG_ODDS * apart, _MOST), -_MOST)
    return out
