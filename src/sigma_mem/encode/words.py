"""Words as features: which stems a text holds, weighted by how rare they were where the table was made.

A mean of token vectors says what a text is about in 256 numbers; the words themselves say it more
sharply once there are some thousand labelled texts to learn their weights from. A stem is the first
six letters of a word; every number is one stem, and so is every other sign. Stems are kept as 32-bit
checksums: a table holds no text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray

_MAX_CHARACTERS = 8192  # of a text, as of the token vectors
_PIECE = re.compile(r"[^\W\d_]+|\d+|[^\w\s]|_")


def stems(text: str) -> list[str]:
    """Stems of a text, in order.

    >>> stems("Integrate x^2 from 0 to 15.")
    ['integr', 'x', '^', '0', 'from', '0', 'to', '0', '.']
    """
    pieces = _PIECE.findall(text[:_MAX_CHARACTERS].lower())
    return ["0" if piece[0].isdigit() else piece[:6] for piece in pieces]


class Words:
    """A table of stems (``keys``: their checksums) and weights; gives every text a sparse row of norm 1.

    >>> words = Words.of(["the court ruled", "the court", "the matrix"], least=2)
    >>> len(words.keys), words.dot(["the the"], np.ones((2, 1))).round(2).tolist()
    (2, [[1.0]])
    """

    def __init__(self, keys: FloatArray, idf: FloatArray) -> None:
        self.keys = keys
        self.idf = idf
        self._place = {int(key): i for i, key in enumerate(keys.tolist())}

    @classmethod
    def of(cls, texts: Sequence[str], least: int = 2) -> Words:
        """The stems that occur in `least` texts or more, weighted 1 + log((1 + n)/(1 + texts with it))."""
        occurs: Counter[int] = Counter()
        for text in texts:
            occurs.update(_counts(text).keys())
        keys = sorted(key for key, n in occurs.items() if n >= least)
        found = np.array([occurs[key] for key in keys], dtype=np.float64)
        return cls(np.array(keys, dtype=np.float64), 1.0 + np.log((1.0 + len(texts)) / (1.0 + found)))

    def row(self, text: str) -> tuple[NDArray[np.intp], FloatArray]:
        """Places and values of the stems of a text: (1 + log count)·idf, scaled to norm 1."""
        known = [(self._place[key], n) for key, n in _counts(text).items() if key in self._place]
        places = np.array([place for place, _ in known], dtype=np.intp)
        values = (1.0 + np.log([float(n) for _, n in known])) * self.idf[places]
        return places, values / max(float(np.linalg.norm(values)), 1e-12)

    def dot(self, texts: Sequence[str], table: FloatArray) -> FloatArray:
        """Rows times a table (V, k); zero for a text without a known stem."""
        out = np.zeros((len(texts), table.shape[1]))
        for total, text in zip(out, texts, strict=True):
            places, values = self.row(text)
            total[:] = values @ table[places]
        return out


def _counts(text: str) -> Counter[int]:
    return Counter(crc32(stem.encode()) for stem in stems(text))
