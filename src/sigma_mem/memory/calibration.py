"""From decayed sums to probabilities: p̂ with its prior, and its interval."""

from __future__ import annotations

import numpy as np

from sigma_mem.events import FloatArray

__all__ = ["calibrated", "overall", "wilson"]


def calibrated(
    score: FloatArray, effective: FloatArray, prior: FloatArray | float, strength: float
) -> FloatArray:
    """Decayed kernel estimate of the probability of being right.

    p̂ = (½(score + effective) + a)/(effective + a + b),  a = strength·prior, b = strength·(1 − prior),

    where score = φᵀM_pφ/η sums c ∈ [−1, 1] and effective = φᵀN_pφ/η sums 1 over the same events.

    >>> import numpy as np
    >>> calibrated(np.array([6.0]), np.array([10.0]), 0.5, 4.0).round(3).tolist()
    [0.714]
    """
    p: FloatArray = score + effective
    p *= 0.5
    p += strength * prior
    p /= effective + strength
    return p


def overall(total: FloatArray, labels: FloatArray, prior: float, strength: float) -> FloatArray:
    """Every peer's rate of being right over all tasks, shrunk towards the rate of the whole pool.

    This is the prior of p̂: near a φ where little was seen a peer is taken to be as good as it is
    overall, and a peer of which little was seen to be as good as the pool.

    Parameters
    ----------
    total, labels : array (..., P)
        tr M_p/η and tr N_p/η: decayed sums of c and of 1 over all labels.
    prior : float
        Rate of a pool of which nothing is known; worth two labels.

    >>> import numpy as np
    >>> overall(np.array([8.0, 0.0]), np.array([8.0, 0.0]), 0.5, 5.0).round(3).tolist()
    [0.962, 0.9]
    """
    pool = np.add.reduce(labels, axis=-1, keepdims=True)
    right = 0.5 * (np.add.reduce(total, axis=-1, keepdims=True) + pool)
    return calibrated(total, labels, (right + 2.0 * prior) / (pool + 2.0), strength)


def wilson(p: FloatArray, n: FloatArray, z: float) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of a rate p seen in n (effective) observations.

    >>> import numpy as np
    >>> low, high = wilson(np.array([0.5]), np.array([100.0]), 1.96)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.404], [0.596])
    """
    z2 = z * z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * np.sqrt(np.maximum(p * (1 - p), 0.0) / n + z2 / (4 * n * n))
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
