"""A row of a table: what one mechanism chose at every event of a stream, how right it was, and the intervals.

The rows that see every label of the stream at once (expectations, ceilings and oracles, not mechanisms) are
here too. Each takes the labels c of a stream, (T, P), NaN if there is none, and which peers are present.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide.vote import group_answers
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

Present = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TableRow:
    """One mechanism on one stream."""

    chosen: NDArray[np.intp] | None  # the peer chosen at every event, −1 for nobody; None for a random peer
    correct: FloatArray  # how right it was, from 0 to 1; an expectation for a random peer and a majority
    selections: Mapping[str, int]  # how often each peer was chosen

    @property
    def accuracy(self) -> float:
        """Mean of ``correct``: with labels right and wrong, the share of events answered right."""
        return float(self.correct.mean()) if len(self.correct) else 0.0

    def at(self, places: Sequence[int]) -> TableRow:
        """The row on some of the events only."""
        index = np.asarray(places, dtype=np.intp)
        chosen = None if self.chosen is None else self.chosen[index]
        return row_of(chosen, self.correct[index], list(self.selections))


def row_of(chosen: NDArray[np.intp] | None, correct: FloatArray, peers: Sequence[str]) -> TableRow:
    """A row from its choices; selections of a random peer are spread evenly."""
    if chosen is None:
        share, rest = divmod(len(correct), len(peers))
        counts = [share + (i < rest) for i in range(len(peers))]
    else:
        counts = np.bincount(chosen[chosen >= 0], minlength=len(peers)).tolist()
    return TableRow(chosen, correct, dict(zip(peers, counts, strict=True)))


def successes(labels: FloatArray) -> FloatArray:
    """Labels c ∈ [−1, 1] as r ∈ [0, 1]: the share of a success; NaN stays NaN."""
    r: FloatArray = 0.5 * (labels + 1.0)
    return r


def correct_at(labels: FloatArray, chosen: NDArray[np.intp]) -> FloatArray:
    """How right the chosen peers were, from 0 to 1; nobody (−1) and a peer without a label count as wrong.

    >>> correct_at(np.array([[1.0, -1.0], [np.nan, 0.2], [1.0, 1.0]]), np.array([0, 1, -1])).tolist()
    [1.0, 0.6, 0.0]
    """
    r: FloatArray = np.nan_to_num(successes(labels))[np.arange(len(chosen)), chosen]
    return np.where(chosen >= 0, r, 0.0)


def present_peers(stream: Stream) -> Present:
    """Which peers can be chosen at every event, (T, P): those with an answer or a label."""
    rows = [[p in event.answers or p in event.correct for p in stream.peers] for event in stream]
    return np.array(rows, dtype=bool).reshape(len(stream), len(stream.peers))


def has_answers(stream: Stream) -> bool:
    """Whether any answer of the stream can be read; without one there is nothing to vote on."""
    return any(answer.canon is not None for event in stream for answer in event.answers.values())


def majority_correct(stream: Stream) -> FloatArray:
    """Expected rightness of the most frequent answer at every event; 0 if no answer can be read.

    Answers that tie for the lead share the event equally, so the order of the peers does not matter.
    """
    r = successes(stream.labels())
    out = np.zeros(len(stream))
    for t, canons in enumerate(stream.canons()):
        groups = group_answers(canons)
        counts = np.bincount(groups[groups >= 0])
        leading = np.flatnonzero(counts == counts.max(initial=1))
        known = [r[t, (groups == number) & ~np.isnan(r[t])] for number in leading]
        out[t] = np.mean([part.mean() if len(part) else 0.0 for part in known]) if known else 0.0
    return out


def best_fixed(labels: FloatArray, present: Present) -> NDArray[np.intp]:
    """At every event the present peer that is right most often over the whole stream."""
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
    """The most right of the peers present: the ceiling of every choice among these answers."""
    r = np.where(present, np.nan_to_num(successes(labels)), -1.0)
    return np.asarray(r.argmax(axis=1), dtype=np.intp)


def random_correct(labels: FloatArray, present: Present) -> FloatArray:
    """Expected rightness of a present peer chosen at random, at every event."""
    r = np.where(present, np.nan_to_num(successes(labels)), 0.0)
    mean: FloatArray = r.sum(axis=1) / np.maximum(present.sum(axis=1), 1)
    return mean


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
