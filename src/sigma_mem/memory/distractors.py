"""How many wrong answers compete: K − 1, learned from how often two wrong peers agree.

If a wrong peer picks one of K − 1 wrong answers at random, two wrong peers agree with
probability 1/(K − 1). Agreement among many answers (K large) is strong evidence, agreement
between two options (K = 2) is weak; a log-odds vote adds log(K − 1) per member.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.discount import Discount

__all__ = ["Distractors", "wrong_pairs"]

_PRIOR = np.array([6.0, 2.0])  # pairs, agreeing pairs: K − 1 = 3, as of four options


def wrong_pairs(c: FloatArray, groups: NDArray[np.intp]) -> FloatArray:
    """[pairs of wrong peers, those of them that gave the same answer] in one event.

    Parameters
    ----------
    c : array (P,)
        Labels, NaN where there is none; wrong is c < 0.
    groups : int array (P,)
        Answer group of every peer, −1 for a null canon (which agrees with nobody, and does not count).

    >>> import numpy as np
    >>> wrong_pairs(np.array([-1.0, -1.0, -1.0, 1.0]), np.array([0, 0, 1, 2])).tolist()
    [3.0, 1.0]
    """
    wrong = groups[(c < 0) & (groups >= 0)]  # NaN < 0 is False
    if len(wrong) < 2:
        return np.zeros(2)
    sizes = np.bincount(wrong)
    return np.array([len(wrong) * (len(wrong) - 1) / 2.0, float((sizes * (sizes - 1)).sum()) / 2.0])


class Distractors:
    """Decayed counts of wrong pairs and of agreeing wrong pairs."""

    def __init__(self, discount: Discount) -> None:
        self.discount = discount
        self._sum = np.zeros(2)

    def write(self, counts: FloatArray, tick: float) -> None:
        """Add [pairs, agreeing] (or, for a correction, their difference) of the event at `tick`."""
        self._sum += self.discount.weight(tick) * counts

    def advance(self, now: float) -> None:
        """Keep the numbers in range as the decay axis moves on; reads do not change."""
        scale = self.discount.rebase(now)
        if scale != 1.0:
            self._sum *= scale

    def alternatives(self, now: float) -> float:
        """K − 1, at least 1."""
        pairs, agreeing = (self._sum * self.discount.factor(now) + _PRIOR).tolist()
        return float(max(1.0, pairs / agreeing))

    def merge(self, other: Distractors, mine: float, theirs: float) -> None:
        """Add `other` as it is at its tick `theirs` to this one as it is at its tick `mine`."""
        self._sum += (other.discount.factor(theirs) / self.discount.factor(mine)) * other._sum

    def arrays(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        return {"sum": self._sum, "anchor": self.discount.array()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, FloatArray], rate: float) -> Distractors:
        """The inverse of `arrays`."""
        out = cls(Discount.from_array(arrays["anchor"], rate))
        out._sum[:] = arrays["sum"]
        return out
