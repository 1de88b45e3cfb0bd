"""What speaks for an answer: which signs of it go with being right more often than its peer's record says.

The signs of an event's answers are numbers that can be seen before anything is labelled (how long an
answer is, how much it repeats itself …: `sigma_mem.answers.features`). z is an answer's signs less the mean
over the event's answers, and the surprise e is its label less the one the memory expected when it decided,
2p̂ − 1, less the mean again: what all answers to a question share tells nothing about which to trust.
The memory keeps one decayed symmetric matrix, like M_p but of signs in place of tasks,

    J = Σ γ^age Σ_p (z_p, e_p)(z_p, e_p)ᵀ,

from which the weights of the signs follow by ridge regression of e on z, and an answer leans by wᵀz
towards being right. All peers share the weights: a new peer is read with what the others taught. A label
that comes late, is corrected or revoked counts in J exactly as it stands; what was expected at a decision
stays what it was, also if labels that it rested on were revoked since.
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
_LEAST = 1e-8  # variance of a sign, and answers compared: below is what rounding leaves of revoked labels
_MOST = 1.5  # log-odds that signs may move an answer by: no text outweighs a record


def sign_evidence(signs: FloatArray, surprise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """J of every event (leading axes), and how many answers it compares, less one.

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
    count = there.sum(axis=-1)
    joint = np.where(there[..., None], np.concatenate((signs, surprise[..., None]), axis=-1), 0.0)
    mean = joint.sum(axis=-2, keepdims=True) / np.maximum(count, 1)[..., None, None]
    z = np.where(there[..., None], joint - mean, 0.0)
    return np.swapaxes(z, -1, -2) @ z, np.maximum(count - 1.0, 0.0)


def _evidence_of(signs: FloatArray, surprise: FloatArray) -> tuple[FloatArray, float]:
    """`sign_evidence` of one event: quicker without masks."""
    z = np.concatenate((signs, surprise[:, None]), axis=1)[surprise == surprise]
    if len(z) > 1:
        z -= np.add.reduce(z) / len(z)
        return z.T @ z, len(z) - 1.0
    return np.zeros((signs.shape[1] + 1, signs.shape[1] + 1)), 0.0


def sign_weights(evidence: FloatArray, compared: FloatArray) -> FloatArray:
    """w: how much each sign says per unit, in units of c, shape (..., S).

    A ridge on signs in units of their own spread: (J_zz + λ·diag(J_zz)/n)·w = J_ze, over n compared answers.
    """
    zz, ze = evidence[..., :-1, :-1], evidence[..., :-1, -1]
    spread = _spread(zz, compared)
    scaled = zz / (spread[..., :, None] * spread[..., None, :])
    diagonal = np.arange(zz.shape[-1])
    scaled[..., diagonal, diagonal] += _RIDGE
    w: FloatArray = np.linalg.solve(scaled, (ze / spread)[..., None])[..., 0] / spread
    return w


def _spread(zz: FloatArray, compared: FloatArray) -> FloatArray:
    """Standard deviation of every sign within events."""
    square = np.diagonal(zz, axis1=-2, axis2=-1) / np.maximum(compared, _LEAST)[..., None]
    out: FloatArray = np.sqrt(np.maximum(square, _LEAST))
    return out


def lean(signs: FloatArray, readable: NDArray[np.bool_], weights: FloatArray) -> FloatArray:
    """Log-odds by which each answer's signs speak for it, beside the others of its event, shape (..., P).

    Answers that could not be read lean nowhere, and the others are not compared with them.
    """
    says = np.where(readable, (signs @ weights[..., None])[..., 0], 0.0)
    mean = says.sum(axis=-1, keepdims=True) / np.maximum(readable.sum(axis=-1, keepdims=True), 1)
    out: FloatArray = np.where(readable, np.clip(_LOG_ODDS * (says - mean), -_MOST, _MOST), 0.0)
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

    def write(
        self, signs: FloatArray, surprise: FloatArray, tick: float, replaces: FloatArray | None = None
    ) -> None:
        """Add an event's answers, in place of what was known of them before.

        Parameters
        ----------
        signs : array (answers, S)
            Of all answers that could be read, whether their peers are still in the pool or not.
        surprise, replaces : array (answers,)
            c − (2p̂ − 1) by what the event's labels are now, and were before; NaN where there is none.
        """
        evidence, compared = _evidence_of(signs, surprise)
        if replaces is not None:
            before, compared_before = _evidence_of(signs, replaces)
            evidence, compared = evidence - before, compared - compared_before
        self._make_room(evidence)
        weight = self.discount.weight(tick)
        self._sum += weight * evidence
        self._compared += weight * compared

    def _make_room(self, evidence: FloatArray) -> None:
        if not len(self._sum):
            self._sum = np.zeros_like(evidence)
        if self._sum.shape != evidence.shape:
            raise InputError(f"got {len(evidence) - 1} signs of each answer; expected {len(self._sum) - 1}")

    def advance(self, now: float) -> None:
        """Keep the numbers in range as the decay axis moves on; reads do not change."""
        scale = self.discount.rebase(now)
        if scale != 1.0:
            self._sum *= scale
            self._compared *= scale

    def weights(self, now: float) -> FloatArray:
        """w of every sign, in units of c; empty while no event had signs."""
        if not len(self._sum):
            return np.zeros(0)
        factor = self.discount.factor(now)
        return sign_weights(factor * self._sum, factor * self._compared[0])

    def effects(self, now: float) -> FloatArray:
        """What a sign says where it is one standard deviation up: w times its spread, in units of c."""
        if not len(self._sum):
            return np.zeros(0)
        factor = self.discount.factor(now)
        return self.weights(now) * _spread(factor * self._sum[:-1, :-1], factor * self._compared[0])

    def lean(self, signs: FloatArray, readable: NDArray[np.bool_], now: float) -> FloatArray:
        """Log-odds by which each answer's signs speak for it, shape (answers,)."""
        if not len(self._sum) or not readable.any():
            return np.zeros(len(signs))
        return lean(signs, readable, self.weights(now))

    def merge(self, other: Signs, mine: float, theirs: float) -> None:
        """Add `other` as it is at its tick `theirs` to this one as it is at its tick `mine`."""
        if not len(other._sum):
            return
        self._make_room(other._sum)
        scale = other.discount.factor(theirs) / self.discount.factor(mine)
        self._sum += scale * other._sum
        self._compared += scale * other._compared

    def arrays(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        return {"sum": self._sum, "compared": self._compared, "anchor": self.discount.array()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray], rate: float) -> Signs:
        """The inverse of `arrays`."""
        out = cls(Discount.from_array(arrays["anchor"], rate))
        out._sum, out._compared = arrays["sum"].copy(), arrays["compared"].copy()
        return out
