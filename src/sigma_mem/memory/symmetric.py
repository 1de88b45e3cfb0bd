"""Symmetric matrices in half the room: by their diagonals, wrapped around.

Row d of a packed matrix A of rank r belongs to the pairs (i, i + d mod r), and d runs up to r/2, so that
every pair is there. An entry off the main diagonal stands for itself and its mirror image, and is kept twice
as large; where d = r/2 a pair would be there twice, and the second entry is 0:

    xᵀAx = Σ_{d,i} packed(A)[d, i]·x_i·x_{i+d}
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray


def packed_size(rank: int) -> int:
    """How many numbers a packed matrix has."""
    return rank * (rank // 2 + 1)


def pair_products(x: FloatArray) -> FloatArray:
    """x_i·x_{i+d}, by which a packed matrix is multiplied to give xᵀAx.

    >>> a, x = np.array([[1.0, 2.0], [2.0, 5.0]]), np.array([3.0, 4.0])
    >>> float(pack_symmetric(a) @ pair_products(x)), float(x @ a @ x)
    (137.0, 137.0)
    """
    doubled = np.concatenate((x, x))
    # Row d starts d later: a view, as of `sliding_window_view`, at a tenth of its cost.
    shifted: FloatArray = np.ndarray((len(x) // 2 + 1, len(x)), np.float64, doubled, 0, (8, 8))
    return (shifted * x).ravel()


def pack_symmetric(matrices: FloatArray) -> FloatArray:
    """Packed matrices, (..., packed_size), of symmetric ones, (..., rank, rank); no bit is lost."""
    rank = matrices.shape[-1]
    places, scale = _places(rank)
    return matrices.reshape(*matrices.shape[:-2], rank * rank).take(places, axis=-1) * scale


def unpack_symmetric(packed: FloatArray, rank: int) -> FloatArray:
    """The matrices, (..., rank, rank), of packed ones: symmetric bit for bit."""
    places, scale = _places(rank)
    (kept,) = scale.nonzero()
    at, mirrored = places[kept], places[kept] % rank * rank + places[kept] // rank
    flat = np.empty((*packed.shape[:-1], rank * rank))
    flat[..., at] = flat[..., mirrored] = packed[..., kept] / scale[kept]
    return flat.reshape(*packed.shape[:-1], rank, rank)


@lru_cache
def _places(rank: int) -> tuple[NDArray[np.intp], FloatArray]:
    """Where the entries stand in a flat matrix, and how many times as large each is kept."""
    d, i = np.indices((rank // 2 + 1, rank))
    scale = np.where(d == 0, 1.0, np.where((2 * d == rank) & (2 * i >= rank), 0.0, 2.0))
    return (i * rank + (i + d) % rank).ravel(), scale.ravel()
