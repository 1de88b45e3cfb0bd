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

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.calibration import probability, shrunk_mean
from sigma_mem.memory.decayed import DecayedSum, add_rows

Number = TypeVar("Number", float, FloatArray)

BATCH = 16  # scored events after which the weights of the horizons are brought up to date
_SLOWER = 3.0  # a horizon is three times as likely beforehand as the next faster one
_LOCAL = 0.1  # and the local claim a tenth as likely as the slowest one
_SURE = 0.2  # and is left out of p̂ below this weight, so that its noise costs nothing where nothing changed
LEAST = 1e-200  # of a decay that is divided by
_MOST = 0.97  # bound of a claimed mean label: the log-likelihood of a surprise stays finite
_BELIEVED = 50.0  # labelled events at which agreement's deviation counts half


# --- overall rates -----------------------------------------------------------------------


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
    """A mean label, in place, kept from certainty."""
    np.minimum(mean, _MOST, out=mean)
    np.maximum(mean, -_MOST, out=mean)
    return mean


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
        self._sums += np.array([[decayed.weight(tick)] for decayed in self._decayed]) * row

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
        columns = np.column_stack((label, weight, beyond, events, alone))
        weights = np.column_stack([decayed.weights(ticks) for decayed in self._decayed])
        add_rows(self._sums, columns[:, :, None] * weights[:, None, :])

    def labels(self, now: float) -> tuple[FloatArray, FloatArray]:
        """tot and n of every peer, (P, H)."""
        factors = np.array([[[decayed.factor(now)]] for decayed in self._decayed])
        total, labels = (self._both * factors).transpose(1, 2, 0)
        return total, labels

    def means_by_pool(self, prior: float, prior_labels: float, strength: float, now: float) -> FloatArray:
        """over_g,p, (H, P), shrunk to the pool's mean label, and that to a prior worth `prior_labels`."""
        grown = []
        for (total, labels), decayed in zip(self._both.sum(axis=2).tolist(), self._decayed, strict=True):
            factor = max(decayed.factor(now), LEAST)
            own = strength / factor
            grown.append((own * shrunk_mean(total, labels, prior, prior_labels / factor), own))
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
        grown = []
        for (beyond, events, alone), decayed in zip(self._level.tolist(), self._decayed, strict=True):
            own = strength / max(decayed.factor(now), LEAST)
            grown.append((own * (pool + shift(beyond, events, alone, pool, own)), own))
        return self._means(grown, agreed)

    def _means(
        self, grown: Sequence[tuple[float, float]], differences: FloatArray | None = None
    ) -> FloatArray:
        """Means from the prior of every horizon, times its strength, and the strength.

        Sums stay undecayed and the strength grows: numerator and denominator share the factor.
        """
        prior = np.array(grown)[:, :, None]
        sums = self._both + prior
        means: FloatArray = sums[:, 0]
        if differences is not None:
            means += differences * prior[:, 1]
        means /= sums[:, 1]
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


# --- which claim to believe --------------------------------------------------------------


def fast_horizon(n_horizons: int) -> int:
    """The horizon at which M and N are kept beside the slowest one: 0.99 of the default four."""
    return max(0, n_horizons - 3)


def rounded(near: FloatArray, overall: FloatArray, local: FloatArray) -> NDArray[np.float16]:
    """What a ledger keeps of the claims, (P, H + 2): near, over and local.

    Claims are scored as rounded, so that live and replay agree.
    """
    out = np.empty((*near.shape, overall.shape[-1] + 2), dtype=np.float16)
    out[..., 0], out[..., 1:-1], out[..., -1] = near, overall, local
    return out


def with_local(recorded: NDArray[np.float16]) -> NDArray[np.float16]:
    """A line's claims without a local one, (P, H + 1), completed by the fast horizon's in its place.

    >>> with_local(np.array([[0.5, 0.25, 0.0]], dtype=np.float16)).tolist()
    [[0.5, 0.25, 0.0, 0.75]]
    """
    near, over = recorded[:, 0].astype(np.float64), recorded[:, 1:].astype(np.float64)
    return rounded(near, over, near + over[:, fast_horizon(over.shape[1])] - over[:, -1])


def claims(recorded: NDArray[np.float16]) -> FloatArray:
    """p̂ by every claim, (..., P, H + 1), from what a ledger keeps, (..., P, H + 2)."""
    claimed = recorded[..., 1:].astype(np.float64)
    claimed[..., :-1] += recorded[..., :1].astype(np.float64) - claimed[..., -2:-1]
    return probability(bounded(claimed))


def log_likelihood(claimed: FloatArray, c: FloatArray) -> FloatArray:
    """Of the labels, by every claim, (..., P, H + 1); 0 where there is no label or was no claim."""
    r = 0.5 * (c[..., None] + 1.0)
    found = r * np.log(claimed) + (1.0 - r) * np.log1p(-claimed)
    out: FloatArray = np.where(found == found, found, 0.0)
    return out


def mixture(likelihood: FloatArray) -> FloatArray:
    """u: weight of every claim, (..., H + 1), from its decayed log-likelihood.

    While the local claim is unsure, its weight is that of its prior, the fast horizon's claim.

    >>> mixture(np.zeros(5)).round(3).tolist()
    [0.023, 0.133, 0.211, 0.632, 0.0]
    """
    likely = likelihood + _prior(likelihood.shape[-1])
    u: FloatArray = np.exp(likely - likely.max(axis=-1, keepdims=True))
    u /= u.sum(axis=-1, keepdims=True)
    local, fast = u[..., -1], u[..., fast_horizon(u.shape[-1] - 1)]
    unsure = np.where(local < _SURE, local, 0.0)
    fast += unsure
    local -= unsure
    return u


@lru_cache
def _prior(n_claims: int) -> FloatArray:
    """How likely every claim is beforehand, as a logarithm."""
    slower = np.log(_SLOWER) * np.arange(n_claims - 1)
    return np.append(slower, slower[-1] + np.log(_LOCAL))


class Mixing:
    """The log-likelihood of every claim, and the weights (H + 1,) that follow from it.

    A scored event waits until there are `BATCH` of them, because sixteen cost little more than one. So
    the weights lag by a few labels; the sums do not, once `score_waiting` is called.
    """

    def __init__(self, n_peers: int, n_claims: int, rate: float) -> None:
        self.decayed = DecayedSum(rate, {"likelihood": np.zeros((n_peers, n_claims))})
        self._set_weights(mixture(np.zeros(n_claims)))
        self._waiting: list[tuple[NDArray[np.float16], FloatArray, FloatArray, float]] = []

    def _set_weights(self, weights: FloatArray) -> None:
        self.weights = weights
        self.local: float = weights.item(-1)  # of the local claim
        # Σ_g u_g·(over_g − over_slow), as weights of over_g, (H, 1)
        self.of_means: FloatArray = weights[:-1, None].copy()
        self.of_means[-1] = -np.add.reduce(weights[:-2])

    @property
    def slowest(self) -> float:
        """The weight of the slowest horizon's claim."""
        return self.weights.item(-2)

    def write(
        self, recorded: NDArray[np.float16], c: FloatArray, weight: FloatArray, tick: float, now: float
    ) -> None:
        """Take an event's labels, (P,), their weights, and what was claimed at the decision, (P, H + 2)."""
        if recorded.shape[1] == len(self.weights):  # of a line from before there was a local claim
            recorded = with_local(recorded)
        self._waiting.append((recorded, c, weight, tick))
        if len(self._waiting) == BATCH:
            self.score_waiting(now)

    def write_many(
        self,
        recorded: NDArray[np.float16],
        c: FloatArray,
        weight: FloatArray,
        ticks: Sequence[float],
        nows: Sequence[float],
    ) -> None:
        """Take events, a row each, one after another: bit for bit as `write` does."""
        at = 0
        while at < len(c) and (self._waiting or len(c) - at < BATCH):
            self.write(recorded[at], c[at], weight[at], ticks[at], nows[at])
            at += 1
        end = at + (len(c) - at) // BATCH * BATCH
        if end > at:
            here = slice(at, end)
            weighted = weight[here] * self.decayed.weights(ticks[here])[:, None]
            scored = weighted[:, :, None] * log_likelihood(claims(recorded[here]), c[here])
            blocks = scored.reshape(-1, BATCH, *scored.shape[1:])
            add_rows(self.decayed.arrays["likelihood"], np.add.accumulate(blocks, axis=1)[:, -1])
            self.weights = mixture(self.decayed.value("likelihood", nows[end - 1]).sum(axis=0))
        for i in range(end, len(c)):
            self.write(recorded[i], c[i], weight[i], ticks[i], nows[i])

    def score_waiting(self, now: float) -> None:
        """Add how likely the labels of waiting events were, and bring the weights up to date."""
        if self._waiting:
            recorded, c, weight, ticks = (np.array(x) for x in zip(*self._waiting, strict=True))
            weight = weight * np.array([[self.decayed.weight(tick)] for tick in ticks.tolist()])
            scored = weight[:, :, None] * log_likelihood(claims(recorded), c)
            self.decayed.arrays["likelihood"] += scored.sum(axis=0)
            self._waiting.clear()
        self._set_weights(mixture(self.decayed.value("likelihood", now).sum(axis=0)))

    def take(self, order: Sequence[int]) -> Mixing:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out = Mixing(len(order), len(self.weights), self.decayed.rate)
        out.decayed = self.decayed.take(order, {"likelihood": [0]})
        out._set_weights(self.weights)
        new = np.array(order) < 0
        for recorded, c, weight, tick in self._waiting:
            claimed, label = recorded[list(order)], c[list(order)]
            claimed[new], label[new] = np.nan, np.nan
            out._waiting.append((claimed, label, weight[list(order)], tick))
        return out

    def scale(self, factors: FloatArray) -> None:
        """Multiply what the claims about every peer were worth by a factor, (P,)."""
        self.decayed.arrays["likelihood"] *= factors[:, None]
        self._waiting = [(claims, c, weight * factors, tick) for claims, c, weight, tick in self._waiting]

    def merge(self, other: Mixing, now: float) -> None:
        """Add what another memory of the same peers holds at `now`."""
        for mixing in (other, self):
            mixing.score_waiting(now)
        self.decayed.merge(other.decayed, now)
        self.score_waiting(now)

    def pack(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        n_peers, n_claims = self.decayed.arrays["likelihood"].shape
        waiting = [
            np.concatenate((recorded.ravel().astype(np.float64), c, weight, [tick]))
            for recorded, c, weight, tick in self._waiting
        ]
        width = (n_claims + 3) * n_peers + 1
        return {
            **self.decayed.pack(),
            "weights": self.weights,
            "waiting": np.array(waiting).reshape(len(waiting), width),
        }

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from packed arrays."""
        self.decayed.unpack(packed)
        self._set_weights(packed["weights"].copy())
        n_peers, n_claims = self.decayed.arrays["likelihood"].shape
        self._waiting = []
        for row in packed["waiting"].reshape(-1, (n_claims + 3) * n_peers + 1):
            parts, c, weight = np.split(row[:-1], [-2 * n_peers, -n_peers])
            recorded = parts.reshape(n_peers, -1).astype(np.float16)
            self._waiting.append((recorded, c.copy(), weight.copy(), float(row[-1])))
