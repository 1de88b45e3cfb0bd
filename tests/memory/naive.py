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


def alternatives(phis, c, groups, gamma, phi):
    """K − 1 at φ: wrong pairs over agreeing ones near φ, with a prior of 10 pairs at the overall rate."""
    same = pairs = all_same = all_pairs = 0.0
    for direction, labels, row in zip(phis, c, groups, strict=True):
        agree, n = wrong_pairs(labels, row)
        near = float(direction @ phi) ** 2
        same, pairs = gamma * same + near * agree, gamma * pairs + near * n
        all_same, all_pairs = gamma * all_same + agree, gamma * all_pairs + n
    overall = (all_same + 1.0) / (all_pairs + 4.0)
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
