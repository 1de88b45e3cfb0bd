"""Whose record changed, since when, and how sure: a likelihood-ratio scan over a peer's newest labels.

A peer's labels c_t are compared with what stays the same without a change of the peer itself:

    c_t = mean + β·(mean of the others)_t + topic(φ_t) + δ·[t ≥ τ] + noise.

The others' labels stand for how hard a task is. The topic is a Gaussian process with the memory's own kernel
(φ·φ')², so that a run of tasks of one kind is not a change. For every τ the evidence is the Bayes factor of
δ ~ N(0, 0.4²) against δ = 0, where both also hold the shifts that the rest of the pool shows at that τ: what
moves many peers at once counts as a change of the tasks. One change is expected in `EXPECTED` labels.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray

WINDOW = 600  # newest labels of a peer that are used; the cost is their cube
SURE = 0.9  # posterior probability from which a change is named
EXPECTED = 1000.0
_LEAST = 8  # labels on either side of a change
_SHIFT = 0.4  # size of a change, in standard deviations of a label
_TOPIC = 0.2  # variance of what a topic explains, in addition to a label's own
_LEVEL = 10.0  # variance of the mean: nothing is known of it
_SHARED = 20.0  # labelled events for which β is taken to be 0
_NOISE = 0.3  # least standard deviation of a label: a peer may be right every time
_STILL = 3.0  # peers that do not move, added to the pool
_QUIET = 2.0  # mean squared z of the pool up to which nothing moves it


@dataclass(frozen=True, slots=True)
class Change:
    """The most likely change of one peer: the first event after it, and the probability of any."""

    place: int
    confidence: float


def find_changes(phis: FloatArray, c: FloatArray) -> list[Change | None]:
    """The likeliest change of every peer; None if it has too few labels to tell.

    Parameters
    ----------
    phis : array (T, rank), unit rows
        φ of the newest labelled events, oldest first.
    c : array (T, P)
        Their labels in [−1, 1]; NaN if there is none.

    >>> right = np.random.default_rng(0).random(120) < np.where(np.arange(120) < 60, 0.9, 0.3)
    >>> change = find_changes(np.ones((120, 1)), np.where(right, 1.0, -1.0)[:, None])[0]
    >>> change.place, round(change.confidence, 2)
    (63, 1.0)
    """
    there = ~np.isnan(c)
    z, weight = np.zeros(c.shape), np.ones(c.shape)  # of a step that begins at every event
    masks, which = np.unique(there.T, axis=0, return_inverse=True)
    residual = _beside_others(c)
    for number, mask in enumerate(masks):
        peers, rows = np.flatnonzero(which == number), np.flatnonzero(mask)
        if len(rows) >= 2 * _LEAST:
            steps = _steps(np.square(phis[rows] @ phis[rows].T), residual[np.ix_(rows, peers)])
            # A step between two of a peer's labels is that which begins with the second one.
            place = np.searchsorted(rows, np.arange(rows[-1] + 1))
            z[: len(place), peers], weight[: len(place), peers] = steps[0][place], steps[1][place][:, None]
    evidence = _evidence(z, weight)
    return [_change(evidence[:, peer], there[:, peer]) for peer in range(c.shape[1])]


def _beside_others(c: FloatArray) -> FloatArray:
    """Labels less their mean and what those of the others imply about the task, in standard deviations."""
    there = ~np.isnan(c)
    labels = np.where(there, c, 0.0)
    count = there.sum(axis=1, keepdims=True) - there
    others = np.where(count > 0, (labels.sum(axis=1, keepdims=True) - labels) / np.maximum(count, 1), np.nan)
    own, others = _centred(c, there), _centred(others, there & (count > 0))
    beta = (own * others).sum(axis=0) / (np.square(others).sum(axis=0) + _SHARED)
    rest = own - beta * others
    deviation = np.sqrt(np.square(rest).sum(axis=0) / np.maximum(there.sum(axis=0), 1))
    out: FloatArray = rest / np.maximum(deviation, _NOISE)
    return out


def _centred(x: FloatArray, there: NDArray[np.bool_]) -> FloatArray:
    """Values less the mean of their column; 0 if there is none."""
    known = np.where(there, x, 0.0)
    mean = known.sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    out: FloatArray = np.where(there, known - mean, 0.0)
    return out


def _steps(kernel: FloatArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
    """z of a step at every label, (n, k), and how much is known of its size, (n,)."""
    n = len(residual)
    precision = np.linalg.inv(np.eye(n) + _LEVEL + _TOPIC * kernel).astype(np.float64, copy=False)
    weight = np.maximum(_to_the_end(_to_the_end(precision).T).diagonal(), 1e-9)
    z: FloatArray = _to_the_end(precision @ residual) / np.sqrt(weight)[:, None]
    return z, weight


def _to_the_end(x: FloatArray) -> FloatArray:
    """Sums from every row to the last."""
    return np.cumsum(x[::-1], axis=0)[::-1]


def _evidence(z: FloatArray, weight: FloatArray) -> FloatArray:
    """Log Bayes factor of a change of this peer at every event, (T, P), beyond what moves the pool."""
    square = np.square(z)
    others = square.sum(axis=1, keepdims=True) - square
    moved = (others + _STILL) / (z.shape[1] - 1 + _STILL)
    still = 1.0 + np.maximum(moved - _QUIET, 0.0)  # variance of z if only the pool moves
    changed = still + weight * _SHIFT**2
    out: FloatArray = 0.5 * (np.log(still / changed) + square * (1.0 / still - 1.0 / changed))
    return out


def _change(evidence: FloatArray, there: NDArray[np.bool_]) -> Change | None:
    rows = np.flatnonzero(there)[_LEAST : max(there.sum() - _LEAST + 1, _LEAST)]
    if not len(rows):
        return None
    log_odds = np.logaddexp.reduce(evidence[rows]) - np.log(EXPECTED)
    return Change(int(rows[evidence[rows].argmax()]), float(1.0 / (1.0 + np.exp(-log_odds))))
