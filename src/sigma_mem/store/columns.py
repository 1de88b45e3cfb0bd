"""Values of many packed bodies of one shape at once: a column of numbers for every value of the shape."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.store.numbers import UNITS
from sigma_mem.store.shapes import AGAIN, BASE64, DOUBLE, INTEGER, LONG, NUMBER, Shape

Positions = NDArray[np.int64]
_SIZES = np.array([1] * 64 + [2] * 104 + [3] * 64 + [2 + i % 8 for i in range(24)])  # of codes, by first byte


class Columns(NamedTuple):
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
        sizes = np.array([len(body) for body in bodies])
        self.at: Positions = np.concatenate(([0], np.cumsum(sizes)[:-1])) + at

    def take(self, size: int) -> NDArray[np.uint8]:
        """So many bytes of every body."""
        found: NDArray[np.uint8] = self.bytes[self.at[:, None] + np.arange(size)]
        self.at = self.at + size
        return found

    def read(self) -> tuple[Positions, NDArray[np.bool_]]:
        """n of the next code of every body, and whether it counts whole numbers; see `numbers`."""
        first = self.bytes[self.at].astype(np.int64)
        whole, most = first < 64, int(first.max(initial=0))
        n = first - 16
        if most >= 64:
            n = np.where(whole, n, ((first - 64) << 8) + self.bytes[self.at + 1] - 8_312)
        if most >= 168:
            (three,) = (first >= 168).nonzero()
            at = self.at[three]
            second, third = (self.bytes[at + k].astype(np.int64) for k in (1, 2))
            n[three] = ((first[three] - 168) << 16) + (second << 8) + third - 2_097_152
        if most >= 232:
            (wide,) = (first >= 232).nonzero()
            n[wide] = self._wide(self.at[wide], (first[wide] - 232) % 8 + 1)
            whole[wide] = first[wide] < 240
        self.at = self.at + _SIZES[first]
        return n, whole

    def _wide(self, at: Positions, sizes: Positions) -> Positions:
        out = np.zeros(len(at), dtype=np.uint64)
        for k in range(int(sizes.max())):
            byte = self.bytes[at + 1 + k].astype(np.uint64)
            out |= np.where(sizes > k, byte << np.uint64(8 * k), np.uint64(0))
        unused = (64 - 8 * sizes).astype(np.int64)
        signed: Positions = (out << unused.astype(np.uint64)).view(np.int64) >> unused
        return signed


def read_columns(shape: Shape, bodies: Sequence[bytes], at: int, texts: dict[bytes, int]) -> Columns:
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
            n, whole = codes.read()
            numbers.append(np.where(whole, n, n / UNITS))
        elif mark == INTEGER[0]:
            numbers.append(codes.read()[0].astype(np.float64))
        elif mark == BASE64[0]:
            sizes = codes.read()[0]
            equal = bool((sizes == sizes[0]).all())
            raw[place] = codes.take(int(sizes[0])) if equal else None
            if not equal:
                codes.at = codes.at + sizes
            numbers.append(nothing)
        else:
            numbers.append(_texts(codes, texts))
    return Columns(numbers, raw)


def _texts(codes: _Codes, texts: dict[bytes, int]) -> FloatArray:
    """Numbers of the next strings."""
    out = codes.read()[0].astype(np.float64)
    (here,) = (out == 0.0).nonzero()
    if len(here):
        at = codes.at
        codes.at = at[here]
        sizes = codes.read()[0]
        starts, short = codes.at, np.where(sizes < LONG, sizes, 0)
        codes.at = at
        codes.at[here] = starts + short
        raw = codes.bytes
        for body, start, size in zip(here.tolist(), starts.tolist(), short.tolist(), strict=True):
            if size:
                out[body] = texts.setdefault(raw[start : start + size].tobytes(), -1 - len(texts))
    return out
