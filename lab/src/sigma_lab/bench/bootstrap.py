"""Paired bootstrap: the same resampled events for every mechanism, so that differences are paired."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sigma_mem.events import FloatArray


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over events with its 95 % interval, and the paired difference to a reference."""

    mean: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float


def intervals(
    correct: Mapping[str, FloatArray], reference: str, resamples: int = 1000, seed: int = 0
) -> dict[str, Interval]:
    """Intervals of every mechanism's accuracy, from how right it was at each event, and of its difference."""
    names = list(correct)
    values = np.column_stack([correct[name] for name in names])  # (T, mechanisms)
    n = len(values)
    rng = np.random.default_rng(seed)
    # How often each event is drawn is all that a resampled mean needs: one product for all mechanisms.
    means = np.empty((resamples, len(names)))
    for start in range(0, resamples, 100):
        draws = rng.integers(n, size=(min(100, resamples - start), n))
        counts = np.stack([np.bincount(row, minlength=n) for row in draws])
        means[start : start + len(draws)] = counts @ values / n
    at = names.index(reference)
    paired = means - means[:, [at]]
    mean = values.mean(axis=0)
    # One row per mechanism, in the order of the fields of `Interval`.
    columns = (mean, *np.quantile(means, [0.025, 0.975], axis=0))
    columns += (mean - mean[at], *np.quantile(paired, [0.025, 0.975], axis=0))
    return dict(zip(names, (Interval(*row) for row in np.array(columns).T.tolist()), strict=True))
