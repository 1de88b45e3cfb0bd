"""From decayed sums to probabilities: p̂ with its prior, and its interval."""

from __future__ import annotations

import numpy as np

from sigma_mem.events import FloatArray

__all__ = ["calibrated", "wilson"]


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
