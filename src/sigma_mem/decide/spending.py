"""Routes that weigh costs: p̂ − λ·cost, the cheapest peer that is good enough, and λ for a budget.

λ is what a unit of money is worth in probability of being right. With `value`, what a right answer is worth,
λ = 1/value. With a budget it is the dual variable of spending: the smallest λ ≥ 0 at which the recent
decisions would have cost, on average, no more than what is left per event. They are decided again for every λ
that is tried, so that λ needs no learning rate and follows at once when prices, peers or tasks change. If
spending jumps at λ, the two sides of the jump are mixed.
"""

from typing import NamedTuple

import numpy as np

from sigma_mem.decide.explore import chance_of_largest, normal_below
from sigma_mem.events import FloatArray
from sigma_mem.memory.reading import Reading

_STEPS = 24  # of the search for λ
_CLOSE = 1.002  # a ratio of two λ at which it ends
_POOLED = 5.0  # labels near φ that are worth as much as taking all tasks to be equally hard
_LOCAL = 20.0  # labels of a peer near φ that are worth as much as its overall rate
_POWER = 0.3  # by which errors are taken to fall with the price
_DOUBT = 4.0  # variances of its mean by which a rate must be away from that, to count half: two deviations
_SHIFTS = np.random.default_rng(11).standard_normal((256, 64))  # the same draws for every λ


class Multiplier(NamedTuple):
    """λ of a budget: `high` at which spending fits, `low` just before it jumps, taken with chance `mixed`."""

    low: float
    high: float
    mixed: float

    def at_least(self, floor: float) -> "Multiplier":
        """The same, but money is worth no less than this."""
        return Multiplier(max(self.low, floor), max(self.high, floor), self.mixed)


def budget_multiplier(mean: FloatArray, sd: FloatArray, cost: FloatArray, target: float) -> Multiplier:
    """The smallest λ at which these decisions would have cost `target` or less, on average.

    Parameters
    ----------
    mean, sd, cost : array (W, P)
        p̂ of recent decisions, how unsure it was (0 if nothing is explored), and what a call would cost;
        −inf as the mean of a peer that was not a candidate.

    Examples
    --------
    >>> mean, cost = np.array([[0.9, 0.6]] * 4), np.array([[1.0, 0.0]] * 4)
    >>> low, high, mixed = budget_multiplier(mean, np.zeros((4, 2)), cost, target=0.25)
    >>> round(high, 2), round(mixed, 2)
    (0.3, 0.25)
    """
    events, peers = np.arange(len(mean)), mean.shape[1]
    shifts = _SHIFTS[events % len(_SHIFTS)][:, np.arange(peers) % _SHIFTS.shape[1]]
    drawn = mean + sd * shifts

    def spent(multiplier: float) -> float:
        return float(cost[events, (drawn - multiplier * cost).argmax(axis=1)].mean())

    without = spent(0.0)
    priced = cost[cost > 0.0]
    if without <= target or not priced.size:
        return Multiplier(0.0, 0.0, 0.0)
    low, high = 1e-4 / priced.max(), 4.0 / priced.min()
    if spent(high) > target:  # the cheapest peers cost more than there is
        return Multiplier(high, high, 0.0)
    for _ in range(_STEPS):
        middle = float(np.sqrt(low * high))
        if spent(middle) > target:
            low = middle
        else:
            high = middle
        if high < _CLOSE * low:
            break
    more, less = spent(low), spent(high)
    mixed = 0.0 if more <= less else min(max((target - less) / (more - less), 0.0), 1.0)
    return Multiplier(low, high, mixed)


def chances_by_utility(mean: FloatArray, sd: FloatArray, cost: FloatArray, by: Multiplier) -> FloatArray:
    """Probability with which every peer is chosen for the largest p̂ − λ·cost, (P,); they sum to 1."""
    high = chance_of_largest(mean - by.high * cost, sd)
    if by.mixed == 0.0 or by.low == by.high:
        return high
    return by.mixed * chance_of_largest(mean - by.low * cost, sd) + (1.0 - by.mixed) * high


def chances_good_enough(mean: FloatArray, sd: FloatArray, cost: FloatArray, least: float) -> FloatArray:
    """Probability with which every peer is the cheapest with p̂ ≥ `least`; the best one if none is.

    >>> chances_good_enough(np.array([0.9, 0.8, 0.5]), np.zeros(3), np.array([3.0, 2.0, 1.0]), 0.75).tolist()
    [0.0, 1.0, 0.0]
    """
    failing = np.where(sd > 0.0, normal_below((least - mean) / np.maximum(sd, 1e-12)), mean < least)
    order = np.lexsort((-mean, cost))
    left = np.concatenate(([1.0], np.cumprod(failing[order])))
    chances = np.empty_like(mean)
    chances[order] = left[:-1] * (1.0 - failing[order])
    out: FloatArray = chances + left[-1] * chance_of_largest(mean, sd)
    out /= out.sum()
    return out


def exploring_mean(
    reading: Reading, eta: float, labels: FloatArray, price: FloatArray, variance: float
) -> FloatArray:
    """p̂ if only the chosen peer is labelled: peers are seen on different tasks, and some hardly ever.

    - A task that is hard is hard for all: the prior of a peer near φ is its overall rate, moved by how far
      all labels near φ, of any peer, are from the rates of their peers.
    - A peer's overall rate is drawn to what its price suggests, unless it differs from that significantly.

    Parameters
    ----------
    labels : array (P,)
        How many labels each peer has, decayed.
    price : array (P,)
        What a call costs by its price; 0 if there is none.
    variance : float
        Of a label around p̂.
    """
    overall, seen, total = reading.slowest, reading.effective, reading.score / eta
    harder = float((total - overall * seen).sum() / (seen.sum() + _POOLED))
    near = (total + _LOCAL * (overall + harder)) / (seen + _LOCAL)
    mean = 0.5 + 0.5 * (2.0 * reading.prob - 1.0 - reading.near + near)
    if (price > 0.0).all():
        rate = 0.5 + 0.5 * overall
        mean = mean + drawn_to_price(rate, labels, price, variance) - rate
    out: FloatArray = mean.clip(0.0, 1.0)
    return out


def drawn_to_price(rate: FloatArray, labels: FloatArray, price: FloatArray, variance: float) -> FloatArray:
    """Rates of peers, each drawn to 1 − e·price^−a as far as chance explains its distance from it.

    Errors tend to fall with the price by a power. The distance d of a rate, of which n labels are known,
    is scaled by max(0, 1 − k·variance/(n·d²)), as Stein's estimator does: to 0 if it may be chance, hardly at
    all if it is significant. The level e follows from the peers that are near the curve.

    Examples
    --------
    >>> few, many = np.array([3.0, 3.0]), np.array([3000.0, 3000.0])
    >>> rate, price = np.array([0.8, 0.7]), np.array([1.0, 10.0])
    >>> drawn_to_price(rate, few, price, 0.2).round(2).tolist()
    [0.62, 0.81]
    >>> drawn_to_price(rate, many, price, 0.2).round(2).tolist()
    [0.8, 0.7]
    """
    level = np.log(price)
    fall = np.exp(-_POWER * (level - level.mean()))
    noise = _DOUBT * variance / np.maximum(labels, 1e-9)
    kept = np.zeros(len(rate))
    for _ in range(3):
        weight = labels * (1.0 - kept)
        error = (float((weight * (1.0 - rate)).sum()) + 0.5) / (float((weight * fall).sum()) + 1.0)
        curve = 1.0 - np.minimum(error * fall, 1.0)
        away = rate - curve
        kept = np.maximum(0.0, 1.0 - noise / np.maximum(away * away, 1e-12))
    out: FloatArray = curve + kept * away
    return out


def exploring_sd(variance: float, labels: FloatArray) -> FloatArray:
    """How unsure the rate of every peer is: a third of the deviation of a mean of that many labels."""
    out: FloatArray = 0.3 * np.sqrt(variance / (np.abs(labels) + 1.0))
    return out
