"""Exact replay of a recorded stream, a chunk of events at a time.

The score of event t is a weighted sum over the events before it,

    φ_tᵀM_pφ_t / η = Σ_{s<t} γ^(t−1−s) c_{p,s} (φ_s·φ_t)²,

so within a chunk it is one Gram matrix and one product, and what lies before the chunk is
read from matrices that are brought up to date once per chunk. The result is that of the
event-by-event loop, up to the rounding of sums in another order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory import horizons, mixing
from sigma_mem.memory.agreement import agreement_labels, deviation
from sigma_mem.memory.calibration import pool_mean, probability, shrunk_mean
from sigma_mem.memory.competition import coincidence, independent, prior_pairs, readable_rate, wrong_pairs
from sigma_mem.memory.copies import agreement_beside_copies, copying, pair_evidence, votes_among
from sigma_mem.memory.features import feature_evidence, feature_weights, text_log_odds
from sigma_mem.memory.relation import centred_events
from sigma_mem.memory.settings import Settings
from sigma_mem.memory.topics import SHARES, claims_by_share, share_weights, topic_vectors


@dataclass(frozen=True, slots=True)
class Replay:
    """What the memory said of every peer just before every event.

    Arrays (T, P), but G (T, P, P), alternatives and the number of labelled events (T,); text_log_odds
    are 0 without text features, votes (how many each peer is worth) 1 where nobody copies.
    """

    score: FloatArray
    effective: FloatArray
    prob: FloatArray
    total: FloatArray
    labels: FloatArray
    G: FloatArray
    alternatives: FloatArray
    readable: FloatArray
    text_log_odds: FloatArray
    labelled: FloatArray
    votes: FloatArray


def replay(
    phis: FloatArray,
    c: FloatArray,
    settings: Settings | None = None,
    groups: NDArray[np.intp] | None = None,
    chunk: int = 64,
    features: FloatArray | None = None,
    topics: Sequence[Sequence[str]] | None = None,
) -> Replay:
    """Read, then write, every event of a stream whose labels arrive on time.

    Parameters
    ----------
    phis : array (T, rank), unit rows
    c : array (T, P)
        Labels in [−1, 1]; NaN where there is none. Decay is by event.
    groups : int array (T, P), optional
        Answer groups; −1 where an answer could not be read, −2 where none was asked for.
    chunk : int
        Events per chunk; the result does not depend on it beyond rounding.
    features : array (T, P, S), optional
        Text features of the answers.
    topics : sequence of sequences of str, optional
        Topics of every event.

    Examples
    --------
    >>> import numpy as np
    >>> phis = np.array([[1.0, 0.0]] * 3)
    >>> replay(phis, np.array([[1.0], [1.0], [1.0]]), Settings(gamma=0.5, eta=1.0)).score[:, 0].tolist()
    [0.0, 1.0, 1.5]
    """
    settings = settings or Settings()
    if settings.decay != "event":
        raise InputError(f"decay is {settings.decay!r}; expected 'event': a replay has labels, but no times")
    n_events, gamma = len(c), settings.gamma
    chunk = max(1, min(chunk, n_events))
    if groups is None:
        groups = np.full(c.shape, -2, dtype=np.intp)
    agreement, votes = agreement_labels(groups), np.ones(c.shape)
    by_text = None  # agreement, where it says how right answers are written
    if not settings.agreement:
        agreement = np.full(c.shape, np.nan)
    elif settings.revision > 1 and (groups >= 0).any():  # else nobody answers, and nobody copies
        agreement, votes = _beside_copies(groups, gamma, chunk)
        by_text = agreement
    right, seen = _known(c)
    same, pairs = wrong_pairs(c, groups)
    if settings.revision > 1:
        same, pairs = independent(same, pairs)
    values = [right, seen, np.column_stack((same, pairs))]
    if settings.agreement:
        values.extend(_known(agreement))
    score, effective, near_pairs, *agreed = _kernel_sums(phis, values, gamma, chunk)
    events = seen.max(axis=1, initial=0.0)[:, None]
    counts = np.hstack((right, seen, seen * (groups >= 0), seen * (groups >= -1), values[2], events))
    sums_of = _decayed_before(counts, gamma, chunk)
    total, labels, readable, asked = np.split(sums_of[:, :-3], 4, axis=1)
    all_same, all_pairs, labelled = sums_of[:, -3:].T
    prior = prior_pairs(c.shape[1], settings.revision)
    if len(settings.horizons) > 1:
        fast = settings.horizons[mixing.fast_horizon(len(settings.horizons))]
        lately = _kernel_sums(phis, values[:2], fast, chunk)
    else:
        lately = []
    means = _mixed(c, score, effective, lately, agreement, agreed, settings, chunk)
    if topics is not None:
        sums = _topic_sums(phis, topics, np.stack((score, effective), axis=1), right, seen, gamma, chunk)
        score, effective, means = _beside_topics(means, sums, c, topics, settings, chunk)
    prob = probability(means.mean)
    return Replay(
        score=settings.step * score,
        effective=effective,
        prob=prob,
        total=total,
        labels=labels,
        G=_relations(c, settings, chunk),
        alternatives=1.0 / coincidence(near_pairs[:, 0], near_pairs[:, 1], all_same, all_pairs, prior),
        readable=readable_rate(readable, asked),
        text_log_odds=np.zeros(c.shape)
        if features is None
        else _text_log_odds(features, c, prob, groups, by_text, gamma, chunk),
        labelled=labelled,
        votes=votes,
    )


def _known(c: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Labels with 0 for the missing, and 1 where there is a label."""
    missing = np.isnan(c)
    return np.where(missing, 0.0, c), 1.0 - missing


def _kernel_sums(
    phis: FloatArray, values: Sequence[FloatArray], gamma: float, chunk: int
) -> list[FloatArray]:
    """Σ_{s<t} γ^(t−1−s) x_s (φ_s·φ_t)² for every t and every column of the values, each (T, k)."""
    n_events, rank = phis.shape
    # Peers that are labelled on the same events have the same evidence: keep one copy of it.
    distinct, which = _distinct_columns(np.hstack(values))
    powers = _powers(gamma, chunk)
    sums = np.zeros((rank, distinct.shape[1] * rank))  # φφᵀ sums side by side, so that a chunk is one product
    out = np.empty(distinct.shape)
    for start in range(0, n_events, chunk):
        phi, value = phis[start : start + chunk], distinct[start : start + chunk]
        inside, before, to_end = _first(powers, len(phi))
        # φᵀMφ of every row at once: (n, r) × (r, k·r), then a row-wise inner product.
        old = np.matmul((phi @ sums).reshape(len(phi), -1, rank), phi[:, :, None])[:, :, 0]
        out[start : start + chunk] = before[:, None] * old + (inside * np.square(phi @ phi.T)) @ value
        weighted = (value * to_end[:, None])[:, :, None] * phi[:, None, :]
        sums *= gamma ** len(phi)
        sums += phi.T @ weighted.reshape(len(phi), -1)
    return np.split(out[:, which], np.cumsum([x.shape[1] for x in values])[:-1], axis=1)


class _Means(NamedTuple):
    """Mean labels before every event, (T, P): at φ, and mixed over horizons."""

    near: FloatArray
    mean: FloatArray


def _mixed(
    c: FloatArray,
    score: FloatArray,
    effective: FloatArray,
    lately: Sequence[FloatArray],
    agreement: FloatArray,
    agreed: Sequence[FloatArray],
    settings: Settings,
    chunk: int,
) -> _Means:
    """What p̂ is made of, mixed over claims.

    Parameters
    ----------
    lately, agreed : arrays (T, P)
        Kernel sums of labels at the fast rate, and of agreement; none where there is no such thing.
    """
    s, n_peers = settings, c.shape[1]
    local = s.local_strength(n_peers)
    each = horizons.contributions(c, agreement)
    sums = np.stack([_decayed_before(each, gamma, chunk) for gamma in s.horizons], axis=-1)
    total, labels = sums[:, :n_peers], sums[:, n_peers:-3]
    if agreed:
        agreements, asked = np.split(_decayed_before(np.hstack(_known(agreement)), s.gamma, chunk), 2, axis=1)
        pool = pool_mean(agreements, asked, s.prior, s.prior_labels)
        mean_agreement = shrunk_mean(agreements, asked, pool, s.strength)
        shifts = horizons.shift(sums[:, -3], sums[:, -2], sums[:, -1], pool, s.strength)
        level = mean_agreement[:, :, None] + shifts[:, None]
    else:
        level = pool_mean(total.swapaxes(1, 2), labels.swapaxes(1, 2), s.prior, s.prior_labels).swapaxes(1, 2)
    overall = shrunk_mean(total, labels, level, s.strength)
    prior = overall[:, :, -1]
    if agreed:
        near = deviation(agreed[0], agreed[1], mean_agreement, local)
        moved = horizons.with_deviation(prior, near, sums[:, -2, -1:])
        prior = np.where(asked.any(axis=1, keepdims=True), moved, prior)
    near = shrunk_mean(score, effective, prior, local)
    if not lately:
        return _Means(near, near)
    beyond = overall - overall[:, :, -1:]
    recent = beyond[:, :, mixing.fast_horizon(beyond.shape[2])]
    at_fast = shrunk_mean(lately[0], lately[1], near + recent, local)
    claimed = mixing.claims(mixing.rounded(near, overall, at_fast))
    scored = mixing.log_likelihood(claimed, c).sum(axis=1)
    likelihood = _decayed_before(scored, math.exp(-s.mixing_rate), chunk)
    # The weights change after every BATCH labelled events, and stand between.
    labelled = (c == c).any(axis=1).cumsum()
    last = np.searchsorted(labelled, labelled // mixing.BATCH * mixing.BATCH) + 1
    before = np.concatenate(([0], np.where(labelled >= mixing.BATCH, last, 0)))[: len(c)]
    u = mixing.mixture(likelihood[before])
    change = (u[:, None, :-1] * beyond).sum(axis=2) + u[:, -1:] * (at_fast - near)
    return _Means(near, horizons.bounded(near + change))


def _topic_sums(
    phis: FloatArray,
    topics: Sequence[Sequence[str]],
    of_text: FloatArray,
    right: FloatArray,
    seen: FloatArray,
    gamma: float,
    chunk: int,
) -> FloatArray:
    """x_bᵀM_b x_b/η and x_bᵀN_b x_b/η before every event, for every share, (T, 2, P, B)."""
    e = topic_vectors(topics)
    out = [of_text]
    for b in SHARES[1:].tolist():
        x = np.hstack((math.sqrt(1.0 - b) * phis, math.sqrt(b) * e))
        out.append(np.stack(_kernel_sums(x, [right, seen], gamma, chunk), axis=1))
    return np.stack(out, axis=-1)


def _beside_topics(
    means: _Means,
    sums: FloatArray,
    c: FloatArray,
    topics: Sequence[Sequence[str]],
    settings: Settings,
    chunk: int,
) -> tuple[FloatArray, FloatArray, _Means]:
    """Kernel sums and mean labels, mixed over the shares of the topics where an event has any."""
    strength = settings.local_strength(c.shape[1])
    claims = claims_by_share(sums, means.near, means.mean - means.near, strength)
    has_topic = np.array([bool(some) for some in topics])
    rounded = probability(claims.astype(np.float16).astype(np.float64))
    scored = np.where(has_topic[:, None], mixing.log_likelihood(rounded, c).sum(axis=1), 0.0)
    weights = share_weights(_decayed_before(scored, math.exp(-settings.topic_mixing_rate), chunk))
    weights[~has_topic] = SHARES == 0.0
    mean = np.where(has_topic[:, None], (claims * weights[:, None]).sum(axis=2), means.mean)
    score, effective = np.moveaxis((sums * weights[:, None, None]).sum(axis=3), 1, 0)
    return score, effective, means._replace(mean=mean)


def _beside_copies(groups: NDArray[np.intp], gamma: float, chunk: int) -> tuple[FloatArray, FloatArray]:
    """Agreement labels and how many votes each peer is worth, at every event, (T, P) each."""
    n_events, n_peers = groups.shape
    agreement, votes = np.empty(groups.shape), np.empty(groups.shape)
    carried = np.zeros(2 * n_peers * n_peers)
    powers = _powers(gamma, chunk)
    for start in range(0, n_events, chunk):
        here = slice(start, start + chunk)
        part = pair_evidence(groups[here]).reshape(len(groups[here]), -1)
        inside, before, to_end = _first(powers, len(part))
        sums = (before[:, None] * carried + inside @ part).reshape(len(part), 2, n_peers, n_peers)
        d = copying(sums[:, 0], sums[:, 1])
        votes[here] = votes_among(groups[here], d)
        agreement[here] = agreement_beside_copies(groups[here], d, votes[here])
        carried = gamma ** len(part) * carried + to_end @ part
    return agreement, votes


def _text_log_odds(
    features: FloatArray,
    c: FloatArray,
    prob: FloatArray,
    groups: NDArray[np.intp],
    agreement: FloatArray | None,
    gamma: float,
    chunk: int,
) -> FloatArray:
    readable = groups >= 0

    def before(residual: FloatArray) -> tuple[FloatArray, FloatArray]:
        evidence, compared = feature_evidence(features, np.where(readable, residual, np.nan))
        flat = np.column_stack((evidence.reshape(len(c), -1), compared))
        sums = _decayed_before(flat, gamma, chunk)
        return sums[:, :-1].reshape(evidence.shape), sums[:, -1]

    agreed = () if agreement is None else before(agreement)
    weights = feature_weights(*before(c - (2.0 * prob - 1.0)), *agreed)
    return text_log_odds(features, readable, weights)


def _distinct_columns(x: FloatArray) -> tuple[FloatArray, list[int]]:
    """The distinct columns of x, and which of them every column is."""
    numbers: dict[bytes, int] = {}
    which = [numbers.setdefault(column.tobytes(), len(numbers)) for column in x.T]
    return x[:, [which.index(number) for number in range(len(numbers))]], which


Powers = tuple[FloatArray, FloatArray, FloatArray]


def _powers(gamma: float, n: int) -> Powers:
    """γ^(t−1−s) below the diagonal; γ^t for what came before the chunk; γ^(n−1−t) to its end."""
    age = np.arange(n)
    before: FloatArray = np.float64(gamma) ** age
    gap = age[:, None] - 1 - age[None, :]
    return np.where(gap >= 0, before[gap], 0.0), before, before[::-1]


def _first(powers: Powers, n: int) -> Powers:
    """The same for a chunk of n events, which may be shorter: the last one of a stream."""
    inside, before, to_end = powers
    return inside[:n, :n], before[:n], to_end[-n:]


def _decayed_before(x: FloatArray, gamma: float, chunk: int) -> FloatArray:
    """Σ_{s<t} γ^(t−1−s) x_s for every t; x of shape (T, k)."""
    out = np.empty_like(x)
    carried = np.zeros(x.shape[1])
    powers = _powers(gamma, chunk)
    for start in range(0, len(x), chunk):
        part = x[start : start + chunk]
        inside, before, to_end = _first(powers, len(part))
        out[start : start + chunk] = before[:, None] * carried + inside @ part
        carried = gamma ** len(part) * carried + to_end @ part
    return out


def _relations(c: FloatArray, settings: Settings, chunk: int) -> FloatArray:
    n_events, n_peers = c.shape
    q = centred_events(c)
    outer = (q[:, :, None] * q[:, None, :]).reshape(n_events, n_peers * n_peers)
    g = settings.eta_g * _decayed_before(outer, settings.gamma_g, chunk).reshape(n_events, n_peers, n_peers)
    g[:, np.arange(n_peers), np.arange(n_peers)] = 1.0
    return g
