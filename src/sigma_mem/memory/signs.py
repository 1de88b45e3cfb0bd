"""What speaks for an answer: which signs of it go with being right more often than its peer's record says.

The signs of an event's answers are numbers that can be seen before anything is labelled (how long an
answer is, how much it repeats itself …: `sigma_mem.encode.signs`). z is an answer's signs less the mean
over the event's answers, and the surprise e is its label less the one the memory expected when it decided,
2p̂ − 1, less the mean again: what all answers to a question share tells nothing about which to trust.
The memory keeps one decayed symmetric matrix, like M_p but of signs in place of tasks,

    J = Σ γ^age Σ_p (z_p, e_p)(z_p, e_p)ᵀ,

from which the weights of the signs follow by ridge regression of e on z, and an answer leans by wᵀz
towards being right. All peers share the weights: a new peer is read with what the others taught. J is
linear in evidence, so late, corrected and revoked labels are exact, as everywhere in this memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory.discount import Discount

__all__ = ["Signs", "lean", "sign_evidence", "sign_weights"]

_RIDGE = 30.0  # answers that "no sign says anything" is worth
_LOG_ODDS = 1.0  # log-odds per unit of c: half of what it is near p = ½, for the weights are guesses
_LEAST = 1e-8  # variance of a sign that says anything; below is what rounding leaves of revoked labels
_MOST = 1.5  # log-odds that signs may move an answer by: no text outweighs a record


def sign_evidence(signs: FloatArray, surprise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """J of one event (or of many: leading axes), and how many answers it compares, less one.

    Parameters
    ----------
    signs : array (..., P, S)
    surprise : array (..., P)
        c − (2p̂ − 1); NaN where an answer has no label or could not be read.

    Examples
    --------
    >>> J, compared = sign_evidence(np.array([[1.0], [3.0], [9.0]]), np.array([-1.0, 1.0, np.nan]))
    >>> J.tolist(), float(compared)
    ([[2.0, 2.0], [2.0, 2.0]], 1.0)
    """
    there = surprise == surprise  # NaN differs from itself
    joint = np.concatenate((signs, np.where(there, surprise, 0.0)[..., None]), axis=-1)
    z = _less_mean(joint, there)
    compared = np.maximum(there.sum(axis=-1) - 1.0, 0.0)
    return np.swapaxes(z, -1, -2) @ z, compared


def sign_weights(evidence: FloatArray, compared: FloatArray) -> FloatArray:
    """w: how much each sign says per unit, in units of c, shape (..., S).

    A ridge on signs in units of their own spread: (J_zz + λ·diag(J_zz)/n)·w = J_ze, over n compared answers.
    """
    zz, ze = evidence[..., :-1, :-1], evidence[..., :-1, -1]
    size = zz.shape[-1]
    square = np.diagonal(zz, axis1=-2, axis2=-1) / np.maximum(compared, 1.0)[..., None]
    varied = square > _LEAST  # a sign that never did gets no weight
    spread = np.sqrt(np.where(varied, square, 1.0))
    scaled = zz / (spread[..., :, None] * spread[..., None, :]) + _RIDGE * np.eye(size)
    w: FloatArray = np.linalg.solve(scaled, np.where(varied, ze / spread, 0.0)[..., None])[..., 0] / spread
    return w


def lean(signs: FloatArray, readable: NDArray[np.bool_], weights: FloatArray) -> FloatArray:
    """Log-odds by which each answer's signs speak for it, beside the others of its event, shape (..., P).

    Answers that could not be read lean nowhere, and the others are not compared with them.
    """
    z = _less_mean(signs, readable)
    out: FloatArray = np.clip(_LOG_ODDS * (z @ weights[..., None])[..., 0], -_MOST, _MOST)
    return out


def _less_mean(x: FloatArray, there: NDArray[np.bool_]) -> FloatArray:
    """x less its mean over the answers that are there; 0 for the others."""
    mask = there[..., None]
    mean = (x * mask).sum(axis=-2, keepdims=True) / np.maximum(mask.sum(axis=-2, keepdims=True), 1)
    out: FloatArray = (x - mean) * mask
    return out


class Signs:
    """The decayed sum J and how many answers it compares; empty until the first event with signs.

    Examples
    --------
    Of two answers the longer one is right, and the memory had no idea:

    >>> memory = Signs(Discount(rate=0.0))
    >>> length = np.array([[3.0], [5.0]])
    >>> for tick in range(200):
    ...     memory.write(length, np.array([-1.0, 1.0]), tick)
    >>> memory.lean(length, np.array([True, True]), now=200).round(1).tolist()
    [-0.9, 0.9]
    """

    def __init__(self, discount: Discount) -> None:
        self.discount = discount
        self._sum = np.zeros((0, 0))
        self._compared = np.zeros(1)
        self._weights: tuple[float, FloatArray] | None = None  # of a tick, until something is written

    def write(
        self, signs: FloatArray, surprise: FloatArray, tick: float, replaces: FloatArray | None = None
    ) -> None:
        """Add an event's answers, in place of what was known of them before.

        Parameters
        ----------
        signs : array (answers, S)
        surprise, replaces : array (answers,)
            c − (2p̂ − 1), now and before; NaN where there was no label.
        """
        evidence, compared = sign_evidence(signs, surprise)
        if replaces is not None:
            before, compared_before = sign_evidence(signs, replaces)
            evidence, compared = evidence - before, compared - compared_before
        if not len(self._sum):
            self._sum = np.zeros_like(evidence)
        if self._sum.shape != evidence.shape:
            raise InputError(f"got {signs.shape[1]} signs of each answer; expected {len(self._sum) - 1}")
        weight = self.discount.weight(tick)
        self._sum += weight * evidence
        self._compared += weight * compared
        self._weights = None

    def advance(self, now: float) -> None:
        """Keep the numbers in range as the decay axis moves on; reads do not change."""
        scale = self.discount.rebase(now)
        if scale != 1.0:
            self._sum *= scale
            self._compared *= scale

    def weights(self, now: float) -> FloatArray:
        """w of every sign, in units of c; empty while no event had signs."""
        if self._weights is None or self._weights[0] != now:
            factor = self.discount.factor(now)
            known = len(self._sum) > 0
            w = sign_weights(factor * self._sum, factor * self._compared[0]) if known else np.zeros(0)
            self._weights = now, w
        return self._weights[1]

    def effects(self, now: float) -> FloatArray:
        """What a sign says where it is one standard deviation up: w times its spread, in units of c."""
        spread = (
            np.sqrt(np.diagonal(self._sum)[:-1] / max(self._compared[0], 1e-300)) if len(self._sum) else 0.0
        )
        return self.weights(now) * spread

    def lean(self, signs: FloatArray, readable: NDArray[np.bool_], now: float) -> FloatArray:
        """Log-odds by which each answer's signs speak for it, shape (answers,)."""
        weights = self.weights(now)
        if not len(weights):
            return np.zeros(len(signs))
        return lean(signs, readable, weights)

    def merge(self, other: Signs, mine: float, theirs: float) -> None:
        """Add `other` as it is at its tick `theirs` to this one as it is at its tick `mine`."""
        if not len(other._sum):
            return
        if not len(self._sum):
            self._sum = np.zeros_like(other._sum)
        scale = other.discount.factor(theirs) / self.discount.factor(mine)
        self._sum += scale * other._sum
        self._compared += scale * other._compared
        self._weights = None

    def arrays(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        return {"sum": self._sum, "compared": self._compared, "anchor": self.discount.array()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray], rate: float) -> Signs:
        """The inverse of `arrays`."""
        out = cls(Discount.from_array(arrays["anchor"], rate))
        out._sum, out._compared = arrays["sum"].copy(), arrays["compared"].copy()
        return out
