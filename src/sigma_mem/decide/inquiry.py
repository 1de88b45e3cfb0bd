"""Whether a judge is worth asking: the chance that its verdict would turn a wrong choice into a right one.

The numbers are those by which a panel asks on (`panel`): the truth is drawn 128 times from the posterior of
the answers so far, at half of its log-odds. A judge of power d gives the true answer log-odds d² more than
the others, with noise of deviation d on every answer: two normal distributions, as its verdicts are read.
"""

from functools import lru_cache

import numpy as np

from sigma_mem.decide.panel import TEMPERATURE
from sigma_mem.events import FloatArray

_DRAWS = 128
LEAST_GAIN = 0.002  # in probability: less is not worth a free call's time


def judge_gain(totals: FloatArray, alternatives: float, power: float) -> float:
    """By how much the chance of a right choice grows if a judge of this power is asked.

    Parameters
    ----------
    totals : array (answers,)
        What every answer weighs.
    alternatives : float
        K − 1, the effective number of wrong answers that compete.

    Examples
    --------
    >>> even, sure = np.array([1.0, 1.0]), np.array([9.0, 0.0])
    >>> [judge_gain(totals, 1.0, 1.5) > 0.1 for totals in (even, sure)]
    [True, False]
    >>> judge_gain(even, 1.0, 0.0)
    0.0
    """
    if len(totals) < 2 or power <= 0.0:
        return 0.0
    unseen = max(alternatives + 1.0 - len(totals), 0.0)
    log_odds = np.append(TEMPERATURE * totals, np.log(unseen) if unseen else -np.inf)
    odds = np.exp(log_odds - log_odds.max())
    odds /= odds.sum()
    uniform, noise = _drawn(len(totals))
    truth = np.searchsorted(odds.cumsum(), uniform).clip(max=len(totals))
    said = power * noise
    there = truth < len(totals)
    said[there, truth[there]] += power * power
    chosen = (TEMPERATURE * totals + said).argmax(axis=1)
    before = int(totals.argmax())
    return float(((chosen == truth).mean() - (truth == before).mean()).clip(min=0.0))


@lru_cache
def _drawn(n_answers: int) -> tuple[FloatArray, FloatArray]:
    """The same numbers every time, so that a decision can be made again."""
    rng = np.random.default_rng(0)
    return rng.random(_DRAWS), rng.standard_normal((_DRAWS, n_answers))
