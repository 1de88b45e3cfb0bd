"""Sums of φφᵀ: write events, and read the quadratic form xᵀAx, for many matrices at once.

The last few events are kept in a window, where a score needs only (φ·φ_s)² and a write only stores a row. A
full window is folded into the matrices by one product. Nothing is approximated, and a write costs less than
touching every matrix on every event.

A symmetric matrix takes half the room by its diagonals, wrapped around. Row d of a packed matrix A of rank r
belongs to the pairs (i, i + d mod r), and d runs up to r/2, so that every pair is there. An entry off the
main diagonal stands for itself and its mirror image, and is kept twice as large. At d = r/2 a pair would be
there twice, and the second entry is 0:

    xᵀAx = Σ_{d,i} packed(A)[d, i]·x_i·x_{i+d}
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.sums import Sum, Sums

_AT_ONCE = 64  # events whose products stay in the processor's cache
_ONE_THREAD = 1 << 18  # multiplications up to which OpenBLAS uses one thread; more wait for busy cores
WINDOW = 32  # events; folding costs the same per event at any size, a longer window slows reads


def kernel(name: str, shape: tuple[int, ...], rate: float | tuple[float, ...], rank: int) -> dict[str, Sum]:
    """Declare Σ coefficient·φφᵀ for coefficients of this shape: matrices, and the window before them."""
    return {
        name: Sum((*shape, packed_size(rank)), rate),
        f"{name}.recent": Sum((*shape, WINDOW), rate),
        f"{name}.phis": Sum((WINDOW, rank), None),
        f"{name}.filled": Sum((1,), None),
    }


def add_events(sums: Sums, name: str, phis: FloatArray, coefficients: FloatArray) -> None:
    """Add coefficient·φφᵀ of events: (events, rank), and (events, *shape) with their weights."""
    filled, n = int(sums[f"{name}.filled"].item()), len(phis)
    if filled + n > WINDOW:
        fold_window(sums, name)
        filled = 0
    if n > WINDOW:
        rows = np.zeros((len(sums.blocks[name]), n))
        rows[: coefficients[0].size] = coefficients.reshape(n, -1).T
        _add_products(sums, name, phis, rows)
        return
    sums[f"{name}.phis"][filled : filled + n] = phis
    recent = sums[f"{name}.recent"]
    if n == 1:
        recent[..., filled] = coefficients[0]
    else:
        recent[..., filled : filled + n] = np.moveaxis(coefficients, 0, -1)
    sums[f"{name}.filled"][0] = filled + n


def fold_window(sums: Sums, name: str) -> None:
    """Add the window to the matrices, and empty it."""
    filled = int(sums[f"{name}.filled"].item())
    if filled:
        recent = sums.blocks[f"{name}.recent"]
        _add_products(sums, name, sums[f"{name}.phis"][:filled], recent[:, :filled])
        recent[...] = 0.0  # what is left in the φ's no longer counts
        sums[f"{name}.filled"][0] = 0.0


def _add_products(sums: Sums, name: str, phis: FloatArray, rows: FloatArray) -> None:
    """Add what events contribute to all rows of the block, the empty ones included, (rows, events)."""
    _, scale = _places(phis.shape[1])
    block = sums.blocks[name]
    for start in range(0, len(phis), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        factors, products = rows[:, some], pair_products(phis[some])
        width = max(_ONE_THREAD // factors.size, 1)
        for left in range(0, len(scale), width):
            part = slice(left, left + width)
            block[:, part] += (factors @ products[:, part]) * scale[part]


def scores(sums: Sums, name: str, phi: FloatArray, pairs: FloatArray) -> FloatArray:
    """φᵀAφ of every matrix, as of the anchors, in the shape of the coefficients (eq:direct_m_score).

    `pairs` are the `pair_products` of φ.
    """
    # `dot` and not `@`: it costs a microsecond less per call, and this is the hot path.
    found = sums.blocks[name].dot(pairs)
    alignment = sums[f"{name}.phis"].dot(phi)
    alignment *= alignment
    found += sums.blocks[f"{name}.recent"].dot(alignment)
    shape = sums[name].shape[:-1]
    out: FloatArray = found[: sums[name].size // len(pairs)].reshape(shape)
    return out


def matrices(sums: Sums, name: str, place: int | tuple[int, ...], rank: int) -> FloatArray:
    """The matrices at a place along the leading axes, (..., rank, rank), as of the anchors."""
    phis = sums[f"{name}.phis"]
    recent = sums[f"{name}.recent"][place]
    half = np.matmul(phis.T * (0.5 * recent[..., None, :]), phis)
    # x + xᵀ is symmetric bit for bit, a product only up to rounding.
    out: FloatArray = unpack_symmetric(sums[name][place], rank) + (half + np.swapaxes(half, -1, -2))
    return out


def pair_products(x: FloatArray) -> FloatArray:
    """x_i·x_{i+d} of a vector, or of the rows of a matrix: by it a packed matrix is multiplied to give xᵀAx.

    >>> a, x = np.array([[1.0, 2.0], [2.0, 5.0]]), np.array([3.0, 4.0])
    >>> float(pack_symmetric(a) @ pair_products(x)), float(x @ a @ x)
    (137.0, 137.0)
    """
    rank = x.shape[-1]
    doubled = np.concatenate((x, x), axis=-1)
    # Row d starts d later: a view, as of `sliding_window_view`, at a tenth of its cost.
    if x.ndim == 1:
        shifted: FloatArray = np.ndarray((rank // 2 + 1, rank), np.float64, doubled, 0, (8, 8))
        return (shifted * x).ravel()
    shape = (len(x), rank // 2 + 1, rank)
    shifted = np.ndarray(shape, np.float64, doubled, 0, (16 * rank, 8, 8))
    return (shifted * x[:, None]).reshape(len(x), -1)


def packed_size(rank: int) -> int:
    """How many numbers a packed matrix has."""
    return rank * (rank // 2 + 1)


def pack_symmetric(matrix: FloatArray) -> FloatArray:
    """Packed matrices, (..., packed_size), of symmetric ones, (..., rank, rank); no bit is lost."""
    rank = matrix.shape[-1]
    places, scale = _places(rank)
    return matrix.reshape(*matrix.shape[:-2], rank * rank).take(places, axis=-1) * scale


def unpack_symmetric(packed: FloatArray, rank: int) -> FloatArray:
    """The matrices, (..., rank, rank), of packed ones: symmetric bit for bit."""
    places, scale = _unpacking(rank)
    return (packed.take(places, axis=-1) * scale).reshape(*packed.shape[:-1], rank, rank)


@lru_cache
def _places(rank: int) -> tuple[NDArray[np.intp], FloatArray]:
    """The place of every entry in a flat matrix, and how many times as large each is kept."""
    d, i = np.indices((rank // 2 + 1, rank))
    scale = np.where(d == 0, 1.0, np.where((2 * d == rank) & (2 * i >= rank), 0.0, 2.0))
    return (i * rank + (i + d) % rank).ravel(), scale.ravel()


@lru_cache
def _unpacking(rank: int) -> tuple[NDArray[np.intp], FloatArray]:
    """The place of every entry of a flat matrix in a packed one, and what to multiply it by."""
    places, scale = _places(rank)
    (kept,) = scale.nonzero()
    found = np.empty(rank * rank, dtype=np.intp)
    found[places[kept]] = found[places[kept] % rank * rank + places[kept] // rank] = kept
    return found, 1.0 / scale[found]
