"""What a log-odds vote needs beside p̂: how many wrong answers compete, and how often a peer can be read.

`WrongAnswers` learns K − 1 at φ from how often two wrong peers agree. If a wrong peer picks one of K − 1
wrong answers at random, two wrong peers agree with probability q = 1/(K − 1). Agreement among many possible
answers is strong evidence, agreement between two options is weak; a log-odds vote adds log(K − 1) per member.
How many answers compete depends on the task, so q is a decayed kernel estimate, like competence itself.

`Readability` learns ρ, the rate at which a peer gives a readable answer. p̂ counts an unreadable answer as
wrong, as it must for a route. A peer that did answer is right more often than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.competence import Competence
from sigma_mem.memory.decayed import DecayedSum

Number = TypeVar("Number", float, FloatArray)

_PRIOR = 0.25  # q before anything was seen: as with five options
_STRENGTH = 10.0  # prior strength of the overall rate at φ, in pairs
_READABLE_PRIOR = 2.0  # readable answers that every peer is credited with
READABLE_ASKED = np.array([[0], [-1]])  # the least group of an answer that was read, and that was asked for


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
        Labels, NaN where there is none; wrong is c < 0. Leading axes are events.
    groups : int array (..., P)
        Answer group of every peer, negative where there is no answer, which agrees with nobody.

    >>> same, pairs = wrong_pairs(np.array([-1.0, -1.0, -1.0, 1.0]), np.array([0, 0, 1, 2]))
    >>> float(same), float(pairs)
    (1.0, 3.0)
    """
    wrong = (c < 0) & (groups >= 0)  # NaN < 0 is False
    among = np.where(wrong, groups, -1 - np.arange(groups.shape[-1]))  # nobody shares a negative number
    same = (among[..., :, None] == among[..., None, :]).sum(axis=(-2, -1)) - groups.shape[-1]
    n = wrong.sum(axis=-1)
    return same / 2.0, n * (n - 1) / 2.0


def wrong_pairs_of(c: FloatArray, groups: NDArray[np.intp]) -> tuple[float, float]:
    """`wrong_pairs` of one event, (P,) each: quicker than comparing everyone with everyone.

    >>> wrong_pairs_of(np.array([-1.0, -1.0, -1.0, 1.0]), np.array([0, 0, 1, 2]))
    (1.0, 3.0)
    """
    wrong = groups[(c < 0) & (groups >= 0)].tolist()
    same = sum(wrong.count(answer) - 1 for answer in wrong)  # every pair counts from both its ends
    return same / 2.0, len(wrong) * (len(wrong) - 1) / 2.0


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


class WrongAnswers(Competence):
    """Decayed sums of φφᵀ over agreeing pairs (in place of M) and over all pairs of wrong peers (of N).

    Examples
    --------
    >>> d = WrongAnswers(rank=2, rate=0.0)
    >>> phi = np.array([1.0, 0.0])
    >>> round(d.alternatives(phi, fresh=1.0, prior_pairs=4.0), 2)
    4.0
    >>> for tick in range(50):
    ...     d.write_pairs(phi, same=1.0, pairs=1.0, tick=tick)
    >>> round(d.alternatives(phi, fresh=1.0, prior_pairs=4.0), 2)
    1.01
    """

    def __init__(self, rank: int, rate: float) -> None:
        super().__init__(1, rank, rate)

    def write_pairs(self, phi: FloatArray, same: float, pairs: float, tick: float) -> None:
        """Add an event's pairs (or, for a correction, their differences)."""
        if same or pairs:
            self.write(phi, np.array([same]), np.array([pairs]), tick)

    def alternatives(
        self, phi: FloatArray, fresh: float, prior_pairs: float, products: FloatArray | None = None
    ) -> float:
        """K − 1 = 1/q at φ, of sums multiplied by `fresh`; `products` as for `score`."""
        near = self.undecayed_scores(phi, products)
        same, pairs, all_same, all_pairs = (fresh * x.item(i) for x in (near, self._traces) for i in range(2))
        return 1.0 / coincidence(same, pairs, all_same, all_pairs, prior_pairs)


class Readability:
    """Decayed counts, per peer, of labelled answers that could be read, and of all labelled answers."""

    def __init__(self, n_peers: int, rate: float) -> None:
        self.decayed = DecayedSum(rate, {"counts": np.zeros((2, n_peers))})

    def write(self, seen: FloatArray, groups: NDArray[np.intp], tick: float) -> None:
        """Count an event's labelled answers.

        Parameters
        ----------
        seen : array (P,)
            1 where there is a label (for a correction, the difference to what there was).
        groups : int array (P,)
            Answer groups; −1 where an answer could not be read, −2 where none was asked for.
        """
        self.decayed.add("counts", (groups >= READABLE_ASKED) * seen, tick)

    def rates(self, fresh: FloatArray) -> FloatArray:
        """ρ of every peer, (P,), of counts multiplied by `fresh`, (P,)."""
        readable, asked = self.decayed.arrays["counts"] * fresh
        return readable_rate(readable, asked)

    def scale(self, factors: FloatArray) -> None:
        """Multiply the counts of every peer by a factor, (P,)."""
        self.decayed.arrays["counts"] *= factors

    def merge(self, other: Readability, now: float) -> None:
        """Add what another memory of the same peers holds at `now`."""
        self.decayed.merge(other.decayed, now)

    def take(self, order: Sequence[int]) -> Readability:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out = Readability(0, self.decayed.rate)
        out.decayed = self.decayed.take(order, {"counts": [1]})
        return out
