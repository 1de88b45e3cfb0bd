"""What an encoder is: text to unit vectors, under a name and version that are never reused for other φ."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray

ENCODERS = ("static", "hashed", "sentence")


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


def unit(rows: FloatArray) -> FloatArray:
    """Rows divided by their norms."""
    out: FloatArray = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return out


def root_softmax(logits: FloatArray) -> FloatArray:
    """√softmax of every row, of norm 1; shifted by the maximum so that nothing overflows."""
    return unit(np.exp(0.5 * (logits - logits.max(axis=1, keepdims=True))))


def open_encoder(name: str) -> Encoder:
    """The encoder of this name; its weights are loaded when it first encodes."""
    from sigma_mem.encode.hashed import HashedEncoder
    from sigma_mem.encode.sentence import SentenceEncoder
    from sigma_mem.encode.static import StaticEncoder

    if name == "static":
        return StaticEncoder()
    if name == "hashed":
        return HashedEncoder()
    if name == "sentence":
        return SentenceEncoder()
    raise InputError(f"encoder is {name!r}; expected {', '.join(map(repr, ENCODERS))} or an Encoder object")


def whitening(h: FloatArray, components: int) -> tuple[FloatArray, FloatArray]:
    """Mean (d,) and map (d, k) onto the leading principal directions of ``h`` (n, d), at variance 1.

    k is ``components``, or fewer where ``h`` does not vary in that many directions.
    """
    mean = h.mean(axis=0)
    _, spread, axes = np.linalg.svd(h - mean, full_matrices=False)
    k = min(components, int((spread > 1e-8 * spread[0]).sum()))
    return mean, axes[:k].T * (np.sqrt(len(h)) / spread[:k])
