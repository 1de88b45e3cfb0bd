"""What an encoder is: text to unit vectors, under a name and a version that never change meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sigma_mem.events import FloatArray

__all__ = ["Encoder", "unit", "whitening"]


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


def whitening(h: FloatArray, components: int) -> tuple[FloatArray, FloatArray]:
    """Mean (d,) and map (d, k) onto the leading principal directions of ``h`` (n, d), at variance 1.

    k is ``components``, or fewer where ``h`` does not vary in that many directions.

    >>> import numpy as np
    >>> mean, whiten = whitening(np.array([[1.0, 5.0], [3.0, 5.0]]), 2)
    >>> np.abs((np.array([[3.0, 5.0]]) - mean) @ whiten).tolist()
    [[1.0]]
    """
    mean = h.mean(axis=0)
    _, spread, axes = np.linalg.svd(h - mean, full_matrices=False)
    k = min(components, int((spread > 1e-8 * spread[0]).sum()))
    return mean, axes[:k].T * (np.sqrt(len(h)) / spread[:k])
