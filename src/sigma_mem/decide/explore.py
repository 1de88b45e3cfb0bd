"""Exploring routes: if only the chosen peer is ever labelled, the others must be tried as well.

Thompson sampling: a peer is chosen as often as it is likely to be the best. p̂ is taken as normal with
standard deviation

    s = 0.25·√(p̂(1 − p̂)/(n + 1)),   n = how many labels of tasks like this one p̂ is worth now.

Less than the posterior's own: evidence is counted near one φ, while what is learned at others is shared, so
that the full width tries bad peers for too long (some tenths of a point on real streams).
"""

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide.read import Outcome
from sigma_mem.events import FloatArray
from sigma_mem.memory.reading import Reading

_WIDTH = 0.25
_ALL = slice(None)
_GRID = np.linspace(-4.0, 4.0, 65)  # standard deviations; the trapezoid rule is exact to 1e-4 there
_DENSITY = np.exp(-0.5 * _GRID**2)
_DENSITY /= _DENSITY.sum()


def explore(reading: Reading, rng: np.random.Generator, among: NDArray[np.intp] | slice = _ALL) -> Outcome:
    """Draw a peer, of those in `among`; its propensity is the probability of that draw.

    The index of the peer that is drawn counts along `among`.
    """
    prob = reading.prob[among]
    chances = propensities(prob, reading.observations[among])
    peer = int(np.searchsorted(chances.cumsum(), rng.random()).clip(0, len(chances) - 1))
    return Outcome("exploring-route", peer, float(prob[peer]), float(chances[peer]))


def propensities(prob: FloatArray, n: FloatArray) -> FloatArray:
    """Probability of every peer that its draw is the largest; they sum to 1.

    ∫ density of peer p at x · Π over the others of P(draw < x) dx, on a grid of 65 points.

    Parameters
    ----------
    prob, n : array (P,)

    Examples
    --------
    >>> propensities(np.array([0.6, 0.6]), np.array([10.0, 10.0])).tolist()
    [0.5, 0.5]
    >>> propensities(np.array([0.65, 0.6]), np.array([10.0, 1000.0])).round(2).tolist()
    [0.92, 0.08]
    """
    return chance_of_largest(prob, _WIDTH * np.sqrt(prob * (1.0 - prob) / (n + 1.0)))


def chance_of_largest(mean: FloatArray, sd: FloatArray) -> FloatArray:
    """Probability of every peer that its draw, normal with this mean and deviation, is the largest.

    Without any deviation it is the first of the largest means.

    >>> chance_of_largest(np.array([0.2, 0.4, 0.4]), np.zeros(3)).tolist()
    [0.0, 1.0, 0.0]
    """
    if not sd.any():
        certain: FloatArray = np.zeros(len(mean))
        certain[mean.argmax()] = 1.0
        return certain
    s = np.maximum(sd, 1e-9)
    x = mean[:, None] + s[:, None] * _GRID  # (P, grid)
    z = (x[:, None, :] - mean[None, :, None]) / s[None, :, None]  # of the x of one peer, in units of another
    below = normal_below(z)
    own = np.arange(len(mean))
    below[own, own] = 1.0
    chances: FloatArray = below.prod(axis=1) @ _DENSITY
    chances /= chances.sum()
    return chances


def normal_below(z: FloatArray) -> FloatArray:
    """Φ(z) to 1e-7 (Abramowitz and Stegun, 26.2.17); numpy has no erf."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    upper = series * np.exp(-0.5 * np.square(z)) / np.sqrt(2.0 * np.pi)
    out: FloatArray = np.where(z > 0.0, 1.0 - upper, upper)
    return out
