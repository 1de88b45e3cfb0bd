"""Which of several claims about a peer to believe: the horizons' and the local one, mixed by how they did.

What p̂ at φ would be by one horizon alone, or by what was seen at φ lately, is its claim (`horizons`). A
ledger keeps what was claimed at a decision; labels score it, and the mixture follows the decayed
log-likelihood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.calibration import probability
from sigma_mem.memory.decayed import DecayedSum, add_rows
from sigma_mem.memory.horizons import bounded

BATCH = 16  # scored events after which the weights of the horizons are brought up to date
_SLOWER = 3.0  # a horizon is three times as likely beforehand as the next faster one
_LOCAL = 0.1  # and the local claim a tenth as likely as the slowest one
_SURE = 0.2  # and is left out of p̂ below this weight, so that its noise costs nothing where nothing changed


def fast_horizon(n_horizons: int) -> int:
    """The horizon at which M and N are kept beside the slowest one: 0.99 of the default four."""
    return max(0, n_horizons - 3)


def rounded(near: FloatArray, overall: FloatArray, local: FloatArray) -> NDArray[np.float16]:
    """What a ledger keeps of the claims, (P, H + 2): near, over and local.

    Claims are scored as rounded, so that live and replay agree.
    """
    out = np.empty((*near.shape, overall.shape[-1] + 2))
    out[..., 0], out[..., 1:-1], out[..., -1] = near, overall, local
    return out.astype(np.float16)  # one conversion: each takes longer than copying


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
        self.weights = mixture(np.zeros(n_claims))
        self._waiting: list[tuple[NDArray[np.float16], FloatArray, FloatArray, float]] = []

    @property
    def weights(self) -> FloatArray:
        """u of every claim, (H + 1,)."""
        return self._weights

    @weights.setter
    def weights(self, weights: FloatArray) -> None:
        self._weights = weights
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
        self.weights = mixture(self.decayed.value("likelihood", now).sum(axis=0))

    def take(self, order: Sequence[int]) -> Mixing:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out = Mixing(len(order), len(self.weights), self.decayed.rate)
        out.decayed = self.decayed.take(order, {"likelihood": [0]})
        out.weights = self.weights
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
        self.weights = packed["weights"].copy()
        n_peers, n_claims = self.decayed.arrays["likelihood"].shape
        self._waiting = []
        for row in packed["waiting"].reshape(-1, (n_claims + 3) * n_peers + 1):
            parts, c, weight = np.split(row[:-1], [-2 * n_peers, -n_peers])
            recorded = parts.reshape(n_peers, -1).astype(np.float16)
            self._waiting.append((recorded, c.copy(), weight.copy(), float(row[-1])))
