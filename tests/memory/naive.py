"""The paper's equations as plain loops over dense matrices: what the memory is compared with."""

from __future__ import annotations

from itertools import combinations

import numpy as np


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


def alternatives(phis, c, groups, gamma, phi, revision=1):
    """K − 1 at φ: wrong pairs over agreeing ones near φ, with a prior of 10 pairs at the overall rate.

    From revision 2 on, w wrong peers are worth w/2 pairs, and the prior grows with the pool.
    """
    n_peers = c.shape[1]
    prior = 4.0 if revision == 1 else max(1.0, min(n_peers * (n_peers - 1) / 3.0, 2.5 * n_peers))
    same = pairs = all_same = all_pairs = 0.0
    for direction, labels, row in zip(phis, c, groups, strict=True):
        agree, n = wrong_pairs(labels, row)
        if revision > 1 and n:
            wrong = sum(x < 0 and g >= 0 for x, g in zip(labels, row, strict=True))
            agree, n = agree / (wrong - 1), n / (wrong - 1)
        near = float(direction @ phi) ** 2
        same, pairs = gamma * same + near * agree, gamma * pairs + near * n
        all_same, all_pairs = gamma * all_same + agree, gamma * all_pairs + n
    overall = (all_same + prior / 4.0) / (all_pairs + prior)
    return (pairs + 10.0) / (same + 10.0 * overall)


def readable(c, groups, gamma):
    """Rate, per peer, of labelled answers that could be read among those that were asked for."""
    read, asked = np.zeros(c.shape[1]), np.zeros(c.shape[1])
    for labels, row in zip(c, groups, strict=True):
        for p in range(c.shape[1]):
            seen = 0.0 if np.isnan(labels[p]) else 1.0
            read[p] = gamma * read[p] + seen * (row[p] >= 0)
            asked[p] = gamma * asked[p] + seen * (row[p] >= -1)
    return (read + 2.0) / (asked + 2.0)


def overall(M, N, eta, prior, strength):
    """Every peer's rate of being right over all tasks, with the pool's rate as its prior."""
    right = [0.5 * np.trace(m + n) / eta for m, n in zip(M, N, strict=True)]
    labels = [np.trace(n) / eta for n in N]
    pool = (sum(right) + 2.0 * prior) / (sum(labels) + 2.0)
    return [(r + strength * pool) / (n + strength) for r, n in zip(right, labels, strict=True)]


def calibrated(M, N, phi, eta, prior, strength):
    """p̂ of DESIGN §4, a and b worth `strength` labels at the peer's overall rate."""
    out = []
    for m, n, rate in zip(M, N, overall(M, N, eta, prior, strength), strict=True):
        a, b = strength * rate, strength * (1.0 - rate)
        out.append((0.5 * phi @ (m + n) @ phi / eta + a) / (phi @ n @ phi / eta + a + b))
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


def overall_by_horizon(c, groups, settings):
    """Every peer's mean label at every γ (slowest last), shrunk to its agreement at the level of labels."""
    s, nothing = settings, 2.0 * settings.prior - 1.0
    ages = np.arange(len(c))[::-1]
    a = np.array([agreement(row) for row in groups]).reshape(c.shape)
    slow = s.gamma**ages
    asked = ~np.isnan(a)
    all_agreement = (slow @ np.where(asked, a, 0.0)).sum()
    pool = (all_agreement + s.prior_labels * nothing) / ((slow @ asked).sum() + s.prior_labels)
    agreed = (slow @ np.where(asked, a, 0.0) + s.strength * pool) / (slow @ asked + s.strength)
    out = []
    for gamma in s.horizons:
        total, labels = np.zeros(c.shape[1]), np.zeros(c.shape[1])
        gap = events = 0.0
        for age, row, agreed_then in zip(ages, c, a, strict=True):
            known = [p for p in range(len(row)) if not np.isnan(row[p])]
            for p in known:
                total[p] += gamma**age * row[p]
                labels[p] += gamma**age
                expected = pool if np.isnan(agreed_then[p]) else agreed_then[p]
                gap += gamma**age * (row[p] - expected) / len(known)
            events += gamma**age * bool(known)
        if s.agreement:
            level = agreed + gap / (events + s.strength)
        else:
            level = (total.sum() + s.prior_labels * nothing) / (labels.sum() + s.prior_labels)
        out.append((total + s.strength * level) / (labels + s.strength))
    return np.array(out), agreed


def claims(phis, c, groups, settings, phi):
    """Mean label at φ (P,), at every horizon (P, H), and at φ by the fast one of them, after these events."""
    s = settings
    overall, agreed = overall_by_horizon(c, groups, s)
    prior = overall[-1]
    if s.agreement:
        a = np.array([agreement(row) for row in groups]).reshape(c.shape)
        A, B = competence(phis, a, s.gamma, 1.0)
        near = np.array([phi @ m @ phi for m in A])
        seen = np.array([phi @ n @ phi for n in B])
        deviation = (near + s.strength * agreed) / (seen + s.strength) - agreed
        events = sum(s.gamma**age for age, row in enumerate(c[::-1]) if not np.isnan(row).all())
        prior = np.clip(prior + deviation * 50.0 / (50.0 + events), -0.97, 0.97)
    M, N = competence(phis, c, s.gamma, 1.0)
    score, effective = np.array([phi @ m @ phi for m in M]), np.array([phi @ n @ phi for n in N])
    mean = (score + s.strength * prior) / (effective + s.strength)
    fast = max(0, len(s.horizons) - 3)
    M, N = competence(phis, c, s.horizons[fast], 1.0)
    score, effective = np.array([phi @ m @ phi for m in M]), np.array([phi @ n @ phi for n in N])
    prior = mean + overall[fast] - overall[-1]
    return mean, overall.T, (score + s.strength * prior) / (effective + s.strength)


def mixed(near, overall, local, said, c):
    """p̂ from mean labels near φ (P,), overall (P, H) and near φ lately, weighed by what was said before c.

    What was said is (T, P, H + 2): near, overall, local then. Weights change after every 16 labelled events.
    """
    n_horizons = overall.shape[1]
    if n_horizons == 1:
        return (1.0 + near) / 2.0
    likelihood, weights, labelled = np.zeros(n_horizons + 1), np.ones(n_horizons + 1), 0
    for then, row in zip(said.astype(float), c, strict=True):
        likelihood *= 0.99
        by_horizon = then[:, :1] + then[:, 1:-1] - then[:, -2:-1]
        claimed = (1.0 + np.clip(np.column_stack((by_horizon, then[:, -1])), -0.97, 0.97)) / 2.0
        for p in range(len(row)):
            if not np.isnan(row[p]):
                r = (row[p] + 1.0) / 2.0
                likelihood += r * np.log(claimed[p]) + (1.0 - r) * np.log(1.0 - claimed[p])
        if not np.isnan(row).all():
            labelled += 1
            if labelled % 16 == 0:
                weights = np.exp(likelihood - likelihood.max())
    weights = weights * np.append(3.0 ** np.arange(n_horizons), 0.1 * 3.0 ** (n_horizons - 1))
    weights /= weights.sum()
    if weights[-1] < 0.2:  # too little for the local claim: its weight is the fast horizon's
        weights[max(0, n_horizons - 3)] += weights[-1]
        weights[-1] = 0.0
    said_now = np.column_stack((near[:, None] + overall - overall[:, -1:], local))
    return (1.0 + np.clip(said_now @ weights, -0.97, 0.97)) / 2.0


def copies(groups, gamma):
    """d after these events: agreeing with each other where the rest does not."""
    n_peers = groups.shape[1]
    same, compared = np.zeros((n_peers, n_peers)), np.zeros((n_peers, n_peers))
    for row in groups:
        same, compared = gamma * same, gamma * compared
        for p, mine in enumerate(row):
            for q, yours in enumerate(row):
                rest = [g for r, g in enumerate(row) if r not in (p, q) and g >= 0]
                if p != q and mine >= 0 and yours >= 0 and rest:
                    weight = 1.0 - sum(g == mine for g in rest) / len(rest)
                    same[p, q] += weight * (mine == yours)
                    compared[p, q] += weight
    s = same / (compared + 5.0)
    return np.clip((np.minimum(s, s.T) - 0.8) / 0.15, 0.0, 1.0)


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
