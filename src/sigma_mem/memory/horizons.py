"""A peer's overall rate at several decay rates at once, and which of them predicts best now.

One γ fits no stream: real models change under their names. M and N are kept at the slowest rate and at a fast
one; `Horizons` keeps, for every rate, the sums that need no direction:

    tot_g,p = Σ γ_g^age c_p,   n_g,p = Σ γ_g^age,   and the level at which agreement becomes correctness.

From these follows over_g,p, a peer's mean label at horizon g. What p̂ at φ would be by horizon g alone is
its claim. A peer that changes at one kind of task only is seen by the last claim, which has M and N at the
fast rate; `Mixing` learns which one claims best:

    claim_g     = near_p + over_g,p − over_slow,p,   near_p = (φᵀM_pφ/η + s·prior_p)/(φᵀN_pφ/η + s),
    claim_local = local_p = (φᵀM_fast,pφ/η + s·claim_fast)/(φᵀN_fast,pφ/η + s),   (fast: g = `fast_horizon`)
    p̂           = Σ u·claim = near_p + Σ_g u_g·(over_g,p − over_slow,p) + u_local·(local_p − near_p),

with u ∝ u0·exp(L), L the decayed log-likelihood of earlier claims, over the pool. With one horizon and
without agreement this is the estimate of version 0.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.calibration import shrunk_mean
from sigma_mem.memory.decayed import DecayedSum, add_rows

Number = TypeVar("Number", float, FloatArray)

_MOST = 0.97  # bound of a claimed mean label: the log-likelihood of a surprise stays finite
_BELIEVED = 50.0  # labelled events at which agreement's deviation counts half


def contributions(c: FloatArray, agreement: FloatArray) -> FloatArray:
    """What the labels of every event add to every horizon, (..., 2P + 3): see `Horizons.write`.

    >>> contributions(np.array([1.0, -1.0]), np.array([0.5, np.nan])).tolist()
    [1.0, -1.0, 1.0, 1.0, -0.25, 1.0, 0.5]
    """
    there, alone = c == c, agreement != agreement  # NaN differs from itself
    label, seen = np.where(there, c, 0.0), there.astype(np.float64)
    share = seen / np.maximum(seen.sum(axis=-1, keepdims=True), 1.0)
    beyond = share * (label - np.where(alone, 0.0, agreement))
    level = [x.sum(axis=-1, keepdims=True) for x in (beyond, share, share * alone)]
    return np.concatenate((label, seen, *level), axis=-1)


def shift(beyond: Number, events: Number, alone: Number, pool: float | FloatArray, strength: float) -> Number:
    """D_g: how much more often peers are right than they agree, from the sums that belong to no peer.

    Parameters
    ----------
    pool : float or array
        The pool's mean agreement: what is compared with where an event has labels only.
    """
    return (beyond - alone * pool) / (events + strength)  # type: ignore[return-value]


def with_deviation(overall: FloatArray, deviation: FloatArray, labelled: FloatArray | float) -> FloatArray:
    """The prior of a mean label at φ, (..., P): overall, moved by agreement's deviation there.

    Where peers agree is believed less the more events are labelled, (..., 1): labels know better.
    """
    prior = overall + _BELIEVED / (_BELIEVED + labelled) * deviation
    return bounded(prior)


def bounded(mean: FloatArray) -> FloatArray:
    """A mean label, kept from certainty."""
    out: FloatArray = np.maximum(np.minimum(mean, _MOST), -_MOST)
    return out


class Horizons:
    """The sums of every horizon, the slowest last.

    Examples
    --------
    A peer that was right for long and is wrong since ten events:

    >>> memory = Horizons(n_peers=1, rates=(0.05, 0.0005))
    >>> for tick in range(210):
    ...     memory.write(np.array([1.0 if tick < 200 else -1.0]), np.ones(1), None, 1, tick)
    >>> total, labels = memory.labels(now=209)
    >>> (total / labels).round(2).tolist()
    [[0.21, 0.9]]
    """

    def __init__(self, n_peers: int, rates: Sequence[float]) -> None:
        # tot of every peer, n of every peer, and the level, by horizon: views of one block, so that all
        # horizons are read and written at once.
        self._sums = np.zeros((len(rates), 2 * n_peers + 3))
        self._both = self._sums[:, :-3].reshape(len(rates), 2, n_peers)
        self._level = self._sums[:, -3:]
        self._decayed = [
            DecayedSum(rate, {"labels": both, "level": level})
            for rate, both, level in zip(rates, self._both, self._level, strict=True)
        ]

    def write(
        self, label: FloatArray, weight: FloatArray, agreement: FloatArray | None, n: int, tick: float
    ) -> None:
        """Add an event's labels, and what says at which level agreement becomes correctness.

        The level counts events, not labels: each of n labelled peers has the share 1/n.

        Parameters
        ----------
        label, weight : array (P,)
            Labels times their weight, and the weights; 0 where there is no label.
        agreement : array (P,)
            Agreement labels, NaN where there is none; None for none at all.
        n : int
            Labelled peers of the event, also those that have left the pool.
        """
        labels, weights = label.tolist(), weight.tolist()
        beyond, events = sum(labels) / n, sum(weights) / n
        alone = events
        if agreement is not None:
            for a, w in zip(agreement.tolist(), weights, strict=True):
                if a == a:  # NaN differs from itself
                    beyond -= w * a / n
                    alone -= w / n
        row = np.array([*labels, *weights, beyond, events, alone])
        weight_of = np.array([decayed.weight(tick) for decayed in self._decayed])
        self._sums += weight_of[:, None].dot(row[None])  # quicker than `*`, and the same

    def write_many(
        self,
        label: FloatArray,
        weight: FloatArray,
        agreement: FloatArray,
        n: FloatArray,
        ticks: Sequence[float],
    ) -> None:
        """Add the labels of events, a row each, one after another: bit for bit as `write` does."""
        beyond = np.array([sum(row) for row in label.tolist()]) / n
        events = np.array([sum(row) for row in weight.tolist()]) / n
        alone = events
        for a, w in zip(agreement.T, weight.T, strict=True):
            there = a == a  # NaN differs from itself
            beyond = np.where(there, beyond - w * a / n, beyond)
            alone = np.where(there, alone - w / n, alone)
        rows = np.column_stack((label, weight, beyond, events, alone))
        weights = np.column_stack([decayed.weights(ticks) for decayed in self._decayed])
        add_rows(self._sums, weights[:, :, None] * rows[:, None, :])

    def labels(self, now: float) -> tuple[FloatArray, FloatArray]:
        """tot and n of every peer, (P, H)."""
        factors = np.array([[[decayed.factor(now)]] for decayed in self._decayed])
        total, labels = (self._both * factors).transpose(1, 2, 0)
        return total, labels

    def means_by_pool(self, prior: float, prior_labels: float, strength: float, now: float) -> FloatArray:
        """over_g,p, (H, P), shrunk to the pool's mean label, and that to a prior worth `prior_labels`."""
        grown: list[float] = []
        for (total, labels), decayed in zip(self._both.sum(axis=2).tolist(), self._decayed, strict=True):
            own, of_pool = decayed.grown(strength, now), decayed.grown(prior_labels, now)
            grown += own * shrunk_mean(total, labels, prior, of_pool), own
        return self._means(grown)

    def means_by_agreement(
        self, pool: float, agreed: FloatArray | None, strength: float, now: float
    ) -> FloatArray:
        """over_g,p, (H, P), shrunk to agreement at the level that labels have shown.

        Parameters
        ----------
        pool, agreed : float and array (P,)
            Mean agreement of the pool, and by how much each peer's is larger; None for by nothing.
        """
        grown: list[float] = []
        for (beyond, events, alone), decayed in zip(self._level.tolist(), self._decayed, strict=True):
            own = decayed.grown(strength, now)
            grown += own * (pool + shift(beyond, events, alone, pool, own)), own
        return self._means(grown, agreed)

    def _means(self, grown: Sequence[float], differences: FloatArray | None = None) -> FloatArray:
        """Means from, for every horizon in turn, its prior times the prior's grown strength, and this."""
        prior = np.array(grown).reshape(-1, 2, 1)
        sums = self._both + prior
        totals: FloatArray = sums[:, 0]
        if differences is not None:
            totals = totals + differences * prior[:, 1]
        means: FloatArray = totals / sums[:, 1]
        return means

    def labelled_events(self, now: float) -> float:
        """Decayed number of labelled events at the slowest horizon."""
        return self._sums.item(-2) * self._decayed[-1].factor(now)

    def decayed(self) -> dict[str, DecayedSum]:
        """Every sum by name."""
        return {f"horizon{g}": decayed for g, decayed in enumerate(self._decayed)}

    def take(self, order: Sequence[int]) -> Horizons:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out = Horizons(len(order), [decayed.rate for decayed in self._decayed])
        for mine, others in zip(self._decayed, out._decayed, strict=True):
            others.unpack(mine.take(order, {"labels": [1], "level": []}).pack())
        return out

    def scale(self, factors: FloatArray) -> None:
        """Multiply the sums of every peer by a factor, (P,); the level of agreement stays."""
        self._both *= factors

    def merge(self, other: Horizons, now: float) -> None:
        """Add what another memory of the same peers holds at `now`."""
        for mine, others in zip(self._decayed, other._decayed, strict=True):
            mine.merge(others, now)
