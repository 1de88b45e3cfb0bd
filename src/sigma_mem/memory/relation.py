"""Relation G: who is right and wrong together, relative to the rest of the pool.

    q_p = c_p − mean of c over the labelled peers           (eq:sigma_centered_correctness)
    G′  = γ_G G + η_G qqᵀ,  diag G′ = 1                      (eq:sigma_topology_update)

Only the block of the labelled peers is written; with fewer than two of them the event only
decays. G is symmetric with unit diagonal, but not positive semidefinite in general: Weyl's
bound holds for E = G′ − γ_G G off the reset diagonal.
"""

from __future__ import annotations

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.sums import PEERS, Sum


def relation_sum(rate: float) -> Sum:
    """Declare Σ qqᵀ."""
    return Sum((PEERS, PEERS), rate)


def centred(c: FloatArray) -> FloatArray:
    """q of events, (T, P): c minus its mean over the labelled peers, 0 for the unlabelled (NaN).

    All 0 if fewer than two peers are labelled.

    >>> centred(np.array([[1.0, np.nan, -1.0, -1.0]])).round(3).tolist()
    [[1.333, 0.0, -0.667, -0.667]]
    """
    seen = c == c  # NaN differs from itself
    labels = np.add.reduce(seen, axis=1, keepdims=True)
    known = np.where(seen, c, 0.0)
    mean = np.add.reduce(known, axis=1, keepdims=True) / np.maximum(labels, 1)
    return np.where(seen & (labels > 1), known - mean, 0.0)


def relation_rows(q: FloatArray, sign: FloatArray) -> FloatArray:
    """qqᵀ of events, (T, P, P), each with its sign, (T,): symmetric bit for bit."""
    rows: FloatArray = q[:, :, None] * q[:, None, :]
    rows *= sign[:, None, None]
    return rows


def relation_matrix(total: FloatArray, step: float) -> FloatArray:
    """G, (P, P), from Σ qqᵀ and η_G times its decay: symmetric, diagonal 1.

    >>> q = centred(np.array([[1.0, 1.0, -1.0]]))
    >>> relation_matrix(relation_rows(q, np.ones(1))[0], 0.9).round(2).tolist()
    [[1.0, 0.4, -0.8], [0.4, 1.0, -0.8], [-0.8, -0.8, 1.0]]
    """
    g: FloatArray = step * total
    g.reshape(-1)[:: len(g) + 1] = 1.0  # the diagonal
    return g
