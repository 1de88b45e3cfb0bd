"""The paper's equations as plain loops over dense matrices: what the memory is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

# Priors of the estimate, which are tuned; what is done with them is written out here once more.
from sigma_mem.memory import rates as _rates
from sigma_mem.memory import regression as _regression
from sigma_mem.memory import state as _state


def competence(phis, c, gamma, eta):
    """M and N after all events, by eq:sigma_mem_update; a missing label (NaN) only decays."""
    n_peers, rank = c.shape[1], phis.shape[1]
    M = np.zeros((n_peers, rank, rank))
    N = np.zeros((n_peers, rank, rank))
    for t in range(len(phis)):
        for p in range(n_peers):
            M[p] = gamma * M[p]
            N[p] = gamma * N[p]
            if not np.isnan(c[t, p]):
                M[p] = M[p] + eta * c[t, p] * np.outer(phis[t], phis[t])
                N[p] = N[p] + eta * np.outer(phis[t], phis[t])
    return M, N


def competence_at(phis, c, ages, gamma, eta):
    """The unrolled sums η Σ γ^age c φφᵀ and η Σ γ^age φφᵀ: ages need not be whole numbers."""
    n_peers, rank = c.shape[1], phis.shape[1]
    M = np.zeros((n_peers, rank, rank))
    N = np.zeros((n_peers, rank, rank))
    for phi, labels, age in zip(phis, c, ages, strict=True):
        for p, label in enumerate(labels):
            if not np.isnan(label):
                M[p] += eta * gamma**age * label * np.outer(phi, phi)
                N[p] += eta * gamma**age * np.outer(phi, phi)
    return M, N


def centred(labels):
    """q of one event: eq:sigma_centered_correctness over the labelled peers, 0 for the others."""
    known = [x for x in labels if not np.isnan(x)]
    if len(known) < 2:
        return np.zeros(len(labels))
    mean = sum(known) / len(known)
    return np.array([0.0 if np.isnan(x) else x - mean for x in labels])


def relation(c, gamma_g, eta_g):
    """G after all events, by eq:sigma_topology_update with its diagonal reset on every event."""
    n_peers = c.shape[1]
    G = np.eye(n_peers)
    for labels in c:
        q = centred(labels)
        G = gamma_g * G
        for i in range(n_peers):
            for j in range(n_peers):
                G[i, j] += eta_g * q[i] * q[j]
        for i in range(n_peers):
            G[i, i] = 1.0
    return G


def wrong_pairs(labels, groups):
    """Pairs of wrong peers with an answer that agree, and all of them."""
    wrong = [g for x, g in zip(labels, groups, strict=True) if x < 0 and g >= 0]
    pairs = list(combinations(wrong, 2))
    return sum(a == b for a, b in pairs), len(pairs)


def alternatives(phis, c, groups, gamma, phi):
    """K − 1 at φ: wrong pairs over agreeing ones near φ, with a prior of 10 pairs at the overall rate.

    w wrong peers are worth w/2 pairs, the prior grows with the pool, and events count as at the last label.
    """
    n_peers = c.shape[1]
    prior = max(1.0, min(n_peers * (n_peers - 1) / 3.0, 2.5 * n_peers))
    labelled = (~np.isnan(c)).any(axis=1).astype(float)
    weights = fresh_weights(labelled, np.arange(len(c), dtype=float), -np.log(gamma))
    same = pairs = all_same = all_pairs = 0.0
    for weight, direction, labels, row in zip(weights, phis, c, groups, strict=True):
        agree, n = wrong_pairs(labels, row)
        if n:
            wrong = sum(x < 0 and g >= 0 for x, g in zip(labels, row, strict=True))
            agree, n = weight * agree / (wrong - 1), weight * n / (wrong - 1)
        near = float(direction @ phi) ** 2
        same, pairs = same + near * agree, pairs + near * n
        all_same, all_pairs = all_same + agree, all_pairs + n
    overall = (all_same + prior / 4.0) / (all_pairs + prior)
    return (pairs + 10.0) / (same + 10.0 * overall)


def readable(c, groups, gamma):
    """Rate, per peer, of labelled answers that could be read among those that were asked for."""
    out = []
    for labels, row in zip(c.T, groups.T, strict=True):
        ticks = np.arange(len(c), dtype=float)
        weights = fresh_weights((~np.isnan(labels)).astype(float), ticks, -np.log(gamma))
        out.append((weights @ (row >= 0) + 2.0) / (weights @ (row >= -1) + 2.0))
    return np.array(out)


def agreement(groups):
    """Labels of one event: the share of the other readable answers that equal one's own, from −1 to 1."""
    out = []
    for p, mine in enumerate(groups):
        others = [g for q, g in enumerate(groups) if q != p and g >= 0]
        readable = len(others) + (mine >= 0)
        if mine == -2 or readable < 2:
            out.append(np.nan)
        else:
            out.append(2.0 * sum(g == mine for g in others) / len(others) - 1.0 if mine >= 0 else -1.0)
    return np.array(out)


def centred_agreement(a):
    """Agreement labels of one event less their mean over its answers; 0 where there is none."""
    known = [x for x in a if not np.isnan(x)]
    mean = sum(known) / max(len(known), 1)
    return np.array([0.0 if np.isnan(x) else x - mean for x in a])


@dataclass
class History:
    """Everything that p̂ depends on, as rows: one memory's labels at their ticks, in any order."""

    phis: np.ndarray
    c: np.ndarray  # NaN where there is no label
    ticks: np.ndarray
    weight: np.ndarray | None = None
    claims: np.ndarray | None = None
    groups: np.ndarray | None = None  # of answers, for agreement

    def __post_init__(self):
        self.ticks = np.asarray(self.ticks, dtype=float)
        self.weight = np.ones(self.c.shape) if self.weight is None else self.weight
        self.weight = np.where(np.isnan(self.c), 0.0, self.weight)
        self.label = np.nan_to_num(self.c)
        if self.groups is None:
            self.groups = np.full(self.c.shape, -2)
        self.a = np.array([agreement(row) for row in self.groups]).reshape(self.c.shape)


def fresh_weights(weight, ticks, rate):
    """w·γ^age·Σ(w·γ^age)/Σ(w·γ^2age) of every event, (T,): the age is that at the last label."""
    there = weight > 0.0
    out = np.zeros(len(weight))
    if there.any():
        decay = np.exp(-rate * (ticks[there].max() - ticks[there]))
        counted = weight[there] * decay
        out[there] = counted * counted.sum() / (counted @ decay)
    return out


def by_peer(history, rate):
    """`fresh_weights` of every peer, (P, T)."""
    return np.array([fresh_weights(w, history.ticks, rate) for w in history.weight.T])


def mean_of(weights, values):
    return float(weights @ values) / weights.sum() if weights.sum() > 0.0 else 0.0


def level(history, settings):
    """Mean label of the pool: every peer counts by how far it is known, a newcomer's prior beside them."""
    total = known = 0.0
    for weights, c in zip(by_peer(history, settings.rate), history.label.T, strict=True):
        n = weights.sum()
        total += n / (n + settings.strength) * mean_of(weights, c)
        known += n / (n + settings.strength)
    prior = _rates._NEWCOMER * settings.prior_labels / 2.0
    return (total + prior * (2.0 * settings.prior - 1.0)) / (known + prior)


def agreed(history, settings, phi=None):
    """By how much each peer agrees more than others (P,), near φ or overall; None where nobody agrees."""
    there = ~np.isnan(history.a)
    if not settings.agreement or not there.any():
        return None
    centred = np.array([centred_agreement(row) for row in history.a])
    out = []
    for seen, a in zip(there.T, centred.T, strict=True):
        weights = seen.astype(float)
        overall = float(weights @ a) / (weights.sum() + _state._WEAK * settings.strength)
        if phi is not None:
            near = weights * (history.phis @ phi) ** 2
            strength = _state._WEAK * settings.local_strength(len(there.T))
            overall = (near @ a + strength * overall) / (near.sum() + strength) - overall
        out.append(overall)
    return np.array(out)


def rates(history, settings):
    """Mean label of every peer at every horizon, (H, P): from its whole life to the fastest one."""
    s, moved, pool = settings, agreed(history, settings), level(history, settings)
    out = np.empty((len(s.horizon_rates), history.c.shape[1]))
    kept = [by_peer(history, rate) for rate in s.horizon_rates]
    for p, c in enumerate(history.label.T):
        life = history.weight[:, p]
        prior = pool + (0.0 if moved is None else moved[p])
        rate = (life @ c + s.strength * prior) / (life.sum() + s.strength)
        slower = mean_of(life, c)
        for g in range(len(kept) - 1, -1, -1):
            weights = kept[g][p]
            mean = mean_of(weights, c)
            rate += (mean - slower) * weights.sum() / (weights.sum() + s.strength)
            out[g, p], slower = rate, mean
    return np.clip(out, -_rates._MOST, _rates._MOST)


def claim_weights(history, settings):
    """Weights of the three estimators, (P, 3), and of every horizon and the local claim, (P, H + 1)."""
    n_peers, n_horizons = history.c.shape[1], len(settings.horizons)
    by_estimator, horizons = np.zeros((n_peers, 3)), np.zeros((n_peers, n_horizons + 1))
    by_estimator[:, 0] = horizons[:, -2] = 1.0
    if history.claims is None or not history.claims.shape[2]:
        return by_estimator, horizons
    claims, estimators = history.claims.astype(float), 3 if settings.regression else 0
    if settings.regression:
        claims = np.insert(claims, 2, sharper(claims[..., 1]).astype(np.float16), axis=2)
    right, claimed = (1.0 + history.label) / 2.0, (1.0 + claims) / 2.0
    own = np.zeros((n_peers, claims.shape[2]))
    lately, slowly = by_peer(history, settings.mixing_rate), by_peer(history, settings.rate)
    for p in range(n_peers):
        for recent, old, r, claim in zip(lately[p], slowly[p], right[:, p], claimed[:, p], strict=True):
            if recent or old:
                weight = np.where(np.arange(len(claim)) < estimators, old, recent)
                own[p] += weight * np.nan_to_num(r * np.log(claim) + (1.0 - r) * np.log(1.0 - claim))
    for p in range(n_peers):
        said = own[p]
        if settings.regression:
            pays = said[:3] - np.array([0.0, 1.0, 1.0]) * _rates._GAIN * slowly[p].sum()
            odds = np.exp(pays - pays.max()) * [1.0, 0.5, 0.25]
            if odds[2] < _rates.SURE * odds.sum():
                odds[2] = 0.0
            by_estimator[p], said = odds / odds.sum(), said[3:]
        if n_horizons > 1:
            slower = _rates._SLOWER ** np.arange(n_horizons)
            weights = np.exp(said - said.max()) * np.append(slower, slower[-1] * _rates.LOCAL)
            weights /= weights.sum()
            if weights[-1] < _rates.SURE:  # too little for the local claim: its weight is the fast horizon's
                weights[max(0, n_horizons - 3)] += weights[-1]
                weights[-1] = 0.0
            horizons[p] = weights
    return by_estimator, horizons


def sharper(mean):
    """A mean label whose log-odds are three times as large, kept from certainty."""
    return np.clip(np.tanh(3.0 * np.arctanh(mean)), -_rates._MOST, _rates._MOST)


@dataclass
class Read:
    """What a read says beside p̂, (P,) each, rates (H, P)."""

    prob: np.ndarray
    near: np.ndarray
    labels: np.ndarray
    rates: np.ndarray
    claims: np.ndarray  # (P, K)
    overall: np.ndarray


def read(history, settings, phi):
    """p̂ at φ and what it is made of, from plain sums over the labels."""
    s, most = settings, _rates._MOST
    strength = s.local_strength(history.c.shape[1])
    by_horizon, deviation = rates(history, s), agreed(history, s, phi)
    by_estimator, horizons = claim_weights(history, s)
    labelled = history.weight.sum(axis=1) / np.maximum((history.weight > 0.0).sum(axis=1), 1)
    events = fresh_weights(labelled, history.ticks, s.rate).sum()
    prior = by_horizon[-1]
    if deviation is not None:
        prior = np.clip(prior + _state._BELIEVED / (_state._BELIEVED + events) * deviation, -most, most)
    fast = max(0, len(s.horizons) - 3)
    slow_weights, fast_weights = by_peer(history, s.rate), by_peer(history, s.horizon_rates[fast])
    kernel = (history.phis @ phi) ** 2
    out = []
    for p, c in enumerate(history.label.T):
        w, rate = slow_weights[p], by_horizon[-1, p]
        labels = w @ kernel
        near = mean = ((w * kernel) @ c + strength * prior[p]) / (labels + strength)
        claims = []
        if s.regression:
            N = sum(x * np.outer(f, f) for x, f in zip(w, history.phis, strict=True))
            vector = np.linalg.solve(
                N + _regression.RIDGE * np.eye(len(phi)), (w * (c - rate)) @ history.phis
            )
            regressed = np.clip(prior[p] + vector @ phi, -most, most)
            claims = [np.clip(mean, -most, most), regressed]
            near = mean = by_estimator[p] @ [mean, regressed, sharper(regressed)]
        overall = by_horizon[:, p] @ horizons[p, :-1] + horizons[p, -1] * by_horizon[fast, p]
        if len(s.horizons) > 1:
            said = near + by_horizon[:, p] - rate
            w = fast_weights[p] * kernel
            local = (w @ c + strength * said[fast]) / (w.sum() + strength)
            mean = np.append(said, local) @ horizons[p]
            claims = [*claims, *np.clip(np.append(said, local), -most, most)]
        prob, overall = (0.5 + 0.5 * np.clip(x, -most, most) for x in (mean, overall))
        out.append((prob, near, labels, np.array(claims), overall))
    prob, near, labels, claims, overall = (np.array(x) for x in zip(*out, strict=True))
    return Read(prob, near, labels, by_horizon, claims, overall)


def copies(groups, gamma):
    """d after these events: agreeing with each other where the rest does not."""
    n_peers = groups.shape[1]
    same, compared = np.zeros((n_peers, n_peers)), np.zeros((n_peers, n_peers))
    several = third = 0.0
    for row in groups:
        same, compared = gamma * same, gamma * compared
        answers = len({g for g in row if g >= 0})
        several, third = gamma * several + (answers > 1), gamma * third + (answers > 2)
        for p, mine in enumerate(row):
            for q, yours in enumerate(row):
                rest = [g for r, g in enumerate(row) if r not in (p, q) and g >= 0]
                if p != q and mine >= 0 and yours >= 0 and rest:
                    weight = 1.0 - sum(g == mine for g in rest) / len(rest)
                    same[p, q] += weight * (mine == yours)
                    compared[p, q] += weight
    s = same / (compared + 5.0)
    s = np.minimum(s, s.T)
    free = min(third / several / 0.1, 1.0) if several else 0.0  # 0 if there are never more than two answers
    low, high = 0.9 - 0.1 * free, 1.0 - 0.05 * free
    d, near = np.clip((s - low) / (high - low), 0.0, 1.0), np.clip((s - 0.45) / 0.15, 0.0, 1.0)
    for p in range(n_peers):
        for q in range(n_peers):
            others = sum(near[p, r] * near[r, q] for r in range(n_peers) if r not in (p, q))
            d[p, q] = max(d[p, q], free * min(near[p, q], max(others - 1.0, 0.0)))
    return d


def votes(groups, d):
    """How many votes every peer is worth at one event: a copy of k others that answered, 1/(1 + k)."""
    readable = [p for p, g in enumerate(groups) if g >= 0]
    return np.array(
        [1.0 / (1.0 + sum(d[p, q] for q in readable)) if p in readable else 1.0 for p in range(len(groups))]
    )


def agreement_beside_copies(groups, d):
    """Labels of one event: the others count by how little they copy, as many votes as they are worth."""
    v, plain = votes(groups, d), agreement(groups)
    out = []
    for p, mine in enumerate(groups):
        others = [q for q, g in enumerate(groups) if q != p and g >= 0]
        weight = {q: (1.0 - d[p, q]) * v[q] for q in others}
        total = sum(weight.values())
        if mine < 0:
            out.append(plain[p])
        elif total < 1e-9:
            out.append(np.nan)
        else:
            out.append(2.0 * sum(weight[q] for q in others if groups[q] == mine) / total - 1.0)
    return np.array(out)
