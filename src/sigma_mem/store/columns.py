"""Values of many packed bodies of one shape at once: a column of numbers for every value of the shape."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.store.numbers import UNITS
from sigma_mem.store.shapes import AGAIN, BASE64, DOUBLE, INTEGER, LONG, NUMBER, Shape

Positions = NDArray[np.int64]
# Of codes, by their first two bytes.
_FIRST = np.arange(1 << 16) >> 8
_THREE, _WIDE = 168 << 8, 232 << 8  # codes from which on more than two bytes count
_SIZES = np.array([1] * 64 + [2] * 104 + [3] * 64 + [2 + i % 8 for i in range(24)])[_FIRST]
_WHOLE = (_FIRST < 64) | ((_FIRST >= 232) & (_FIRST < 240))
_NUMBERS = np.where(_FIRST < 64, _FIRST - 16, np.arange(1 << 16) - (64 << 8) - 8_312)
_DECIMALS = np.where(_WHOLE, _NUMBERS, _NUMBERS / UNITS)


class ShapeColumns(NamedTuple):
    """What bodies of one shape hold, in the order of its marks.

    Attributes
    ----------
    numbers : a column for every value that is a number, (bodies,); strings have their numbers there: those of
        words from 1, and from −1 down those that stand in the bodies themselves; 0 for long ones
    raw : bytes of every value that is base64, (bodies, size); None where sizes differ
    """

    numbers: list[FloatArray]
    raw: dict[int, NDArray[np.uint8] | None]


class _Codes:
    """A place in each of many bodies, from which codes are read."""

    def __init__(self, bodies: Sequence[bytes], at: int) -> None:
        self.bytes = np.frombuffer(b"".join(bodies) + bytes(16), np.uint8)
        self._pairs = (self.bytes[:-1].astype(np.uint16) << 8) | self.bytes[1:]  # at every place, two bytes
        sizes = np.array([len(body) for body in bodies])
        self.at: Positions = np.concatenate(([0], np.cumsum(sizes)[:-1])) + at
        self._before = self.at  # of the code that was read last

    def take(self, size: int) -> NDArray[np.uint8]:
        """So many bytes of every body."""
        found: NDArray[np.uint8] = self.bytes[self.at[:, None] + np.arange(size)]
        self.at = self.at + size
        return found

    def integers(self) -> Positions:
        """n of the next code of every body; see `numbers`."""
        two = self._next()
        n = _NUMBERS[two]
        (longer,) = (two >= _THREE).nonzero()
        if len(longer):
            n[longer] = self._longer(longer, two[longer])
        return n

    def decimals(self) -> FloatArray:
        """The number that the next code of every body stands for."""
        two = self._next()
        found = _DECIMALS[two]
        (longer,) = (two >= _THREE).nonzero()
        if len(longer):
            n = self._longer(longer, two[longer])
            found[longer] = np.where(_WHOLE[two[longer]], n, n / UNITS)
        return found

    def _next(self) -> Positions:
        """The first two bytes of the next code of every body."""
        two = self._pairs[self.at].astype(np.int64)
        self._before, self.at = self.at, self.at + _SIZES[two]
        return two

    def _longer(self, bodies: Positions, two: Positions) -> Positions:
        """n of those codes that have more than two bytes."""
        at = self._before[bodies]
        n: Positions = (two << 8) - (168 << 16) + self.bytes[at + 2] - 2_097_152
        (wide,) = (two >= _WIDE).nonzero()
        if len(wide):
            n[wide] = self._wide(at[wide], ((two[wide] >> 8) - 232) % 8 + 1)
        return n

    def _wide(self, at: Positions, sizes: Positions) -> Positions:
        out = np.zeros(len(at), dtype=np.uint64)
        for k in range(int(sizes.max())):
            byte = self.bytes[at + 1 + k].astype(np.uint64)
            out |= np.where(sizes > k, byte << np.uint64(8 * k), np.uint64(0))
        unused = (64 - 8 * sizes).astype(np.int64)
        signed: Positions = (out << unused.astype(np.uint64)).view(np.int64) >> unused
        return signed


def read_columns(shape: Shape, bodies: Sequence[bytes], at: int, texts: dict[bytes, int]) -> ShapeColumns:
    """The values of packed bodies of one shape, whose values begin at `at`.

    Parameters
    ----------
    texts : dict
        Strings that stand in bodies themselves, and their numbers from −1 down; it grows.
    """
    codes = _Codes(bodies, at)
    doubles = codes.take(shape.doubles.size).view("<f8").T
    numbers: list[FloatArray] = []
    raw: dict[int, NDArray[np.uint8] | None] = {}
    double, nothing = 0, np.zeros(len(bodies))
    for place, mark in enumerate(shape.marks):
        if mark == DOUBLE[0]:
            numbers.append(doubles[double])
            double += 1
        elif mark == AGAIN[0]:
            numbers.append(doubles[double - 1])
        elif mark == NUMBER[0]:
            numbers.append(codes.decimals())
        elif mark == INTEGER[0]:
            numbers.append(codes.integers().astype(np.float64))
        elif mark == BASE64[0]:
            sizes = codes.integers()
            equal = bool((sizes == sizes[0]).all())
            raw[place] = codes.take(int(sizes[0])) if equal else None
            if not equal:
                codes.at = codes.at + sizes
            numbers.append(nothing)
        else:
            numbers.append(_texts(codes, texts))
    return ShapeColumns(numbers, raw)


def _texts(codes: _Codes, texts: dict[bytes, int]) -> FloatArray:
    """Numbers of the next strings."""
    out = codes.integers().astype(np.float64)
    (here,) = (out == 0.0).nonzero()
    if len(here):
        at = codes.at
        codes.at = at[here]
        sizes = codes.integers()
        starts, short = codes.at, np.where(sizes < LONG, sizes, 0)
        codes.at = at
        codes.at[here] = starts + short
        raw = codes.bytes
        for body, start, size in zip(here.tolist(), starts.tolist(), short.tolist(), strict=True):
            if size:
                out[body] = texts.setdefault(raw[start : start + size].tobytes(), -1 - len(texts))
    return out
