"""Copies: peers that answer alike because one follows the other. Together they are worth one vote.

Two good peers agree with each other because they agree with everybody. The sign of a copy is that it agrees
against the rest. Over the events in which both p and q can be read,

    s_pq = Σ w·same / (Σ w + 5),   w = 1 − share of the other readable peers that side with p's answer,
    d_pq = min(s_pq, s_qp), from 0 at 0.8 to 1 at 0.95; from 0.45 to 0.6 if two others are as near to both,
    v_p  = 1/(1 + Σ_q d_pq) over the peers that answered: how many votes p is worth.

If there are only two answers (`freedom`), two peers against the rest have no choice but to agree, and
two good ones among weak ones do so all the time. Then only peers that hardly ever differ are copies: d rises
from 0 at 0.9 to 1 at 1.

The agreement of p (`agreement`) weighs the other answers by (1 − d_pq)·v_q, and a log-odds vote multiplies
its weights by v. No label is needed, and w and w·same are decayed sums.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.agreement import agreement_labels
from sigma_mem.memory.sums import PEERS, Sum

_PRIOR_EVENTS = 5.0  # prior strength of not being a copy
_PAIR = 0.8, 0.95  # s at which d begins to rise, and at which it is 1
_PAIR_OF_TWO = 0.9, 1.0  # the same if there are only two answers
_RING = 0.45, 0.6  # the same among four or more: two or three good peers agree so often, too
_THIRD = 0.1  # share of third answers, if there could be one, at which agreement is a choice
_LEAST_WEIGHT = 1e-9  # of the other answers: below it, nobody is left to agree with


def copies_sums(rate: float) -> dict[str, Sum]:
    """Declare w·same and w of every pair of peers; events with a possible and with a real third answer."""
    return {"copies": Sum((2, PEERS, PEERS), rate), "thirds": Sum((2,), rate)}


def pair_evidence(groups: NDArray[np.intp]) -> FloatArray:
    """w·same and w of every pair of peers, (..., 2, P, P); 0 if fewer than three answers are readable.

    Parameters
    ----------
    groups : int array (..., P)
        Answer groups, negative if there is no readable answer.

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


def third_answers(groups: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether two or more peers are outside the largest group, and whether they differ, (..., 2).

    >>> third_answers(np.array([[0, 0, 1, -1], [0, 0, 1, 1], [0, 0, 1, 2]])).tolist()
    [[False, False], [True, False], [True, True]]
    """
    readable = groups >= 0
    sizes = np.add.reduce((groups[..., :, None] == groups[..., None, :]) & readable[..., None, :], axis=-1)
    outside = np.add.reduce(readable, axis=-1) - np.maximum.reduce(sizes * readable, axis=-1)
    return np.stack((outside > 1, groups.max(axis=-1) > 1), axis=-1)


def freedom(possible: float, third: float) -> float:
    """How far peers that agree chose to, from 0 to 1: between two answers they can hardly help it.

    Those that know nothing agree with each other as often as those that know all, so agreement shows who is
    right only if there are more answers. If two peers or more are outside the largest group, a third answer
    in every tenth such event is enough to see that.

    Parameters
    ----------
    possible, third : float
        Number of events that could have a third answer, and that have one (`third_answers`).

    >>> freedom(100.0, 0.0), freedom(100.0, 5.0), freedom(100.0, 40.0), freedom(0.0, 0.0)
    (0.0, 0.5, 1.0, 1.0)
    """
    return min(max(third / (_THIRD * possible), 0.0), 1.0) if possible > 0.0 else 1.0


def copying(same: FloatArray, compared: FloatArray, free: float = 1.0, factor: float = 1.0) -> FloatArray:
    """d, (P, P), from the sums of w·same and of w, each times `factor`: symmetric, 0 on the diagonal.

    >>> same, compared = np.array([[0.0, 95.0], [92.0, 0.0]]), np.array([[0.0, 95.0], [95.0, 0.0]])
    >>> [copying(same, compared, free).item(1).__round__(2) for free in (1.0, 0.0)]
    [0.8, 0.2]
    """
    s = same / (compared + _PRIOR_EVENTS / factor)
    s = np.minimum(s, s.swapaxes(-1, -2))
    low, high = (free * many + (1.0 - free) * two for many, two in zip(_PAIR, _PAIR_OF_TWO, strict=True))
    ring = _rising(s, *_RING)
    of_ring = free * np.minimum(ring, np.maximum(ring @ ring - 1.0, 0.0))
    return np.maximum(_rising(s, low, high), of_ring)


def _rising(s: FloatArray, low: float, high: float) -> FloatArray:
    rising: FloatArray = np.minimum(np.maximum((s - low) / (high - low), 0.0), 1.0)
    return rising


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

    If no copies answered, these are the plain ones. Otherwise they are rounded to float16, as a ledger
    keeps them, and NaN if all the others copy the peer.

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
