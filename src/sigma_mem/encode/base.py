"""What an encoder is: text to unit vectors, under a name and a version that never change meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sigma_mem.events import FloatArray

__all__ = ["Encoder", "unit"]


class Encoder(Protocol):
    """Turns questions into competence directions φ.

    A memory records name and version, and refuses another encoder: φ of two encoders do not mix.
    """

    @property
    def name(self) -> str:
        """Which encoder."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever the φ of some text changes."""
        ...

    @property
    def rank(self) -> int:
        """Dimension of φ."""
        ...

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text: float64, shape (n, rank), rows of norm 1."""
        ...


def unit(rows: FloatArray) -> FloatArray:
    """Rows divided by their norms.

    >>> import numpy as np
    >>> unit(np.array([[3.0, 4.0]])).tolist()
    [[0.6, 0.8]]
    """
    out: FloatArray = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return out
