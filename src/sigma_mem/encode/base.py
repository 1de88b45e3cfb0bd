"""What an encoder is: text to unit vectors, under a name and version that are never reused for other φ.

`HashedEncoder` is the simplest one: it needs only numpy.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray

ENCODERS = ("static", "hashed", "minilm", "sentence")


class Encoder(Protocol):
    """Turns questions into competence directions φ.

    A memory records name and version, and refuses another encoder: φ of two encoders do not mix.
    """

    @property
    def name(self) -> str:
        """Which encoder."""

    @property
    def version(self) -> str:
        """Changes whenever the φ of some text changes."""

    @property
    def rank(self) -> int:
        """Dimension of φ."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text: float64, shape (n, rank), rows of norm 1."""


def norms(rows: FloatArray) -> FloatArray:
    """The norm of every row, shape (n, 1): bit for bit `numpy.linalg.norm`, in a third of its time."""
    out: FloatArray = np.sqrt(np.add.reduce(rows * rows, axis=-1, keepdims=True))
    return out


def unit(rows: FloatArray) -> FloatArray:
    """Rows divided by their norms."""
    return rows / norms(rows)


def root_softmax(logits: FloatArray) -> FloatArray:
    """√softmax of every row, of norm 1; shifted by the maximum so that nothing overflows."""
    return unit(np.exp(0.5 * (logits - np.maximum.reduce(logits, axis=1, keepdims=True))))


def open_encoder(name: str) -> Encoder:
    """The encoder of this name; its weights load when it first encodes."""
    from sigma_mem.encode.minilm import MiniLMEncoder
    from sigma_mem.encode.sentence import SentenceEncoder
    from sigma_mem.encode.static import StaticEncoder

    kinds: dict[str, Callable[[], Encoder]] = {
        "static": StaticEncoder,
        "hashed": HashedEncoder,
        "minilm": MiniLMEncoder,
        "sentence": SentenceEncoder,
    }
    if name not in kinds:
        expected = ", ".join(map(repr, ENCODERS))
        raise InputError(f"encoder is {name!r}; expected {expected}, a callable or an Encoder object")
    return kinds[name]()


def as_texts(texts: Sequence[str]) -> list[str]:
    """The texts, with what UTF-8 cannot hold (lone surrogates) replaced; InputError for anything but text."""
    if isinstance(texts, str | bytes):
        raise InputError(f"texts are one {type(texts).__name__}; expected a list of str, such as [question]")
    known = list(texts)
    for place, text in enumerate(known):
        if not isinstance(text, str):
            kind = type(text).__name__
            remedy = ": decode it first" if isinstance(text, bytes) else ""
            raise InputError(f"text {place} is of type {kind}; expected str{remedy}")
        if not text.isascii():
            known[place] = text.encode("utf-8", "replace").decode("utf-8")
    return known


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
