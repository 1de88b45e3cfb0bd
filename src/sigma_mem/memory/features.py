"""Text features that predict correctness beyond a peer's record.

The features of an answer are numbers that can be computed before anything is labelled (how long it is, how
much it repeats itself …: `sigma_mem.answers.features`). z is an answer's features less their mean over the
event's answers. The residual e is its label less the label that the memory expected when it decided,
2p̂ − 1, again less the mean: what all answers to a question share does not tell which to trust. The memory
keeps one decayed symmetric matrix, shared by all peers,

    J = Σ γ^age Σ_p (z_p, e_p)(z_p, e_p)ᵀ,

from which ridge regression of e on z gives the weights w. wᵀz is the log-odds by which a text speaks for its
answer. A label that comes late, is corrected or revoked counts in J exactly as it stands; what was
expected at a decision stays what it was.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.decayed import DecayedSum

_RIDGE = 30.0  # ridge penalty, in answers
_LOG_ODDS = 1.0  # log-odds per unit of c: half of the slope near p = ½, since the weights are estimates
_LEAST = 1e-8  # floor of a variance and of a count: below is what rounding leaves of revoked labels
_MOST = 1.5  # bound of the log-odds: no text outweighs a record


def feature_evidence(features: FloatArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
    """J of every event (leading axes), and how many answers it compares, less one.

    Parameters
    ----------
    features : array (..., P, S)
    residual : array (..., P)
        c − (2p̂ − 1); NaN where an answer has no label or could not be read.

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


def _evidence_of(features: FloatArray, residual: FloatArray) -> tuple[FloatArray, float]:
    """`feature_evidence` of one event: quicker without masks."""
    z = np.concatenate((features, residual[:, None]), axis=1)[residual == residual]
    if len(z) > 1:
        z -= np.add.reduce(z) / len(z)
        return z.T @ z, len(z) - 1.0
    return np.zeros((features.shape[1] + 1, features.shape[1] + 1)), 0.0


def feature_weights(evidence: FloatArray, compared: FloatArray) -> FloatArray:
    """w of every feature, in units of c, shape (..., S).

    Ridge regression on features in units of their own spread, over n compared answers:
    (J_zz + λ·diag(J_zz)/n)·w = J_ze.
    """
    zz, ze = evidence[..., :-1, :-1], evidence[..., :-1, -1]
    spread = _spread(zz, compared)
    scaled = zz / (spread[..., :, None] * spread[..., None, :])
    diagonal = np.arange(zz.shape[-1])
    scaled[..., diagonal, diagonal] += _RIDGE
    w: FloatArray = np.linalg.solve(scaled, (ze / spread)[..., None])[..., 0] / spread
    return w


def _spread(zz: FloatArray, compared: FloatArray) -> FloatArray:
    """Standard deviation of every feature within events."""
    square = np.diagonal(zz, axis1=-2, axis2=-1) / np.maximum(compared, _LEAST)[..., None]
    out: FloatArray = np.sqrt(np.maximum(square, _LEAST))
    return out


def text_log_odds(features: FloatArray, readable: NDArray[np.bool_], weights: FloatArray) -> FloatArray:
    """Log-odds by which the text of each answer speaks for it, beside the others of its event, (..., P).

    0 for an answer that could not be read; the others are not compared with it.
    """
    raw = np.where(readable, (features @ weights[..., None])[..., 0], 0.0)
    mean = raw.sum(axis=-1, keepdims=True) / np.maximum(readable.sum(axis=-1, keepdims=True), 1)
    bounded = np.maximum(np.minimum(_LOG_ODDS * (raw - mean), _MOST), -_MOST)
    out: FloatArray = np.where(readable, bounded, 0.0)
    return out


class TextFeatures:
    """The decayed sum J and how many answers it compares.

    Examples
    --------
    Of two answers the longer one is right, and the memory had no idea:

    >>> memory = TextFeatures(n_features=1, rate=0.0)
    >>> length = np.array([[3.0], [5.0]])
    >>> for tick in range(200):
    ...     memory.write(length, np.array([-1.0, 1.0]), tick)
    >>> memory.log_odds(length, np.array([True, True]), now=200).round(1).tolist()
    [-0.9, 0.9]
    """

    def __init__(self, n_features: int, rate: float) -> None:
        size = n_features + 1
        self.decayed = DecayedSum(rate, {"sum": np.zeros((size, size)), "compared": np.zeros(1)})

    @property
    def n_features(self) -> int:
        """How many features an answer has; 0 where texts are not looked at."""
        return len(self.decayed.arrays["sum"]) - 1

    def write(self, features: FloatArray, residual: FloatArray, tick: float, weight: float = 1.0) -> None:
        """Add an event's answers with a weight; a negative one takes them back.

        Parameters
        ----------
        features : array (answers, S)
            Of all answers that could be read, whether their peers are still in the pool or not.
        residual : array (answers,)
            c − (2p̂ − 1); NaN where there is no label.
        """
        evidence, compared = _evidence_of(features, residual)
        self.decayed.add("sum", weight * evidence, tick)
        self.decayed.add("compared", np.array([weight * compared]), tick)

    def write_many(self, features: FloatArray, residuals: FloatArray, ticks: Sequence[float]) -> None:
        """Add the answers of events, a row each, one after another: bit for bit as `write` does.

        Parameters
        ----------
        features : array (events, P, S)
        residuals : array (events, P)
            NaN where there is no label, or no answer that could be read.
        """
        z = np.concatenate((features, residuals[:, :, None]), axis=2)
        whole = (residuals == residuals).all(axis=1)
        z[whole] -= np.add.reduce(z[whole], axis=1, keepdims=True) / z.shape[1]
        evidence, compared = np.zeros((len(z), z.shape[2], z.shape[2])), np.full(len(z), z.shape[1] - 1.0)
        for i, all_there in enumerate(whole.tolist()):
            if all_there and z.shape[1] > 1:
                evidence[i] = z[i].T @ z[i]
            else:
                evidence[i], compared[i] = _evidence_of(features[i], residuals[i])
        self.decayed.add_many("sum", evidence, ticks)
        self.decayed.add_many("compared", compared[:, None], ticks)

    def weights(self, now: float) -> FloatArray:
        """w of every feature, in units of c."""
        return feature_weights(self.decayed.value("sum", now), self.decayed.value("compared", now)[0])

    def effects(self, now: float) -> FloatArray:
        """What a feature says where it is one standard deviation up: w times its spread, in units of c."""
        spread = _spread(self.decayed.value("sum", now)[:-1, :-1], self.decayed.value("compared", now)[0])
        return self.weights(now) * spread

    def log_odds(self, features: FloatArray, readable: NDArray[np.bool_], now: float) -> FloatArray:
        """Log-odds by which the text of each answer speaks for it, shape (answers,)."""
        if not readable.any() or not self.decayed.arrays["compared"][0]:
            return np.zeros(len(features))
        return text_log_odds(features, readable, self.weights(now))
