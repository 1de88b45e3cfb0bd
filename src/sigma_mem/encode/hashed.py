"""Hashed words and character trigrams: an encoder that needs nothing but numpy."""

import re
import zlib
from collections.abc import Sequence

import numpy as np

from sigma_mem.encode.base import as_texts, unit
from sigma_mem.events import FloatArray

_WORD = re.compile(r"\w+|[^\w\s]")


class HashedEncoder:
    """Signed hashing of words into rank − 1 coordinates, and the constant one.

    >>> HashedEncoder().encode(["What is 2 + 2?"]).shape
    (1, 64)
    """

    name = "hashed"
    version = "1"

    def __init__(self, rank: int = 64) -> None:
        self.rank = rank

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text."""
        known = as_texts(texts)
        rows = np.zeros((len(known), self.rank))
        for row, text in zip(rows, known, strict=True):
            for word in _WORD.findall(text.lower()):
                code = zlib.crc32(word.encode())
                row[code % (self.rank - 1)] += 1.0 if code & 0x80000000 else -1.0
            row /= np.linalg.norm(row) or 1.0
        rows[:, -1] = 1.0
        return unit(rows)
