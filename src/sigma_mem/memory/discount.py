"""Exponential forgetting along a decay axis, applied lazily.

A decayed sum is Σ_s γ^(now − s) x_s. Multiplying the whole state by γ on every event
would cost as much as the update itself, so the sum is kept relative to an anchor,

    Σ_s γ^(now − s) x_s  =  γ^(now − anchor) · Σ_s γ^(anchor − s) x_s,

where the right-hand sum does not depend on now: an event that nobody labels costs nothing,
and a late label adds exactly what the label on time would have added.
"""

from __future__ import annotations

import math

import numpy as np

from sigma_mem.events import FloatArray

__all__ = ["Discount"]

# The anchor moves on when γ^(anchor − now) reaches 2^32, and by whole halvings only: a power of
# two rescales sum and weights without rounding, so moving it changes no bit of what is read.
_MAX_BITS = 32


class Discount:
    """γ along ticks, relative to an anchor that stands a whole number of halvings after the origin.

    Parameters
    ----------
    rate : float
        −log γ per tick, ≥ 0 (0 never forgets).
    origin : float
        The tick from which ages count.
    bits : int
        Halvings from the origin to the anchor, where a contribution has weight 1.

    Examples
    --------
    >>> import math
    >>> d = Discount(rate=-math.log(0.5))
    >>> d.weight(3.0) * d.factor(5.0)
    0.25
    """

    __slots__ = ("_halvings", "bits", "origin", "rate")

    def __init__(self, rate: float, origin: float = 0.0, bits: int = 0) -> None:
        self.rate = rate
        self.origin = origin
        self.bits = bits
        self._halvings = rate / math.log(2.0)  # per tick

    def weight(self, tick: float) -> float:
        """γ^(anchor − tick): what a contribution made at `tick` is multiplied with when it is added."""
        return math.exp2(self._halvings * (tick - self.origin) - self.bits)

    def factor(self, now: float) -> float:
        """γ^(now − anchor): what the kept sum is multiplied with when it is read."""
        return math.exp2(self.bits - self._halvings * (now - self.origin))

    def rebase(self, now: float) -> float:
        """Move the anchor towards now where it is due; return what the kept sum must be multiplied with.

        The factor is a power of two (1.0 where nothing is due).
        """
        due = self._halvings * (now - self.origin) - self.bits
        if due < _MAX_BITS:
            return 1.0
        self.bits += int(due)
        return math.ldexp(1.0, -int(due))

    @property
    def due(self) -> float:
        """A tick before which `rebase` has nothing to do: a halving early, so that rounding cannot matter."""
        return self.origin + (self.bits + _MAX_BITS - 1) / self._halvings if self._halvings else math.inf

    def copy(self) -> Discount:
        """Another one that moves on by itself."""
        return Discount(self.rate, self.origin, self.bits)

    def array(self) -> FloatArray:
        """Origin and bits, for a snapshot."""
        return np.array([self.origin, float(self.bits)])

    @classmethod
    def from_array(cls, anchor: FloatArray, rate: float) -> Discount:
        """The inverse of `array`."""
        return cls(rate, float(anchor[0]), int(anchor[1]))
