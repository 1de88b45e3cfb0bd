"""Rows that see every label of the stream at once: expectations, ceilings and oracles, not mechanisms.

Each takes the labels c of a stream, (T, P), NaN where there is none, and which peers are present where.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sigma_mem.bench.row import successes
from sigma_mem.events import FloatArray

Present = NDArray[np.bool_]


def best_fixed(labels: FloatArray, present: Present) -> NDArray[np.intp]:
    """At every event the present peer that is right most often over the whole stream.

    >>> labels = np.array([[1.0, -1.0], [-1.0, 1.0], [-1.0, 1.0]])
    >>> best_fixed(labels, np.array([[True, True], [True, False], [True, True]])).tolist()
    [1, 0, 1]
    """
    return domain_oracle(labels, [""] * len(labels), present)


def domain_oracle(labels: FloatArray, domains: Sequence[str], present: Present) -> NDArray[np.intp]:
    """At every event the present peer that is right most often in its domain (the paper's oracle reputation).

    >>> domain_oracle(np.array([[1.0, -1.0], [-1.0, 1.0]]), ["math", "law"], np.full((2, 2), True)).tolist()
    [0, 1]
    """
    names, which = np.unique(np.asarray(domains, dtype=str), return_inverse=True)
    r = successes(labels)
    wins, seen = np.zeros((2, len(names), labels.shape[1]))
    np.add.at(wins, which, np.nan_to_num(r))
    np.add.at(seen, which, ~np.isnan(r))
    rate = np.where(seen > 0, wins / np.maximum(seen, 1.0), -1.0)
    return np.asarray(np.where(present, rate[which], -2.0).argmax(axis=1), dtype=np.intp)


def any_right(labels: FloatArray, present: Present) -> NDArray[np.intp]:
    """The most right of the peers present: the ceiling of every choice among these answers.

    >>> any_right(np.array([[-1.0, 1.0], [-1.0, -1.0]]), np.full((2, 2), True)).tolist()
    [1, 0]
    """
    r = np.where(present, np.nan_to_num(successes(labels)), -1.0)
    return np.asarray(r.argmax(axis=1), dtype=np.intp)


def random_correct(labels: FloatArray, present: Present) -> FloatArray:
    """Expected rightness of a present peer chosen at random, at every event.

    >>> random_correct(np.array([[-1.0, 1.0], [np.nan, 1.0]]), np.array([[1, 1], [0, 1]]) > 0).tolist()
    [0.5, 1.0]
    """
    r = np.where(present, np.nan_to_num(successes(labels)), 0.0)
    mean: FloatArray = r.sum(axis=1) / np.maximum(present.sum(axis=1), 1)
    return mean
