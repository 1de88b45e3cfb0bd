"""How many wrong answers compete at φ: K − 1, learned from how often two wrong peers agree.

If a wrong peer picks one of K − 1 wrong answers at random, two wrong peers agree with
probability q = 1/(K − 1). Agreement among many answers (K large) is strong evidence, agreement
between two options (K = 2) is weak; a log-odds vote adds log(K − 1) per member. How many
answers compete depends on the task, so q is a decayed kernel estimate, like competence itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.competence import Competence
from sigma_mem.memory.discount import Discount

__all__ = ["Distractors", "agreement", "wrong_pairs", "wrong_pairs_of"]

Number = TypeVar("Number", float, FloatArray)

_PRIOR = (1.0, 4.0)  # agreeing, pairs: as of five options, until something was seen
_STRENGTH = 10.0  # pairs that the overall rate is worth at a φ where nothing was seen


def wrong_pairs(c: FloatArray, groups: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Pairs of wrong peers that gave the same answer, and all pairs of wrong peers.

    Parameters
    ----------
    c : array (..., P)
        Labels, NaN where there is none; wrong is c < 0. Leading axes are events.
    groups : int array (..., P)
        Answer group of every peer, negative where there is no answer, which agrees with nobody.

    >>> import numpy as np
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

    >>> import numpy as np
    >>> wrong_pairs_of(np.array([-1.0, -1.0, -1.0, 1.0]), np.array([0, 0, 1, 2]))
    (1.0, 3.0)
    """
    wrong = groups[(c < 0) & (groups >= 0)].tolist()
    same = sum(wrong.count(answer) - 1 for answer in wrong)  # every pair counts from both its ends
    return same / 2.0, len(wrong) * (len(wrong) - 1) / 2.0


def agreement(same: Number, pairs: Number, all_same: Number, all_pairs: Number) -> Number:
    """q: near φ, shrunk towards the rate over all tasks, shrunk towards a constant."""
    overall = (all_same + _PRIOR[0]) / (all_pairs + _PRIOR[1])
    return (same + _STRENGTH * overall) / (pairs + _STRENGTH)


class Distractors:
    """Decayed sums of φφᵀ over agreeing and over all wrong pairs.

    Examples
    --------
    >>> import numpy as np
    >>> d = Distractors(rank=2, discount=Discount(rate=0.0))
    >>> phi = np.array([1.0, 0.0])
    >>> round(d.alternatives(phi, now=0), 2)
    4.0
    >>> for tick in range(50):
    ...     d.write(phi, same=1.0, pairs=1.0, tick=tick)
    >>> round(d.alternatives(phi, now=50), 2)
    1.01
    """

    def __init__(self, rank: int, discount: Discount) -> None:
        self._pairs = Competence(1, rank, discount)

    @property
    def discount(self) -> Discount:
        """Of the sums."""
        return self._pairs.discount

    def write(self, phi: FloatArray, same: float, pairs: float, tick: float) -> None:
        """Add an event's pairs (or, for a correction, their differences)."""
        if same or pairs:
            self._pairs.write(phi, np.array([same]), np.array([pairs]), tick)

    def advance(self, now: float) -> None:
        """Keep the numbers in range as the decay axis moves on; reads do not change."""
        self._pairs.advance(now)

    def alternatives(self, phi: FloatArray, now: float) -> float:
        """K − 1 = 1/q at φ."""
        same, pairs, all_same, all_pairs = (
            x.item() for x in (*self._pairs.score(phi, now), *self._pairs.trace(now))
        )
        return 1.0 / agreement(same, pairs, all_same, all_pairs)

    def merge(self, other: Distractors, mine: float, theirs: float) -> None:
        """Add `other` as it is at its tick `theirs` to this one as it is at its tick `mine`."""
        self._pairs.merge(other._pairs, mine, theirs)

    def arrays(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        return self._pairs.arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray], rate: float) -> Distractors:
        """The inverse of `arrays`."""
        pairs = Competence.from_arrays(arrays, rate)
        out = cls(pairs.rank, pairs.discount)
        out._pairs = pairs
        return out
