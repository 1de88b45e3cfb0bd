"""p̂ apart from φ: how often a peer is right lately and over its whole record, and which claim to believe.

What is not observed does not change a mean. Decay takes weight from evidence, so a mean is a ratio of two
sums that decay alike, and the strength of its prior is compared with an effective number of labels that a
pause leaves alone. With w = γ^age,

    total = Σ w·c,   n = Σ w,   mean = total/n,   labels = (Σ w)²/Σ w²,

labels is the effective number of labels (Kish), and labels/n is the factor `fresh` by which any sum of the
same events becomes one of that number. The same sums without `fresh` count how much is known now, and only
intervals and exploration use those.

A peer's rate is kept at several horizons γ_g and over its whole life,

    rate_g = rate_{g+1} + (mean_g − mean_{g+1})·labels_g/(labels_g + s),

so that a fast horizon without recent labels equals the next slower one, and labels that both have seen
count once. The rate over the whole life is shrunk to the level of the pool, moved by how much more often
than others the peer agrees with them.

A claim is what p̂ would be by one estimator alone. Which estimator and which horizon to believe is learned
for every peer from the decayed log-likelihood of its labels by the claims that were recorded at decisions.
Horizons are judged by the last few hundred labels, because peers change. Estimators are judged by as many as
M remembers: a regression that once separated a peer's bad tasks from its good ones is not forgotten while the
peer is asked only on the good ones. A regression, sharpened or not (`regression`), has to gain something with
every label: which of many peers is the best depends on it, and a paraphrase moves it much more than it moves
a kernel mean.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.settings import Settings
from sigma_mem.memory.sums import PEERS, Sum, Sums

Number = TypeVar("Number", float, FloatArray)

LEAST = 0.5  # observations that an interval takes for granted
_MOST = 0.97  # bound of a claimed mean label: the log-likelihood of a surprise stays finite
_NEWCOMER = 0.5  # peers that the prior rate of an unknown pool is worth, at `prior_labels` = 2
_SLOWER = 3.0  # a horizon is three times as likely beforehand as the next faster one
LOCAL = 0.1  # and the local claim a tenth as likely as the slowest one
SURE = 0.2  # below this weight a local or sharpened claim is left out, so that its noise costs nothing
ESTIMATORS = 3  # the kernel mean, the regression, and the regression sharpened
_ESTIMATOR_PRIORS = np.log([1.0, 0.5, 0.25])  # odds beforehand
_GAIN = 0.02  # log-likelihood that the regression has to gain with every label: it follows wording closely


def rate_sums(settings: Settings) -> dict[str, Sum]:
    """Declare labels at every horizon and over the whole life, claims, and labelled events of the pool."""
    horizons, slow, mixing = (*settings.horizon_rates, 0.0), settings.rate, settings.mixing_rate
    estimators = ESTIMATORS if settings.regression else 0
    scored = settings.n_claims + (1 if settings.regression else 0)  # the sharpened regression is not recorded
    return {
        "labels": Sum((3 * len(horizons), PEERS), (*horizons, *horizons, *(2.0 * rate for rate in horizons))),
        "claims": claim_sum(scored, mixing, (slow,) * estimators),
        "events": Sum((3,), (slow, 2.0 * slow, 0.0)),
    }


def claim_sum(n_claims: int, rate: float, first: tuple[float, ...] = ()) -> Sum:
    """Declare log-likelihoods of this many claims, Σw and Σw²; the first ones may have rates of their own."""
    rest = [rate] * (n_claims + 1 - len(first))
    return Sum((n_claims + 2, PEERS), (*first, *rest, 2.0 * rate))


def label_rows(label: FloatArray, weight: FloatArray, n_rates: int) -> FloatArray:
    """What labels, (T, P), times their weight contribute to "labels", (T, 3·rates, P)."""
    rows = np.empty((len(label), 3 * n_rates, label.shape[1]))
    rows[:, :n_rates] = label[:, None]
    rows[:, n_rates:] = weight[:, None]
    return rows


def claim_rows(claims: NDArray[np.float16], c: FloatArray, weight: FloatArray) -> FloatArray:
    """What labels contribute by what was claimed, (T, P, K): how likely they were, and their weights."""
    known = claims.astype(np.float64)
    rows = np.empty((len(c), known.shape[2] + 2, known.shape[1]))
    np.multiply(weight[:, None], log_likelihood(known, c).swapaxes(1, 2), out=rows[:, :-2])
    rows[:, -2:] = (weight * (known[..., 0] == known[..., 0]))[:, None]  # NaN for none
    return rows


class Effective(NamedTuple):
    """Means, how many labels they are worth, and the factor that makes sums those of so many labels."""

    mean: FloatArray
    labels: FloatArray
    fresh: FloatArray


def effective(total: FloatArray, n: FloatArray, squares: FloatArray, most: FloatArray) -> Effective:
    """Of decayed sums; `most`, the number of labels without any decay, bounds what rounding leaves."""
    known = (n > 0.0) & (squares > 0.0)
    safe = np.where(known, n, 1.0)
    labels = np.minimum(safe * safe / np.where(known, squares, 1.0), np.maximum(most, 0.0))
    labels = np.where(known, labels, 0.0)
    return Effective(np.where(known, total / safe, 0.0), labels, labels / safe)


def effective_labels(sums: Sums) -> Effective:
    """Of every peer at every horizon, and over its whole life, (horizons + 1, P) each."""
    total, n, squares = sums["labels"].reshape(3, -1, sums.n_peers)
    return effective(total, n, squares, n[-1])


def effective_events(sums: Sums) -> tuple[float, float]:
    """How many labelled events the pool's sums are worth, and the factor `fresh` of such sums."""
    n, squares, life = sums["events"].tolist()
    if n <= 0.0 or squares <= 0.0 or life <= 0.0:
        return 0.0, 0.0
    labels = min(n * n / squares, life)
    return labels, labels / n


def shrunk_mean(total: Number, labels: Number, prior: float | FloatArray, strength: float) -> Number:
    """Mean of c over `labels` labels that sum to `total`, with a prior worth `strength` labels more.

    >>> shrunk_mean(6.0, 10.0, prior=0.0, strength=4.0).__round__(3)
    0.429
    """
    # No step is made in place: on a few peers that takes numpy twice as long.
    return (total + prior * strength) / (labels + strength)  # type: ignore[return-value]


def unshrunk(total: FloatArray, labels: FloatArray, mean: FloatArray) -> FloatArray:
    """By how much labels alone differ from a mean that was shrunk to a prior; 0 if there are none."""
    return (total - labels * mean) / (labels + LEAST)


def probability(mean: FloatArray) -> FloatArray:
    """½(1 + mean): how often c = 1, if c is 1 or −1 with this mean."""
    return mean * 0.5 + 0.5


def bounded(mean: FloatArray) -> FloatArray:
    """A mean label, kept from certainty."""
    out: FloatArray = np.maximum(np.minimum(mean, _MOST), -_MOST)
    return out


def fast_horizon(n_horizons: int) -> int:
    """The horizon at which M and N are kept in addition to the slowest one: 0.99 of the default four."""
    return max(0, n_horizons - 3)


def log_likelihood(claims: FloatArray, c: FloatArray) -> FloatArray:
    """Of labels c, (..., P), by claimed mean labels, (..., P, K); 0 if there is no label or no claim."""
    claimed = probability(claims)
    r = 0.5 * (c[..., None] + 1.0)
    found = r * np.log(claimed) + (1.0 - r) * np.log1p(-claimed)
    out: FloatArray = np.where(found == found, found, 0.0)  # NaN differs from itself
    return out


class RateReading(NamedTuple):
    """What does not depend on φ; the same from one label to the next."""

    rates: FloatArray  # mean label at every horizon, (H, P)
    away: FloatArray  # of every horizon from the slowest one, (H, P)
    slowest: FloatArray  # (P,)
    change: FloatArray  # Σ_g u_g·(rate_g − rate_slow), (P,)
    estimators: FloatArray  # weights of the kernel mean, the regression and its sharpened form, (P, 3)
    of_local: FloatArray  # weight of the local claim, (P,)
    horizons: FloatArray  # weight of every horizon and of the local claim, (P, H + 1)
    doubt: FloatArray  # variance that `change` adds, because faster horizons have fewer labels, (P,)


class ClaimWeights(NamedTuple):
    """Weights of claims, from how likely they made a peer's own labels: those of others change nothing."""

    estimators: FloatArray  # of the kernel mean, the regression and its sharpened form, (P, 3)
    horizons: FloatArray  # of every horizon and of the local claim, (P, H + 1)


def read_rates(
    labels: Effective, weights: ClaimWeights, moved: FloatArray, settings: Settings
) -> RateReading:
    """Rates at every horizon.

    Parameters
    ----------
    labels : Effective
        Of every peer, as `effective_labels` has them.
    weights : ClaimWeights
    moved : array (P,)
        By how much agreement moves each peer's prior from the level of the pool.
    """
    mean, n, strength = labels.mean, labels.labels, settings.strength
    rates = np.empty((len(n) - 1, n.shape[1]))
    rate = shrunk_mean(mean[-1] * n[-1], n[-1], pool_level(mean[-2], n[-2], settings) + moved, strength)
    for g in range(len(rates) - 1, -1, -1):
        away = (mean[g] - mean[g + 1]) * (n[g] / (n[g] + strength))
        rate = rates[g] = rate + np.where(n[g] > 0.0, away, 0.0)
    rates = bounded(rates)
    rates.setflags(write=False)  # readings hand it out, and it is read again
    (estimators, horizons), away = weights, rates - rates[-1]
    change = np.add.reduce(horizons.T[:-1] * away)  # term by term, so that equal peers get equal bits
    fewer = 1.0 / (n[:-1] + LEAST) - 1.0 / (n[-2] + LEAST)
    doubt = np.add.reduce(np.square(horizons.T[:-1]) * fewer)
    return RateReading(rates, away, rates[-1], change, estimators, horizons[:, -1], horizons, doubt)


def pool_level(means: FloatArray, labels: FloatArray, settings: Settings) -> float:
    """Mean label of the pool: a mean over peers, so that a peer that is asked more counts no more."""
    known = labels / (labels + settings.strength)
    none, prior = _NEWCOMER * settings.prior_labels / 2.0, 2.0 * settings.prior - 1.0
    return float((np.add.reduce(known * means) + none * prior) / (np.add.reduce(known) + none))


def claim_weights(sums: Sums, labels: Effective) -> ClaimWeights:
    """Which estimator and which horizon to believe of every peer."""
    likely, h = likelihoods(sums["claims"], labels.labels[-1]), len(labels.labels) - 1
    estimators, weights = np.zeros((len(likely), ESTIMATORS)), np.zeros((len(likely), h + 1))
    estimators[:, 0] = weights[:, -2] = 1.0
    n_estimators = likely.shape[1] - (h + 1 if h > 1 else 0)  # none without a regression
    if n_estimators:
        alone = (sums["claims"][:ESTIMATORS] * labels.fresh[-2]).T
        alone[:, 1:] -= _GAIN * labels.labels[-2][:, None]
        estimators = _softmax(alone + _ESTIMATOR_PRIORS)
        estimators[estimators[:, 2] < SURE, 2] = 0.0
        estimators /= np.add.reduce(estimators, axis=1, keepdims=True)
    if likely.shape[1] > n_estimators:
        weights = _softmax(likely[:, n_estimators:] + _horizon_priors(h))
        unsure = np.where(weights[:, -1] < SURE, weights[:, -1], 0.0)
        weights[:, fast_horizon(h)] += unsure
        weights[:, -1] -= unsure
    return ClaimWeights(estimators, weights)


@lru_cache
def _horizon_priors(h: int) -> FloatArray:
    """Log-odds beforehand of every horizon, and of the local claim."""
    slower = math.log(_SLOWER) * np.arange(h)
    return np.append(slower, slower[-1] + math.log(LOCAL))


def likelihoods(sums: FloatArray, most: FloatArray) -> FloatArray:
    """Log-likelihood of each peer's labels by every claim, (P, K)."""
    n, squares = sums[-2:]
    out: FloatArray = (sums[:-2] * effective(n, n, squares, most).fresh).T
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
