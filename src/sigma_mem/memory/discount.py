"""Exponential forgetting along a decay axis, applied lazily.

A decayed sum is Σ_s γ^(now − s) x_s. Multiplying the whole state by γ on every event
would cost as much as the update itself, so the sum is kept relative to an anchor,

    Σ_s γ^(now − s) x_s  =  γ^(now − anchor) · Σ_s γ^(anchor − s) x_s,

where the right-hand sum does not depend on now: an event that nobody labels costs nothing,
and a late label adds exactly what the label on time would have added.
"""

from __future__ import annotations

import math

__all__ = ["Discount"]

# The anchor moves on when γ^(anchor − now) reaches 2^32. A power of two rescales
# the sum without rounding, so moving it changes no bit of what is read.
_MAX_BITS = 32


class Discount:
    """γ along ticks, relative to an anchor tick.

    Parameters
    ----------
    rate : float
        −log γ per tick, ≥ 0 (0 never forgets).
    anchor : float
        The tick at which a contribution has weight 1.

    Examples
    --------
    >>> import math
    >>> d = Discount(rate=-math.log(0.5))
    >>> d.weight(3.0) * d.factor(5.0)
    0.25
    """

    __slots__ = ("anchor", "rate")

    def __init__(self, rate: float, anchor: float = 0.0) -> None:
        self.rate = rate
        self.anchor = anchor

    def weight(self, tick: float) -> float:
        """γ^(anchor − tick): what a contribution made at `tick` is multiplied with when it is added."""
        return math.exp(self.rate * (tick - self.anchor))

    def factor(self, now: float) -> float:
        """γ^(now − anchor): what the kept sum is multiplied with when it is read."""
        return math.exp(-self.rate * (now - self.anchor))

    def rebase(self, now: float) -> float:
        """Move the anchor towards now where it is due; return what the kept sum must be multiplied with.

        The factor is a power of two (1.0 where nothing is due).
        """
        bits = int(self.rate * (now - self.anchor) / math.log(2.0))
        if bits < _MAX_BITS:
            return 1.0
        self.anchor += bits * math.log(2.0) / self.rate
        return math.ldexp(1.0, -bits) if bits < 1074 else 0.0
