"""How often a peer gives an answer that can be read at all.

p̂ counts an unreadable answer as wrong, as it must for a route. A peer that did answer is right
more often than that: if it failed to answer at random, with probability p̂/ρ, where ρ is its rate of
readable answers. A vote takes that into account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.discount import Discount

__all__ = ["Answering", "readable_rate"]

_READABLE_ASKED = np.array([[0], [-1]])  # the least group of an answer that was read, and that was asked for
_PRIOR = 2.0  # readable answers that every peer is credited with


def readable_rate(readable: FloatArray, asked: FloatArray) -> FloatArray:
    """ρ from decayed counts.

    >>> import numpy as np
    >>> readable_rate(np.array([8.0]), np.array([18.0])).tolist()
    [0.5]
    """
    rate: FloatArray = (readable + _PRIOR) / (asked + _PRIOR)
    return rate


class Answering:
    """Decayed counts, per peer, of labelled answers that could be read, and of all labelled answers."""

    def __init__(self, n_peers: int, discount: Discount) -> None:
        self.discount = discount
        self._counts = np.zeros((2, n_peers))

    def write(self, seen: FloatArray, groups: NDArray[np.intp], tick: float) -> None:
        """Count an event's labelled answers.

        Parameters
        ----------
        seen : array (P,)
            1 where there is a label (for a correction, the difference to what there was).
        groups : int array (P,)
            Answer groups; −1 where an answer could not be read, −2 where none was asked for.
        """
        counts = (groups >= _READABLE_ASKED) * seen
        counts *= self.discount.weight(tick)
        self._counts += counts

    def advance(self, now: float) -> None:
        """Keep the numbers in range as the decay axis moves on; reads do not change."""
        scale = self.discount.rebase(now)
        if scale != 1.0:
            self._counts *= scale

    def rate(self, now: float) -> FloatArray:
        """ρ of every peer, shape (P,)."""
        readable, asked = self._counts * self.discount.factor(now)
        return readable_rate(readable, asked)

    def take(self, order: Sequence[int]) -> Answering:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        index = np.array(order, dtype=np.intp)
        out = Answering(len(index), self.discount.copy())
        out._counts[:, index >= 0] = self._counts[:, index[index >= 0]]
        return out

    def merge(self, other: Answering, mine: float, theirs: float) -> None:
        """Add `other` as it is at its tick `theirs` to this one as it is at its tick `mine`."""
        self._counts += (other.discount.factor(theirs) / self.discount.factor(mine)) * other._counts

    def arrays(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        return {"counts": self._counts, "anchor": self.discount.array()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray], rate: float) -> Answering:
        """The inverse of `arrays`."""
        counts = arrays["counts"]
        out = cls(counts.shape[1], Discount.from_array(arrays["anchor"], rate))
        out._counts[:] = counts
        return out
