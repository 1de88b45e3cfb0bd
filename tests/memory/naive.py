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
    """Pairs of wrong peers with an answer, and how many of them gave the same one."""
    wrong = [g for x, g in zip(labels, groups, strict=True) if x < 0 and g >= 0]
    pairs = list(combinations(wrong, 2))
    return len(pairs), sum(a == b for a, b in pairs)


def alternatives(c, groups, gamma):
    """K − 1 after all events: decayed wrong pairs over agreeing ones, with the prior 6 and 2."""
    pairs, agreeing = 0.0, 0.0
    for labels, row in zip(c, groups, strict=True):
        n, same = wrong_pairs(labels, row)
        pairs, agreeing = gamma * pairs + n, gamma * agreeing + same
    return max(1.0, (pairs + 6.0) / (agreeing + 2.0))


def calibrated(M, N, phi, eta, prior, strength):
    """p̂ of DESIGN §4, whose prior is the peer's overall rate, whose prior is `prior`."""
    out = []
    for m, n in zip(M, N, strict=True):
        right_everywhere = 0.5 * np.trace(m + n) / eta
        overall = (right_everywhere + strength * prior) / (np.trace(n) / eta + strength)
        a, b = strength * overall, strength * (1.0 - overall)
        out.append((0.5 * phi @ (m + n) @ phi / eta + a) / (phi @ n @ phi / eta + a + b))
    return np.array(out)
