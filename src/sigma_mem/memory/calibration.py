"""From decayed sums to probabilities: p̂ with its prior, and its interval.

p̂ is a mean of labels c ∈ [−1, 1], shrunk towards a prior, and mapped from [−1, 1] to [0, 1].
The prior is the peer's own mean over all tasks, shrunk towards that of the whole pool.
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
    mean: Number = total + strength * prior  # type: ignore[assignment]
    mean /= labels + strength
    return mean


def probability(mean: FloatArray) -> FloatArray:
    """½(1 + mean): how often c = 1, where c is 1 or −1 with this mean."""
    p = 0.5 * mean
    p += 0.5
    return p


def mean_overall(
    total: FloatArray,
    labels: FloatArray,
    prior: float,
    strength: float,
    one: float = 1.0,
    prior_labels: float = 2.0,
) -> FloatArray:
    """Every peer's mean label over all tasks, shrunk towards the mean of the whole pool.

    This is the prior of p̂: near a φ where little was seen a peer is taken to be as good as it is
    overall, and a peer of which little was seen to be as good as the pool.

    Parameters
    ----------
    total, labels : array (..., P)
        tr M_p/η and tr N_p/η: decayed sums of c and of 1 over all labels.
    prior : float
        Rate of being right of a pool of which nothing is known; worth `prior_labels`.
    one : float
        What a label given now counts in the sums, if they are not kept as of now.

    >>> import numpy as np
    >>> probability(mean_overall(np.array([8.0, 0.0]), np.array([8.0, 0.0]), 0.5, 5.0)).round(3).tolist()
    [0.962, 0.9]
    """
    nothing, worth = 2.0 * prior - 1.0, prior_labels * one
    if total.ndim == 1:  # floats: a microsecond each less than arrays of one number
        pool = shrunk_mean(sum(total.tolist()), sum(labels.tolist()), nothing, worth)
        return shrunk_mean(total, labels, pool, strength * one)
    all_total, all_labels = total.sum(axis=-1, keepdims=True), labels.sum(axis=-1, keepdims=True)
    return shrunk_mean(total, labels, shrunk_mean(all_total, all_labels, nothing, worth), strength * one)


def calibrated(score: FloatArray, effective: FloatArray, prior: FloatArray, strength: float) -> FloatArray:
    """Decayed kernel estimate p̂ of the probability of being right.

    p̂ = (½(score + effective) + a)/(effective + a + b),  a + b = strength, (a − b)/(a + b) = prior,

    where score = φᵀM_pφ/η sums c ∈ [−1, 1], effective = φᵀN_pφ/η sums 1 over the same events, and
    prior ∈ [−1, 1] is a mean label.

    >>> import numpy as np
    >>> calibrated(np.array([6.0]), np.array([10.0]), np.array([0.0]), 4.0).round(3).tolist()
    [0.714]
    """
    p = score + strength * prior
    p /= 2.0 * (effective + strength)
    p += 0.5
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
