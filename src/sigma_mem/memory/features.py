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

How an answer that others agree with is written needs no label. A second such matrix, of agreement labels in
place of e, gives the weights that w is shrunk to, at half their size, and the spread of every feature.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.decayed import DecayedSum

_RIDGE = 30.0  # ridge penalty, in answers
_LOG_ODDS = 1.0  # log-odds per unit of c: half of the slope near p = ½, since the weights are estimates
_LEAST = 1e-8  # floor of a variance and of a count: below is what rounding leaves of revoked labels
_MOST = 1.5  # bound of the log-odds: no text outweighs a record
_OF_AGREEMENT = (
    0.5  # of the weights that predict agreement: what is expected of those that predict correctness
)


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
    z = np.concatenate((features, residual[:, None]), axis=1)
    there = [e == e for e in residual.tolist()]  # NaN differs from itself
    if not all(there):
        z = z[there]
    if len(z) > 1:
        z -= np.add.reduce(z) / len(z)
        return z.T @ z, len(z) - 1.0
    return np.zeros((features.shape[1] + 1, features.shape[1] + 1)), 0.0


def feature_weights(
    evidence: FloatArray,
    compared: FloatArray,
    agreed: FloatArray | None = None,
    agreements: FloatArray | None = None,
) -> FloatArray:
    """w of every feature, in units of c, shape (..., S).

    Ridge regression on features in units of their own spread s, over n compared answers:
    (J_zz + λ·diag(s²))·w = J_ze + λ·diag(s²)·w₀, where s² is diag(J_zz)/n and w₀ is 0. With agreement, s² is
    that of all answers, labelled or not, and w₀ half of the weights by which texts predict agreement.

    Parameters
    ----------
    evidence, compared : array (..., S + 1, S + 1), and (...)
        J and how many answers it compares.
    agreed, agreements : arrays, optional
        The same of agreement labels.

    Examples
    --------
    Before any label, half of what agreement says:

    >>> J, n = np.array([[60.0, 30.0], [30.0, 30.0]]), np.array(60.0)
    >>> feature_weights(0.0 * J, 0.0 * n, J, n).round(3).tolist(), feature_weights(J, n).round(3).tolist()
    ([0.167], [0.333])
    """
    spread = _unit(evidence, compared, agreed, agreements)
    prior = 0.0 if agreed is None else _OF_AGREEMENT * _ridge(agreed, spread)
    w: FloatArray = _ridge(evidence, spread, prior) / spread
    return w


def _ridge(evidence: FloatArray, spread: FloatArray, prior: FloatArray | float = 0.0) -> FloatArray:
    """Weights of features in units of their spread, shrunk to a prior."""
    scaled = np.ascontiguousarray(evidence[..., :-1, :-1] / (spread[..., :, None] * spread[..., None, :]))
    size = scaled.shape[-1]
    scaled.reshape(*scaled.shape[:-2], size * size)[..., :: size + 1] += _RIDGE  # the diagonal
    moments: FloatArray = evidence[..., :-1, -1] / spread
    moments += _RIDGE * prior
    return np.asarray(np.linalg.solve(scaled, moments[..., None])[..., 0], dtype=np.float64)


def _unit(
    evidence: FloatArray,
    compared: FloatArray,
    agreed: FloatArray | None = None,
    agreements: FloatArray | None = None,
) -> FloatArray:
    """The unit of every feature: its spread over all answers, or over those with labels."""
    spread = _spread(evidence, compared)
    if agreed is None or agreements is None:
        return spread
    return np.where(agreements[..., None] > _LEAST, _spread(agreed, agreements), spread)


def _spread(evidence: FloatArray, compared: FloatArray) -> FloatArray:
    """Standard deviation of every feature within events."""
    square = evidence.diagonal(0, -2, -1)[..., :-1] / np.maximum(compared, _LEAST)[..., None]
    out: FloatArray = np.sqrt(np.maximum(square, _LEAST))
    return out


def text_log_odds(features: FloatArray, readable: NDArray[np.bool_], weights: FloatArray) -> FloatArray:
    """Log-odds by which the text of each answer speaks for it, beside the others of its event, (..., P).

    0 for an answer that could not be read; the others are not compared with it.
    """
    raw = np.where(readable, (features @ weights[..., None])[..., 0], 0.0)
    count = np.add.reduce(readable, axis=-1, keepdims=True)
    mean = np.add.reduce(raw, axis=-1, keepdims=True) / np.maximum(count, 1)
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
        self.decayed.add("sum", evidence if weight == 1.0 else weight * evidence, tick)
        self.decayed.add("compared", np.array([weight * compared]), tick)

    def weights(self, now: float, agreed: TextFeatures | None = None) -> FloatArray:
        """w of every feature, in units of c, shrunk to what `agreed` says of texts that others agree with."""
        return feature_weights(*self._evidence(now), *(() if agreed is None else agreed._evidence(now)))

    def effects(self, now: float, agreed: TextFeatures | None = None) -> FloatArray:
        """What a feature says where it is one standard deviation up: w times its spread, in units of c."""
        evidence = (*self._evidence(now), *(() if agreed is None else agreed._evidence(now)))
        return feature_weights(*evidence) * _unit(*evidence)

    def _evidence(self, now: float) -> tuple[FloatArray, FloatArray]:
        return self.decayed.value("sum", now), self.decayed.value("compared", now)[0]

    def log_odds(
        self,
        features: FloatArray,
        readable: NDArray[np.bool_],
        now: float,
        agreed: TextFeatures | None = None,
    ) -> FloatArray:
        """Log-odds by which the text of each answer speaks for it, shape (answers,)."""
        if not readable.any() or not (self.known or (agreed is not None and agreed.known)):
            return np.zeros(len(features))
        return text_log_odds(features, readable, self.weights(now, agreed))

    @property
    def known(self) -> bool:
        """Whether any answers were compared."""
        return bool(self.decayed.arrays["compared"][0])
