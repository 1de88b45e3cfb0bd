"""What a log-odds vote needs with p̂: how many wrong answers compete, and how often a peer can be read.

K − 1 at φ is learned from how often two wrong peers agree. If a wrong peer picks one of K − 1 wrong answers
at random, two wrong peers agree with probability q = 1/(K − 1). Agreement among many possible answers is
strong evidence, agreement between two options is weak; a log-odds vote adds log(K − 1) per member. How many
answers compete depends on the task, so q is a decayed kernel estimate, like competence itself.

ρ is the rate at which a peer gives a readable answer. p̂ counts an unreadable answer as wrong, as it must for
a route. A peer that did answer is right more often than that.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.kernel import kernel
from sigma_mem.memory.sums import PEERS, Sum

Number = TypeVar("Number", float, FloatArray)

_PRIOR = 0.25  # q before anything was seen: as with five options
_STRENGTH = 10.0  # prior strength of the overall rate at φ, in pairs
_READABLE_PRIOR = 2.0  # readable answers that every peer is credited with
_READABLE_ASKED = np.array([[0], [-1]])  # the least group of an answer that was read, and that was asked for


def competition_sums(rank: int, rate: float) -> dict[str, Sum]:
    """Declare agreeing and all pairs of wrong peers, at φ and overall; readable and all labelled answers."""
    return {
        **kernel("pairs", (2,), rate, rank),
        "all_pairs": Sum((2,), rate),
        "readable": Sum((2, PEERS), rate),
    }


def prior_pairs(n_peers: int) -> float:
    """Prior strength of q over all tasks, in pairs: a few events' worth, of which a large pool has more.

    >>> [round(prior_pairs(n), 1) for n in (2, 3, 8, 71)]
    [1.0, 2.0, 18.7, 177.5]
    """
    return max(1.0, min(n_peers * (n_peers - 1) / 3.0, 2.5 * n_peers))


def independent(same: Number, pairs: Number) -> tuple[Number, Number]:
    """Pairs of w wrong peers, w(w − 1)/2 of them, as the w/2 independent ones that they are worth.

    >>> same, pairs = independent(np.array([3.0]), np.array([6.0]))  # four wrong peers, three of which agree
    >>> same.tolist(), pairs.tolist()
    ([1.0], [2.0])
    """
    others = ((1.0 + 8.0 * pairs) ** 0.5 - 1.0) / 2.0  # w − 1, for w > 1
    worth = 1.0 / (others + (others < 1.0))
    return same * worth, pairs * worth


def wrong_pairs(c: FloatArray, groups: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Pairs of wrong peers that gave the same answer, and all pairs of wrong peers.

    Parameters
    ----------
    c : array (..., P)
        Labels, NaN if there is none; wrong is c < 0. Leading axes are events.
    groups : int array (..., P)
        Answer group of every peer, negative if there is no answer, which agrees with nobody.

    >>> same, pairs = wrong_pairs(np.array([-1.0, -1.0, -1.0, 1.0]), np.array([0, 0, 1, 2]))
    >>> float(same), float(pairs)
    (1.0, 3.0)
    """
    wrong = (c < 0) & (groups >= 0)  # NaN < 0 is False
    among = np.where(wrong, groups, -1 - np.arange(groups.shape[-1]))  # nobody shares a negative number
    same = (among[..., :, None] == among[..., None, :]).sum(axis=(-2, -1)) - groups.shape[-1]
    n = wrong.sum(axis=-1)
    return same / 2.0, n * (n - 1) / 2.0


def coincidence(
    same: Number, pairs: Number, all_same: Number, all_pairs: Number, prior_pairs: float
) -> Number:
    """q at φ: shrunk towards the rate over all tasks, shrunk towards a constant."""
    overall = (all_same + _PRIOR * prior_pairs) / (all_pairs + prior_pairs)
    return (same + _STRENGTH * overall) / (pairs + _STRENGTH)


def readable_rate(readable: FloatArray, asked: FloatArray) -> FloatArray:
    """ρ from decayed counts.

    >>> readable_rate(np.array([8.0]), np.array([18.0])).tolist()
    [0.5]
    """
    rate: FloatArray = (readable + _READABLE_PRIOR) / (asked + _READABLE_PRIOR)
    return rate


def readable_rows(weight: FloatArray, groups: NDArray[np.intp]) -> FloatArray:
    """What labels with these weights contribute to "readable", (T, 2, P), by their answers' groups, (T, P).

    A group is −1 if an answer could not be read, −2 if none was asked for.
    """
    out: FloatArray = (groups[:, None] >= _READABLE_ASKED) * weight[:, None]
    return out
