"""From decayed sums to probabilities: p̂ with its prior, and its interval.

p̂ is a mean of labels c ∈ [−1, 1], shrunk towards a prior, and mapped from [−1, 1] to [0, 1]: with the decayed
kernel sums score = φᵀM_pφ/η of c and effective = φᵀN_pφ/η of 1,

    p̂ = (½(score + effective) + a)/(effective + a + b),  a + b = strength, (a − b)/(a + b) = prior.

The prior is the peer's own mean over all tasks, shrunk towards the level of the pool (`horizons`).
"""

from typing import TypeVar

import numpy as np

from sigma_mem.events import FloatArray

Number = TypeVar("Number", float, FloatArray)


def shrunk_mean(total: Number, labels: Number, prior: float | FloatArray, strength: float) -> Number:
    """Mean of c over `labels` labels that sum to `total`, with a prior worth `strength` labels more.

    (total + strength·prior)/(labels + strength)

    >>> shrunk_mean(6.0, 10.0, prior=0.0, strength=4.0).__round__(3)
    0.429
    """
    # No step is made in place: on a few peers that takes numpy twice as long.
    return (total + prior * strength) / (labels + strength)  # type: ignore[return-value]


def probability(mean: FloatArray) -> FloatArray:
    """½(1 + mean): how often c = 1, where c is 1 or −1 with this mean."""
    return mean * 0.5 + 0.5


def pool_mean(total: FloatArray, labels: FloatArray, prior: float, prior_labels: float) -> FloatArray:
    """Mean label of the whole pool, (..., 1), from decayed sums of c and of labels, (..., P).

    Parameters
    ----------
    prior : float
        Rate of being right of a pool of which nothing is known; worth `prior_labels`.

    >>> import numpy as np
    >>> pool_mean(np.array([8.0, 0.0]), np.array([8.0, 0.0]), prior=0.5, prior_labels=2.0).tolist()
    [0.8]
    """
    all_total, all_labels = total.sum(axis=-1, keepdims=True), labels.sum(axis=-1, keepdims=True)
    return shrunk_mean(all_total, all_labels, 2.0 * prior - 1.0, prior_labels)


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
