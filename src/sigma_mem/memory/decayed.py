"""The decayed sum: everything a memory learns is one.

    Σ_s γ^(now − s) x_s

Multiplying it by γ on every event would cost as much as the update itself, so it is kept relative to
an anchor,

    Σ_s γ^(now − s) x_s  =  γ^(now − anchor) · Σ_s γ^(anchor − s) x_s,

where the right-hand sum does not depend on now: an event that nobody labels costs nothing,
and a late label adds exactly what the label on time would have added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from sigma_mem.events import FloatArray

# The anchor moves on when γ^(anchor − now) reaches 2^32, and by whole halvings only: a power of
# two rescales sum and weights without rounding, so moving it changes no bit of what is read.
_MAX_BITS = 32
_MOST_BITS = 1000  # by which an old sum is multiplied, at most
_IN_ORDER = 8  # numbers from which on numpy adds in several places at once
LEAST = 1e-200  # of a decay that is divided by


class DecayedSum:
    """Named arrays of decayed sums that share one decay rate.

    Parameters
    ----------
    rate : float
        −log γ per tick, ≥ 0 (0 never forgets).
    arrays : mapping
        The arrays, all zeros. They are changed in place, so a reference to one stays valid.

    Attributes
    ----------
    origin : float
        The tick from which ages count.
    bits : int
        Halvings from the origin to the anchor, where a contribution has weight 1.

    Examples
    --------
    >>> d = DecayedSum(rate=-math.log(0.5), arrays={"x": np.zeros(1)})
    >>> d.add("x", np.array([8.0]), tick=3.0)
    >>> d.value("x", now=5.0).tolist()
    [2.0]
    """

    __slots__ = ("_halvings", "arrays", "bits", "origin", "rate")

    def __init__(self, rate: float, arrays: Mapping[str, FloatArray]) -> None:
        self.rate = rate
        self.arrays = dict(arrays)
        self.origin = 0.0
        self.bits = 0
        self._halvings = rate / math.log(2.0)  # per tick

    def weight(self, tick: float) -> float:
        """γ^(anchor − tick): the factor of a contribution made at `tick` when it is added."""
        return math.exp2(self._halvings * (tick - self.origin) - self.bits)

    def factor(self, now: float) -> float:
        """γ^(now − anchor): the factor of an array when it is read at `now`."""
        return math.exp2(self.bits - self._halvings * (now - self.origin))

    def factors(self, ticks: FloatArray) -> FloatArray:
        """`factor` at each of several ticks."""
        halvings = self._halvings * (ticks - self.origin)
        whole = np.ceil(halvings)  # split off, so that where the anchor is changes no bit
        bits = np.minimum(self.bits - whole, _MOST_BITS).astype(np.int64)
        out: FloatArray = np.ldexp(np.exp2(whole - halvings), bits)
        return out

    def add(self, name: str, contribution: FloatArray, tick: float) -> None:
        """Add what an event at `tick` contributes; the array passed in is scaled in place."""
        contribution *= self.weight(tick)
        self.arrays[name] += contribution

    def weights(self, ticks: Sequence[float]) -> FloatArray:
        """The `weight` of every tick."""
        return _weights(self._halvings, self.origin, self.bits, tuple(ticks))

    def value(self, name: str, now: float) -> FloatArray:
        """The sum as of `now`."""
        return self.arrays[name] * self.factor(now)

    def advance(self, now: float) -> None:
        """Move the anchor if it is due, by a power of two: no bit of what is read changes."""
        due = self._halvings * (now - self.origin) - self.bits
        if due >= _MAX_BITS:
            self.bits += int(due)
            for array in self.arrays.values():
                array *= math.ldexp(1.0, -int(due))

    @property
    def moves_at(self) -> float:
        """The tick at which `advance` moves the anchor, up to rounding."""
        return self.origin + (self.bits + _MAX_BITS) / self._halvings if self._halvings else math.inf

    @property
    def due(self) -> float:
        """A tick before which `advance` does nothing: a halving early, so that rounding cannot matter."""
        return self.origin + (self.bits + _MAX_BITS - 1) / self._halvings if self._halvings else math.inf

    def take(self, order: Sequence[int], axes: Mapping[str, Sequence[int]]) -> DecayedSum:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known.

        Parameters
        ----------
        axes : mapping
            For every array, its axes that run over peers.
        """
        taken = {name: _taken(array, np.asarray(order), axes[name]) for name, array in self.arrays.items()}
        out = DecayedSum(self.rate, taken)
        out.origin, out.bits = self.origin, self.bits
        return out

    def merge(self, other: DecayedSum, now: float) -> None:
        """Add another sum of the same arrays and decay axis, both as they are at `now`."""
        ratio = other.factor(now) / self.factor(now)
        for name, array in self.arrays.items():
            array += ratio * other.arrays[name]

    def pack(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        return {**self.arrays, "anchor": np.array([self.origin, float(self.bits)])}

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from packed arrays of the same sizes."""
        for name, array in self.arrays.items():
            array[...] = packed[name].reshape(array.shape)
        self.origin, self.bits = float(packed["anchor"][0]), int(packed["anchor"][1])


@lru_cache(maxsize=32)  # sums of one rate are written at the same ticks, one after another
def _weights(halvings: float, origin: float, bits: int, ticks: tuple[float, ...]) -> FloatArray:
    exp2 = math.exp2  # numpy's may differ in the last bit
    weights = np.array([exp2(halvings * (tick - origin) - bits) for tick in ticks])
    weights.flags.writeable = False
    return weights


def add_rows(total: FloatArray, rows: FloatArray) -> None:
    """Add rows to a total in place, one after another, so that rounding is that of so many additions."""
    if len(rows):
        total[...] = np.add.accumulate(np.concatenate((total[None], rows)), axis=0)[-1]


def added(values: Sequence[float]) -> float:
    """The sum as numpy adds it, bit for bit: fewer than eight numbers one after another, quicker without it.

    >>> added([0.1, 0.2, 0.3])
    0.6000000000000001
    """
    if len(values) >= _IN_ORDER:
        return float(np.add.reduce(values))
    total = 0.0
    for value in values:  # `sum` rounds otherwise from Python 3.12 on
        total += value
    return total


def _taken(array: FloatArray, order: FloatArray, axes: Sequence[int]) -> FloatArray:
    known = order >= 0
    out = array.copy()
    for axis in axes:
        out = np.take(out, np.where(known, order, 0), axis=axis)
        np.moveaxis(out, axis, 0)[~known] = 0.0
    return out
