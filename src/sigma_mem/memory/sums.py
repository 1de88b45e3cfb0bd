"""Decayed sums: everything a memory learns is one.

    Σ_s γ^(now − s) x_s

A sum is declared by its shape, the axes of it that run over peers, and its rate. What is done to all of them
alike (decay, other peers, a share, a merge, a snapshot) is done here, once.

Multiplying a sum by γ on every event would cost more than the event itself, so a sum is kept as of an anchor,

    Σ_s γ^(now − s) x_s  =  γ^(now − anchor) · Σ_s γ^(anchor − s) x_s,

where the right-hand sum does not depend on now: an event that nobody labels costs nothing, and a late label
adds exactly what the label on time would have added. Every peer has an anchor of its own, and the pool has
one; it moves on with their own contributions only. So what is known of a peer does not vanish in a long
pause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray

PEERS = -1  # in a shape: an axis that runs over peers
_FAR = 400.0  # halvings from an anchor to a contribution, beyond which the anchor moves
_MOST = 1000.0  # halvings that a float can hold
_TOGETHER = 8  # rows that BLAS computes in one way; a rest of fewer it would round in another


class Sum(NamedTuple):
    """What is summed.

    Attributes
    ----------
    shape : tuple of int
        Sizes; `PEERS` for an axis that runs over peers.
    rate : float, several, or None
        −log γ per tick; several run along the first axis. None for what is only kept next to the sums.
    together : bool
        Whether it belongs to the pool although one axis runs over peers.
    """

    shape: tuple[int, ...]
    rate: float | tuple[float, ...] | None
    together: bool = False


class Sums(dict[str, FloatArray]):
    """Declared sums of a pool of peers, by name.

    A sum with one axis of peers belongs to them one by one, unless it is kept `together`. Every other one
    belongs to the pool.

    Examples
    --------
    >>> sums = Sums(2, {"x": Sum((PEERS,), rate=math.log(2.0))})
    >>> sums.add("x", np.array([[8.0, 1.0]]), sums.weights(np.array([3.0]), np.ones(2)))
    >>> (sums["x"] * sums.factors("x", now=5.0)).tolist()
    [2.0, 0.25]
    """

    def __init__(self, n_peers: int, declared: Mapping[str, Sum]) -> None:
        super().__init__()
        self.n_peers = n_peers
        self.declared = dict(declared)
        self.anchors = np.zeros(n_peers + 1)  # ticks: of every peer, then of the pool
        self.blocks: dict[str, FloatArray] = {}  # all rows of an array, and some empty ones
        self._rates: dict[float, int] = {}
        self._fits: dict[str, NDArray[np.intp]] = {}  # places of a sum's weights, in a shape that fits it
        for name in self.declared:
            self._declare(name)
        self._tick, self._weights = math.nan, np.zeros((1, 0))  # of the last event that was written by itself
        self._far = False  # whether an anchor was then far behind
        self._halvings = np.array(list(self._rates))[:, None] / math.log(2.0)
        self._fastest = float(self._halvings.max())

    def _declare(self, name: str) -> None:
        shape, rate, together = self.declared[name]
        self._hold(name, np.zeros([self.n_peers if size == PEERS else size for size in shape]))
        if rate is None:
            return
        each = rate if isinstance(rate, tuple) else (rate,)
        rows = np.array([self._rates.setdefault(r, len(self._rates)) for r in each]) * (self.n_peers + 1)
        if shape.count(PEERS) == 1 and not together:
            axis = shape.index(PEERS)
            places = rows.reshape(-1, *[1] * (len(shape) - 1))
            peers = np.arange(self.n_peers).reshape([-1 if i == axis else 1 for i in range(len(shape))])
            self._fits[name] = places + peers
        else:
            self._fits[name] = (rows + self.n_peers).reshape(-1, *[1] * (len(shape) - 1))

    def _hold(self, name: str, values: FloatArray) -> None:
        """Keep an array in a block of whole rows, of which there are always as many as BLAS wants."""
        width = values.shape[-1] if values.ndim > 1 else 1
        rows = values.size // max(width, 1)
        block = np.zeros((-(-rows // _TOGETHER) * _TOGETHER, width))
        self.blocks[name] = block
        self[name] = block.reshape(-1)[: values.size].reshape(values.shape)
        self[name][...] = values

    # --- decay ---------------------------------------------------------------------------

    def weights(self, ticks: FloatArray, seen: FloatArray | None = None) -> FloatArray:
        """Factors of what events at these ticks contribute, by rate and owner, (events, rates·(P + 1)).

        `seen`, (P,), is not 0 for the peers of which there is anything to add; None if there are none.
        """
        one = len(ticks) == 1
        latest = ticks.item() if one else float(ticks.max())
        if one and latest == self._tick and (seen is None or not self._far):
            return self._weights  # all that one line contributes is of one moment
        since = latest - self.anchors
        self._far = self._fastest * float(since.max()) > _FAR
        if self._far:  # a peer of which nothing is added stays behind
            far = self._fastest * since > _FAR
            far[:-1] &= seen is not None and seen != 0.0
            if far.any():
                self._move(np.where(far, since, 0.0))
        halvings = self._halvings * (ticks[:, None, None] - self.anchors)
        if self._far:
            np.minimum(halvings, _MOST, out=halvings)
        out = np.exp2(halvings, out=halvings).reshape(len(ticks), -1)
        if one:
            self._tick, self._weights = latest, out
        return out

    def _move(self, by: FloatArray) -> None:
        """Move every anchor by so many ticks."""
        factors = np.exp2(-self._halvings * by).reshape(-1)
        for name, places in self._fits.items():
            self[name] *= factors[places]
        self.anchors += by
        self._tick = math.nan

    def add(self, name: str, contributions: FloatArray, weights: FloatArray) -> None:
        """Add what events contribute, (events, *shape), with their `weights`."""
        weighted = contributions * weights.take(self._fits[name], axis=1)
        self[name] += weighted[0] if len(weighted) == 1 else np.add.reduce(weighted)

    def weight_of(self, name: str, weights: FloatArray) -> FloatArray:
        """The `weights` of one sum, (events, …)."""
        return weights.take(self._fits[name], axis=1)

    def factors(self, name: str, now: float) -> FloatArray:
        """Factor by which a sum is multiplied to be as of `now`, in a shape that fits it."""
        out: FloatArray = np.exp2(self._halvings * (self.anchors - now)).reshape(-1)[self._fits[name]]
        return out

    def factor(self, rate: float, now: float) -> FloatArray:
        """Factor of the sums of every peer and of the pool at this rate, (P + 1,)."""
        out: FloatArray = np.exp2((rate / math.log(2.0)) * (self.anchors - now))
        return out

    # --- all of them alike ---------------------------------------------------------------

    def grow(self, name: str, rows: int) -> FloatArray:
        """The array, with room for this many rows along its first axis."""
        array = self[name]
        if len(array) < rows:
            larger = np.zeros((max(rows, len(array) * 3 // 2), *array.shape[1:]))
            larger[: len(array)] = array
            self._hold(name, larger)
        return self[name]

    def take(self, order: Sequence[int]) -> Sums:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out, places = Sums(len(order), self.declared), np.array(order, dtype=np.intp)
        for name, array in self.items():
            for axis, size in enumerate(self.declared[name].shape):
                if size == PEERS:
                    array = _taken(array, places, axis)
            out._hold(name, array)
        out.anchors = np.append(_taken(self.anchors[:-1], places, 0), self.anchors[-1])
        return out

    def scale(self, factors: FloatArray) -> None:
        """Keep a share of what is known of every peer, (P,); of what two have in common, both shares."""
        for name, array in self.items():
            shape = self.declared[name].shape
            for axis, size in enumerate(shape):
                if size == PEERS:
                    array *= factors.reshape([-1 if i == axis else 1 for i in range(len(shape))])

    def mix(self, shares: FloatArray) -> None:
        """Give every peer these shares, (P, P), of what is known of each by itself; its own on the diagonal.

        What two have in common is no one's to give: it keeps both shares, as in `scale`.
        """
        own, lent = np.diag(shares), []
        for to, of in np.argwhere(shares * ~np.eye(self.n_peers, dtype=np.bool_)).tolist():
            theirs = self.take([of if place == to else -1 for place in range(self.n_peers)])
            for name, declared in self.declared.items():
                if declared.shape.count(PEERS) != 1 or declared.together:
                    theirs[name][...] = 0.0
            theirs.scale(np.full(self.n_peers, shares[to, of]))
            lent.append(theirs)
        self.scale(own)
        for theirs in lent:
            self.merge(theirs)

    def merge(self, other: Sums) -> None:
        """Add the sums of another memory of the same peers; what is only kept next to sums stays."""
        later = np.maximum(self.anchors, other.anchors)
        mine, theirs = (
            np.exp2(self._halvings * (sums.anchors - later)).reshape(-1) for sums in (self, other)
        )
        for name, places in self._fits.items():
            array = self.grow(name, len(other[name])) if other[name].ndim > 1 else self[name]
            array *= mine[places]
            array[: len(other[name])] += other[name] * theirs[places]
        self.anchors, self._tick = later, math.nan

    def pack(self) -> dict[str, FloatArray]:
        """Everything, bit for bit, for a snapshot."""
        return {"anchors": self.anchors, **self}

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from what `pack` returned for the same peers."""
        self.anchors, self._tick = packed["anchors"].copy(), math.nan
        for name in self.declared:
            self._hold(name, packed[name])


def _taken(array: FloatArray, order: NDArray[np.intp], axis: int) -> FloatArray:
    if not array.shape[axis]:
        return np.zeros([len(order) if i == axis else n for i, n in enumerate(array.shape)])
    out = np.take(array, np.maximum(order, 0), axis=axis)
    np.moveaxis(out, axis, 0)[order < 0] = 0.0
    return out
