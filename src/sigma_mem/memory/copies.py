"""Copies: peers that answer alike because one follows the other. Together they are worth one vote.

Two good peers agree with each other because they agree with everybody. What tells a copy is agreeing against
the rest. Over the events in which both p and q can be read,

    s_pq = Σ w·same / (Σ w + 5),   w = 1 − share of the other readable peers that side with p's answer,
    d_pq = min(s_pq, s_qp), from 0 at 0.8 to 1 at 0.95,
    v_p  = 1/(1 + Σ_q d_pq) over the peers that answered: how many votes p is worth.

The agreement of p (`agreement`) weighs the other answers by (1 − d_pq)·v_q, and a log-odds vote multiplies
its weights by v. No label is needed, and w and w·same are decayed sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.agreement import agreement_labels
from sigma_mem.memory.decayed import DecayedSum

_PRIOR_EVENTS = 5.0  # prior strength of not being a copy
_LOW, _HIGH = 0.8, 0.95  # s at which d begins to rise, and at which it is 1
_LEAST_FACTOR = 1e-200  # of a decay that is divided by
_LEAST_WEIGHT = 1e-9  # of the other answers: below it, nobody is left to agree with


def pair_evidence(groups: NDArray[np.intp]) -> FloatArray:
    """w·same and w of every pair of peers, (..., 2, P, P); 0 where fewer than three answers are readable.

    Parameters
    ----------
    groups : int array (..., P)
        Answer groups, negative where there is no readable answer.

    >>> pair_evidence(np.array([0, 0, 1, 1, 1]))[:, 0].round(2).tolist()
    [[0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.67, 0.67, 0.67]]
    """
    readable = groups >= 0
    both = _both(readable)
    same = both & (groups[..., :, None] == groups[..., None, :])
    others = np.add.reduce(readable, axis=-1, dtype=np.float64)[..., None, None] - 2.0
    siding = np.add.reduce(same, axis=-1, dtype=np.float64)[..., :, None] - same
    out = np.empty((*both.shape[:-2], 2, *both.shape[-2:]))
    weight = out[..., 1, :, :]
    np.multiply(both & (others > 0.0), 1.0 - siding / np.maximum(others, 1.0), out=weight)
    np.multiply(weight, same, out=out[..., 0, :, :])
    return out


def pair_evidence_of(groups: NDArray[np.intp]) -> FloatArray:
    """`pair_evidence` of one event, (2, P, P): quicker, since w of p and q depends on their groups only.

    >>> groups = np.array([0, 0, -1, 1])
    >>> bool((pair_evidence_of(groups) == pair_evidence(groups)).all())
    True
    """
    numbers = groups.tolist()
    others = sum(group >= 0 for group in numbers) - 2
    out = np.zeros((2, len(numbers), len(numbers)))
    if others < 1:
        return out
    siding = [numbers.count(group) - 1 for group in numbers]  # with p: q among them, or not
    beside = np.array([(1.0 - (n - 1) / others, 1.0 - n / others) for n in siding])
    both, equal = _both(groups >= 0), groups[:, None] == groups
    np.multiply(both, np.where(equal, beside[:, :1], beside[:, 1:]), out=out[1])
    np.multiply(out[1], equal, out=out[0])
    return out


def copying(same: FloatArray, compared: FloatArray, prior: float = _PRIOR_EVENTS) -> FloatArray:
    """d, (..., P, P), from the sums of w·same and of w: symmetric, 0 on the diagonal.

    >>> copying(np.array([[0.0, 95.0], [92.0, 0.0]]), np.array([[0.0, 95.0], [95.0, 0.0]])).round(2).tolist()
    [[0.0, 0.8], [0.8, 0.0]]
    """
    s = same / (compared + prior)
    d: FloatArray = (np.minimum(s, s.swapaxes(-1, -2)) - _LOW) / (_HIGH - _LOW)
    return np.minimum(np.maximum(d, 0.0, out=d), 1.0, out=d)


def votes_among(groups: NDArray[np.intp], d: FloatArray) -> FloatArray:
    """v of every peer among those whose answer can be read, (..., P).

    >>> d = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> votes_among(np.array([[0, 0, 1], [0, -1, 1]]), d).tolist()
    [[0.5, 0.5, 1.0], [1.0, 1.0, 1.0]]
    """
    votes: FloatArray = 1.0 / (1.0 + np.add.reduce(d * _both(groups >= 0), axis=-1))
    return votes


def agreement_beside_copies(groups: NDArray[np.intp], d: FloatArray, votes: FloatArray) -> FloatArray:
    """Agreement labels as `agreement_labels` has them, but copies count less, (..., P).

    Where no copies answered these are the plain ones. Elsewhere they are rounded to float16, as a ledger
    keeps them, and NaN where everyone else copies the peer.

    >>> groups, d = np.array([0, 0, 1]), np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> agreement_beside_copies(groups, d, votes_among(groups, d)).tolist()
    [-1.0, -1.0, -1.0]
    """
    readable = groups >= 0
    weight = _both(readable) * (1.0 - d) * votes[..., None, :]
    same = weight * (groups[..., :, None] == groups[..., None, :])
    total = np.add.reduce(weight, axis=-1)
    share = np.add.reduce(same, axis=-1) / np.maximum(total, _LEAST_WEIGHT)
    beside = np.where(total > _LEAST_WEIGHT, 2.0 * share - 1.0, np.nan)
    rounded = beside.astype(np.float16).astype(np.float64)
    counts = readable & np.logical_or.reduce(votes < 1.0, axis=-1, keepdims=True)
    return rounded if counts.all() else np.where(counts, rounded, agreement_labels(groups))


def _both(readable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pairs of different peers that can be read, (..., P, P)."""
    both: NDArray[np.bool_] = readable[..., :, None] & readable[..., None, :] & _different(readable.shape[-1])
    return both


@lru_cache
def _different(n_peers: int) -> NDArray[np.bool_]:
    different: NDArray[np.bool_] = ~np.eye(n_peers, dtype=np.bool_)
    different.flags.writeable = False
    return different


class Copies:
    """The sums of w·same and of w, for every pair of peers.

    Examples
    --------
    Bob always says what ann says, whatever cat and dan say:

    >>> copies = Copies(n_peers=4, rate=0.0)
    >>> for tick in range(50):
    ...     copies.write(np.array([0, 0, 1 + tick % 2, 1]), tick)
    >>> copies.degrees(now=50).round(2)[0].tolist()
    [0.0, 0.73, 0.0, 0.0]
    """

    def __init__(self, n_peers: int, rate: float) -> None:
        self.decayed = DecayedSum(rate, {"pairs": np.zeros((2, n_peers, n_peers))})

    def write(self, groups: NDArray[np.intp], tick: float, sign: float = 1.0) -> None:
        """Add the answers of an event; sign −1 takes them back.

        Parameters
        ----------
        groups : int array (≥ P,)
            Answer groups of the pool, then of peers that have left it: they count among the others.
        """
        n = self.decayed.arrays["pairs"].shape[-1]
        evidence = pair_evidence_of(groups)[:, :n, :n]
        self.decayed.add("pairs", evidence if sign > 0.0 else -evidence, tick)

    def degrees(self, now: float) -> FloatArray | None:
        """d, (P, P); None where nobody copies."""
        same, compared = self.decayed.arrays["pairs"]
        d = copying(same, compared, _PRIOR_EVENTS / max(self.decayed.factor(now), _LEAST_FACTOR))
        return d if d.any() else None

    def scale(self, factors: FloatArray) -> None:
        """Keep of every pair the product of what is kept of its peers."""
        self.decayed.arrays["pairs"] *= np.outer(factors, factors)

    def merge(self, other: Copies, now: float) -> None:
        """Add what another memory of the same peers holds at `now`."""
        self.decayed.merge(other.decayed, now)

    def take(self, order: Sequence[int]) -> Copies:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out = Copies(0, self.decayed.rate)
        out.decayed = self.decayed.take(order, {"pairs": [1, 2]})
        return out
