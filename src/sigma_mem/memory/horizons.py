"""A peer's overall rate at several decay rates at once, and which of them predicts best now.

One γ fits no stream: real models change under their names. M and N are kept at the slowest rate; here are,
for every rate, the sums that need no direction:

    tot_g,p = Σ γ_g^age c_p,   n_g,p = Σ γ_g^age,   and the level at which agreement becomes correctness.

A claim of horizon g is what p̂ would be if the overall rate were that of g:

    claim_g = (φᵀM_pφ/η + s·prior_p)/(φᵀN_pφ/η + s) + over_g,p − over_slow,p.

p̂ mixes the claims with weights u ∝ u0·exp(L), L the decayed log-likelihood of every horizon's earlier claims,
over the pool. With one horizon and without agreement this is the estimate of version 0.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.calibration import probability, shrunk_mean
from sigma_mem.memory.decayed import DecayedSum

_SLOWER = 3.0  # a horizon is three times as likely beforehand as the next faster one
_MOST = 0.97  # bound of a claimed mean label: the log-likelihood of a surprise stays finite
_BELIEVED = 50.0  # labelled events at which agreement's deviation counts half
_ROWS = 5  # of what an event contributes


def contribution(c: FloatArray, agreement: FloatArray, departed: FloatArray | float = 0.0) -> FloatArray:
    """What labels add to every horizon, (..., 5, P): c, 1, c − a, its share of the event, and without a.

    The level counts events, not labels: each of n labelled peers has the share 1/n. A peer without
    agreement (NaN) adds c to the third row, and its share to the last one.

    Parameters
    ----------
    c, agreement : array (..., P)
    departed : array (..., 1)
        How many labels of the event belong to peers that have left the pool.

    >>> contribution(np.array([1.0, -1.0]), np.array([0.5, np.nan])).tolist()
    [[1.0, -1.0], [1.0, 1.0], [0.25, -0.5], [0.5, 0.5], [0.0, 0.5]]
    """
    seen = (c == c).astype(np.float64)  # NaN differs from itself
    share = seen / np.maximum(seen.sum(axis=-1, keepdims=True) + departed, 1.0)
    alone = agreement != agreement
    label = np.where(seen > 0.0, c, 0.0)
    beyond = share * (label - np.where(alone, 0.0, agreement))
    return np.stack((label, seen, beyond, share, share * alone), axis=-2)


def shift(sums: FloatArray, pool: FloatArray, strength: float) -> FloatArray:
    """D_g: how much more often peers are right than they agree, (..., H, 1).

    Parameters
    ----------
    sums : array (..., H, 5, P)
        Decayed sums of contributions.
    pool : array (..., 1)
        The pool's mean agreement: what is compared with where an event has labels only.
    """
    beyond, events, alone = np.moveaxis(sums[..., 2:, :].sum(axis=-1, keepdims=True), -2, 0)
    out: FloatArray = (beyond - alone * pool[..., None, :]) / (events + strength)
    return out


def overall_means(sums: FloatArray, level: FloatArray, strength: float) -> FloatArray:
    """over_g,p: every peer's mean label at every horizon, (..., H, P), shrunk to `level`."""
    return shrunk_mean(sums[..., 0, :], sums[..., 1, :], level, strength)


def with_deviation(overall: FloatArray, deviation: FloatArray, labelled: FloatArray | float) -> FloatArray:
    """The prior of a mean label at φ, (..., P): overall, moved by agreement's deviation there.

    Where peers agree is believed less the more events are labelled, (..., 1): labels know better.
    """
    believed = _BELIEVED / (_BELIEVED + labelled)
    prior: FloatArray = np.clip(overall[..., -1, :] + believed * deviation, -_MOST, _MOST)
    return prior


def labelled_events(sums: FloatArray) -> FloatArray:
    """Decayed number of labelled events at the slowest horizon, (..., 1)."""
    events: FloatArray = sums[..., -1, 3, :].sum(axis=-1, keepdims=True)
    return events


def claims(near: FloatArray, overall: FloatArray) -> FloatArray:
    """p̂ by every horizon, (..., H, P).

    Parameters
    ----------
    near : array (..., P)
        The mean label at φ, with the slowest horizon as its prior.
    overall : array (..., H, P)
        over_g,p, the slowest horizon last.
    """
    if overall.shape[-2] == 1:
        return probability(near)[..., None, :]
    mean = near[..., None, :] + overall - overall[..., -1:, :]
    return probability(np.clip(mean, -_MOST, _MOST))


def rounded(claimed: FloatArray) -> NDArray[np.float16]:
    """Claims as a ledger keeps them. They are scored as rounded, so that live and replay agree."""
    return claimed.astype(np.float16)


def log_likelihood(claimed: FloatArray, c: FloatArray) -> FloatArray:
    """Of the labels, by every horizon's claims, (..., H, P); 0 where there is no label or was no claim."""
    r = 0.5 * (c[..., None, :] + 1.0)
    found = r * np.log(claimed) + (1.0 - r) * np.log1p(-claimed)
    out: FloatArray = np.where(found == found, found, 0.0)
    return out


def mixture(likelihood: FloatArray) -> FloatArray:
    """u: weight of every horizon, (..., H), from its decayed log-likelihood.

    >>> mixture(np.zeros(4)).round(3).tolist()
    [0.025, 0.075, 0.225, 0.675]
    """
    likely = likelihood + np.log(_SLOWER) * np.arange(likelihood.shape[-1])
    u: FloatArray = np.exp(likely - likely.max(axis=-1, keepdims=True))
    u /= u.sum(axis=-1, keepdims=True)
    return u


def mixed(weights: FloatArray, by_horizon: FloatArray) -> FloatArray:
    """Σ_g u_g·x_g, (..., P), term by term, so that equal peers get equal bits."""
    total: FloatArray = (weights[..., None] * by_horizon).sum(axis=-2)
    return total


class Horizons:
    """The sums of every horizon, the slowest last, and the log-likelihood of their claims.

    Examples
    --------
    A peer that was right for long and is wrong since ten events:

    >>> memory = Horizons(n_peers=1, rates=(0.05, 0.0005), mixing_rate=0.01)
    >>> for tick in range(210):
    ...     memory.write(contribution(np.array([1.0 if tick < 200 else -1.0]), np.array([np.nan])), tick)
    >>> total, labels = memory.sums(now=209)[:, :2, 0].T
    >>> (total / labels).round(2).tolist()
    [0.21, 0.9]
    """

    def __init__(self, n_peers: int, rates: Sequence[float], mixing_rate: float) -> None:
        self._sums = np.zeros((len(rates), _ROWS, n_peers))
        # Views of one block, so that all horizons are read at once.
        self.overall = [DecayedSum(rate, {"sums": self._sums[g]}) for g, rate in enumerate(rates)]
        # One horizon has nothing to mix: its sum stays empty, and its anchor where it is.
        self.mixing = DecayedSum(
            mixing_rate if len(rates) > 1 else 0.0, {"likelihood": np.zeros((len(rates), n_peers))}
        )

    def write(self, contributed: FloatArray, tick: float) -> None:
        """Add what an event contributes (for a correction, the difference)."""
        for decayed in self.overall:
            decayed.add("sums", contributed.copy(), tick)

    def score_claims(
        self, claimed: FloatArray, c: FloatArray, tick: float, replaces: FloatArray | None = None
    ) -> None:
        """Add how likely the labels were by what every horizon claimed at the decision, (H, P)."""
        likelihood = log_likelihood(claimed, c)
        if replaces is not None:
            likelihood -= log_likelihood(claimed, replaces)
        self.mixing.add("likelihood", likelihood, tick)

    def sums(self, now: float) -> FloatArray:
        """The sums of every horizon, (H, 5, P)."""
        factors = np.array([decayed.factor(now) for decayed in self.overall])
        sums: FloatArray = self._sums * factors[:, None, None]
        return sums

    def labelled_events(self, now: float) -> float:
        """Decayed number of labelled events at the slowest horizon."""
        return labelled_events(self._sums).item() * self.overall[-1].factor(now)

    def weights(self, now: float) -> FloatArray:
        """u of every horizon, (H,)."""
        return mixture(self.mixing.value("likelihood", now).sum(axis=1))

    def decayed(self) -> dict[str, DecayedSum]:
        """Every sum by name."""
        return {"mixing": self.mixing, **{f"horizon{g}": x for g, x in enumerate(self.overall)}}

    def take(self, order: Sequence[int]) -> Horizons:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out = Horizons(len(order), [x.rate for x in self.overall], self.mixing.rate)
        for mine, others in zip(self.decayed().values(), out.decayed().values(), strict=True):
            others.unpack(mine.take(order, {"sums": [1], "likelihood": [1]}).pack())
        return out

    def merge(self, other: Horizons, now: float) -> None:
        """Add what another memory of the same peers holds at `now`."""
        for mine, others in zip(self.decayed().values(), other.decayed().values(), strict=True):
            mine.merge(others, now)
