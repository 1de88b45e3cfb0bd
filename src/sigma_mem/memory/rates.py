"""p̂ apart from φ: how often a peer is right lately and over its whole record, and which claim to believe.

What is not observed does not change a mean. Decay takes weight from evidence, so a mean is a ratio of two
sums that decay alike, and the strength of its prior is compared with the number of labels as of the peer's
last label, not as of now. With w = γ^age,

    total = Σ w·c,   n = Σ w,   fresh = Σ w / Σ w²,

fresh·n is the effective number of labels (Kish), and it is the same before and after a pause. The same sums
without `fresh` count how much is known now, and only intervals and exploration look at those.

A peer's rate is kept at several horizons γ_g and over its whole life. With mean_g = total_g/n_g,

    rate_g = rate_{g+1} + (mean_g − mean_{g+1})·fresh_g·n_g/(fresh_g·n_g + s),

so that a fast horizon without recent labels says what the next slower one says, and labels that both have
seen count once. The rate over the whole life is shrunk to the level of the pool, moved by how much more often
than others the peer agrees with them.

A claim is what p̂ would be by one estimator alone. Which estimator and which horizon to believe is learned for
every peer from the decayed log-likelihood of its labels by the claims that were recorded at decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.decayed import DecayedSum

Number = TypeVar("Number", float, FloatArray)

_MOST = 0.97  # bound of a claimed mean label: the log-likelihood of a surprise stays finite
_LEAST = 1e-13  # of Σw²: less is what rounding leaves of labels that were taken back
_NO_VALUES = np.zeros((0, 1))
_NEWCOMER = 0.5  # peers that the prior rate of an unknown pool is worth, at `prior_labels` = 2
_OTHERS = 2.0  # log-odds by which the claims about others may move those about a peer, at most
_SLOWER = 3.0  # a horizon is three times as likely beforehand as the next faster one
_LOCAL = 0.1  # and the local claim a tenth as likely as the slowest one
_SURE = 0.2  # below this weight the local claim is left out, so that its noise costs nothing
_REGRESSION = 0.05  # odds of the regression against the kernel mean beforehand


def shrunk_mean(total: Number, labels: Number, prior: float | FloatArray, strength: float) -> Number:
    """Mean of c over `labels` labels that sum to `total`, with a prior worth `strength` labels more.

    >>> shrunk_mean(6.0, 10.0, prior=0.0, strength=4.0).__round__(3)
    0.429
    """
    # No step is made in place: on a few peers that takes numpy twice as long.
    return (total + prior * strength) / (labels + strength)  # type: ignore[return-value]


def probability(mean: FloatArray) -> FloatArray:
    """½(1 + mean): how often c = 1, where c is 1 or −1 with this mean."""
    return mean * 0.5 + 0.5


def bounded(mean: FloatArray) -> FloatArray:
    """A mean label, kept from certainty."""
    out: FloatArray = np.maximum(np.minimum(mean, _MOST), -_MOST)
    return out


def fast_horizon(n_horizons: int) -> int:
    """The horizon at which M and N are kept beside the slowest one: 0.99 of the default four."""
    return max(0, n_horizons - 3)


def log_likelihood(claims: FloatArray, c: FloatArray) -> FloatArray:
    """Of labels c, (..., P), by claimed mean labels, (..., P, K); 0 where there is no label or no claim."""
    claimed = probability(claims)
    r = 0.5 * (c[..., None] + 1.0)
    found = r * np.log(claimed) + (1.0 - r) * np.log1p(-claimed)
    out: FloatArray = np.where(found == found, found, 0.0)  # NaN differs from itself
    return out


class Counts:
    """Sums of values and of weights, each as of the last contribution to it: means that do not age.

    Parameters
    ----------
    n_values : int
        Values that are summed.
    rates : sequence of float
        −log γ per tick, at each of which everything is summed.
    n : int
        Peers, or whatever contributes for itself.

    Examples
    --------
    >>> counts = Counts(1, [0.05], n=1)
    >>> for tick in range(10):
    ...     counts.add(np.array([[1.0]]), np.array([1.0]), float(tick))
    >>> counts.effective().round(2).tolist()
    [[9.8]]
    """

    def __init__(self, n_values: int, rates: Sequence[float], n: int) -> None:
        self.rates = np.array(rates, dtype=np.float64)[:, None]
        self.values = np.zeros((n_values, len(rates), n))
        self.counts = np.zeros((len(rates), n))  # Σ w
        self.squares = np.zeros((len(rates), n))  # Σ w²
        self.at = np.zeros(n)  # tick of the last contribution

    def add(self, values: FloatArray, weight: FloatArray, tick: float) -> None:
        """Add an event's values times weight, (values, n), and the weights, (n,); late ones count less."""
        passed = np.where(weight != 0.0, tick - self.at, 0.0)
        late = np.minimum(passed, 0.0)
        passed = passed - late
        if passed.any():
            kept = np.exp(-self.rates * passed)
            self.values *= kept
            self.counts *= kept
            self.squares *= kept * kept
            self.at += passed
        new = np.exp(self.rates * late)
        self.values += values[:, None] * new
        self.counts += weight * new
        self.squares += weight * (new * new)

    def fresh(self) -> FloatArray:
        """Σ w / Σ w², (rates, n): by it sums become those of as many labels as they are worth."""
        known = self.squares > _LEAST
        return np.divide(self.counts, self.squares, out=np.zeros_like(self.counts), where=known)

    def effective(self) -> FloatArray:
        """(Σ w)²/Σ w², (rates, n): how many labels the sums are worth."""
        return np.maximum(self.counts, 0.0) * self.fresh()

    def factor(self, of: DecayedSum, rate: int = -1) -> FloatArray:
        """Factor by which undecayed sums of the same events become those of `effective` labels, (n,)."""
        out: FloatArray = self.fresh()[rate] * of.factors(self.at)
        return out

    def take(self, order: Sequence[int]) -> Counts:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out, places = Counts(len(self.values), self.rates[:, 0].tolist(), len(order)), np.array(order)
        for mine, copied in zip(self.pack().values(), out.pack().values(), strict=True):
            copied[...] = np.where(places < 0, 0.0, mine[..., places])
        return out

    def scale(self, factors: FloatArray) -> None:
        """Multiply the sums of every peer by a factor, (P,)."""
        for sums in (self.values, self.counts, self.squares):
            sums *= factors

    def merge(self, other: Counts, now: float = 0.0) -> None:
        """Add what another memory of the same peers holds, as of the later last contribution."""
        at = np.maximum(self.at, other.at)
        for name, mine, theirs in zip(("v", "c", "s"), self._sums(), other._sums(), strict=True):
            twice = 2.0 if name == "s" else 1.0
            mine *= np.exp(-twice * self.rates * (at - self.at))
            mine += theirs * np.exp(-twice * self.rates * (at - other.at))
        self.at = at

    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.values, self.counts, self.squares

    def pack(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        return {"values": self.values, "counts": self.counts, "squares": self.squares, "at": self.at}

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from packed arrays of the same sizes."""
        for name, array in self.pack().items():
            array[...] = packed[name].reshape(array.shape)


class RateReading(NamedTuple):
    """What does not depend on φ; the same from one label to the next."""

    rates: FloatArray  # mean label at every horizon, (H, P)
    slowest: FloatArray  # (P,)
    change: FloatArray  # Σ_g u_g·(rate_g − rate_slow), (P,)
    recent: FloatArray  # rate_fast − rate_slow, (P,)
    of_regression: FloatArray  # weight of the regression against the kernel mean, (P,)
    of_local: FloatArray  # weight of the local claim, (P,)
    horizons: FloatArray  # weight of every horizon and of the local claim, (P, H + 1)


class Rates:
    """Every peer's rate of being right at every horizon, and what its claims were worth.

    Parameters
    ----------
    rates : sequence of float
        −log γ of every horizon, the slowest last.
    n_claims : int
        Claims that are scored: none, or two estimators, followed by H + 1 horizons if there are several.
    mixing_rate : float
        At which it is forgotten how likely labels were by the claims.

    Examples
    --------
    A peer that was right for long and is wrong since ten events:

    >>> memory = Rates(n_peers=1, rates=(0.05, 0.0005), n_claims=0, mixing_rate=0.01)
    >>> for tick in range(210):
    ...     c = np.array([1.0 if tick < 200 else -1.0])
    ...     memory.write(c, np.ones(1), tick)
    >>> memory.read(np.zeros(1), strength=10.0).rates.round(2).tolist()
    [[0.34], [0.89]]
    """

    def __init__(self, n_peers: int, rates: Sequence[float], n_claims: int, mixing_rate: float) -> None:
        self.horizons = Counts(1, [*rates, 0.0], n_peers)  # the last one is the whole life
        self.claims = Counts(n_claims, [mixing_rate], n_peers)
        self.events = Counts(0, rates[-1:], 1)  # labelled events of the whole pool

    # --- write ---------------------------------------------------------------------------

    def write(self, label: FloatArray, weight: FloatArray, tick: float, event: float = 1.0) -> None:
        """Add the labels of an event.

        Parameters
        ----------
        label, weight : arrays (P,)
            Labels times their weight, and the weights; 0 where there is no label, negative to take back.
        event : float
            What the event counts as one, with the sign of the weights.
        """
        self.horizons.add(label[None], weight, tick)
        self.events.add(_NO_VALUES, np.array([event]), tick)

    def score(self, claims: NDArray[np.float16], c: FloatArray, weight: FloatArray, tick: float) -> None:
        """Add how likely labels, (P,), were by what was claimed at the decision, (P, K)."""
        found = weight[:, None] * log_likelihood(claims.astype(np.float64), c)
        self.claims.add(found.T, weight, tick)

    # --- read ----------------------------------------------------------------------------

    def read(
        self, moved: FloatArray, strength: float, prior: float = 0.0, prior_labels: float = 2.0
    ) -> RateReading:
        """Rates at every horizon, and the weight of every claim.

        Parameters
        ----------
        moved : array (P,)
            By how much agreement moves each peer's prior from the level of the pool.
        strength : float
            Labels that a prior is worth.
        prior, prior_labels : float
            Mean label of a pool of which nothing is known, and how firm that is.
        """
        labels, means = self.horizons.effective(), _means(self.horizons)
        level = self._level(means[-2], labels[-2], strength, prior, prior_labels)
        rates = np.empty((len(labels) - 1, labels.shape[1]))
        rate = shrunk_mean(means[-1] * labels[-1], labels[-1], level + moved, strength)
        for g in range(len(rates) - 1, -1, -1):
            away = (means[g] - means[g + 1]) * (labels[g] / (labels[g] + strength))
            rate = rates[g] = rate + np.where(labels[g] > 0.0, away, 0.0)
        rates = bounded(rates)
        rates.setflags(write=False)  # readings hand it out, and it is read again
        of_regression, weights = self._weights()
        slowest, away = rates[-1], rates - rates[-1]
        change = np.add.reduce(weights.T[:-1] * away)  # term by term, so that equal peers get equal bits
        recent = away[fast_horizon(len(rates))]
        return RateReading(rates, slowest, change, recent, of_regression, weights[:, -1], weights)

    def _level(
        self, means: FloatArray, labels: FloatArray, strength: float, prior: float, prior_labels: float
    ) -> float:
        """Mean label of the pool: a mean over peers, so that a peer that is asked more counts no more."""
        known = labels / (labels + strength)
        none = _NEWCOMER * prior_labels / 2.0
        return float((np.add.reduce(known * means) + none * prior) / (np.add.reduce(known) + none))

    def _weights(self) -> tuple[FloatArray, FloatArray]:
        """Weight of the regression, (P,), and of every horizon and the local claim, (P, H + 1)."""
        h, n = len(self.horizons.counts) - 1, self.horizons.counts.shape[1]
        of_regression, weights = np.zeros(n), np.zeros((n, h + 1))
        weights[:, -2] = 1.0
        likely = self._likelihood()
        estimators = likely.shape[1] % (h + 1) if h > 1 else likely.shape[1]  # two with a regression, or none
        if estimators:
            moved = _with_others(likely[:, :2], self.claims.counts[0] > 0.0, 0)
            of_regression = _softmax(moved + np.log([1.0, _REGRESSION]))[:, 1]
        if likely.shape[1] > estimators:
            slower = np.log(_SLOWER) * np.arange(h)
            prior = np.append(slower, slower[-1] + np.log(_LOCAL))
            weights = _softmax(_with_others(likely[:, estimators:], self.claims.counts[0] > 0.0, -2) + prior)
            unsure = np.where(weights[:, -1] < _SURE, weights[:, -1], 0.0)
            weights[:, fast_horizon(h)] += unsure
            weights[:, -1] -= unsure
        return of_regression, weights

    def _likelihood(self) -> FloatArray:
        """Log-likelihood of each peer's labels by every claim, (P, K), as of its last label."""
        out: FloatArray = (self.claims.values[:, 0] * self.claims.fresh()[0]).T
        return out

    def labelled_events(self) -> float:
        """Effective number of labelled events, as of the last one."""
        return self.events.effective().item()

    def decayed_events(self, now: float) -> float:
        """Decayed number of labelled events as of now."""
        events = self.events
        return float(events.counts.item() * np.exp(-events.rates.item() * (now - events.at.item())))

    # --- peers, merge, snapshot ----------------------------------------------------------

    def parts(self) -> dict[str, Counts]:
        """Every sum by name; the last one is the pool's."""
        return {"horizons": self.horizons, "claims": self.claims, "events": self.events}

    def take(self, order: Sequence[int]) -> Rates:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out = Rates(0, [0.0], 0, 0.0)
        out.horizons, out.claims = self.horizons.take(order), self.claims.take(order)
        out.events = self.events.take([0])
        return out

    def scale(self, factors: FloatArray) -> None:
        """Multiply the sums of every peer by a factor, (P,)."""
        self.horizons.scale(factors)
        self.claims.scale(factors)

    def merge(self, other: Rates, now: float) -> None:
        """Add what another memory of the same peers holds."""
        for mine, theirs in zip(self.parts().values(), other.parts().values(), strict=True):
            mine.merge(theirs)

    def pack(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        return {f"{name}.{key}": x for name, part in self.parts().items() for key, x in part.pack().items()}

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from packed arrays of the same sizes."""
        for name, part in self.parts().items():
            part.unpack({key: packed[f"{name}.{key}"] for key in part.pack()})


def _means(counts: Counts) -> FloatArray:
    """Mean value at every rate, (rates, n); 0 where nothing is known."""
    known = counts.squares > _LEAST
    total: FloatArray = counts.values[0]
    return np.divide(total, counts.counts, out=np.zeros_like(counts.counts), where=known)


def _with_others(likely: FloatArray, known: NDArray[np.bool_], first: int) -> FloatArray:
    """Log-likelihood of every claim, (P, K), moved by how much better than the `first` it is for others.

    `known` are peers of whom a claim was scored.
    """
    others = (np.add.reduce(likely) - likely) / np.maximum(known.sum() - known, 1)[:, None]
    ahead = others - others[:, first, None]
    out: FloatArray = likely + _OTHERS * np.tanh(ahead / _OTHERS)
    return out


def _softmax(likely: FloatArray) -> FloatArray:
    weights: FloatArray = np.exp(likely - np.maximum.reduce(likely, axis=1, keepdims=True))
    weights /= np.add.reduce(weights, axis=1, keepdims=True)
    return weights


def wilson(p: FloatArray, n: FloatArray, z: float = 1.96) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of a rate p seen in n (effective) observations; of 95 % by default.

    >>> low, high = wilson(np.array([0.5]), np.array([100.0]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.404], [0.596])
    """
    z2 = z * z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * np.sqrt(np.maximum(p * (1 - p), 0.0) / n + z2 / (4 * n * n))
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def rounded(*columns: FloatArray) -> NDArray[np.float16]:
    """Claims as a ledger keeps them, (P, K): scored as rounded, so that live and replay agree."""
    out = np.empty((columns[0].shape[0], sum(1 if x.ndim == 1 else x.shape[1] for x in columns)))
    at = 0
    for x in columns:
        width = 1 if x.ndim == 1 else x.shape[1]
        out[:, at : at + width] = x[:, None] if x.ndim == 1 else x
        at += width
    return out.astype(np.float16)  # one conversion: each takes longer than copying
