"""The paper's decision rules, by enumeration: what the fast ones are compared with."""

from __future__ import annotations

import math
from itertools import product

import numpy as np


def winner(canons, weights):
    """The canon with the largest sum of weights (eq:direct_m_vote); not null, first of equals."""
    totals = {}
    for canon, weight in zip(canons, weights, strict=True):
        if canon is not None:
            totals[canon] = totals.get(canon, 0.0) + weight
    best = None
    for canon in totals:  # in order of first appearance
        if best is None or totals[canon] > totals[best]:
            best = canon
    return best


def posterior(z, G, w_u, w_g):
    """E[y] under eq:sigma_topology_posterior, summed over all of {−1, +1}^P."""
    n = len(z)
    total, expectation = 0.0, np.zeros(n)
    for y in product((-1, 1), repeat=n):
        energy = w_u * sum(z[p] * y[p] for p in range(n))
        energy += w_g / 2.0 * sum(G[p][q] * y[p] * y[q] for p in range(n) for q in range(n) if p != q)
        weight = math.exp(energy)
        total += weight
        expectation += weight * np.array(y)
    return expectation / total


def normalized(utility, epsilon):
    """eq:sigma_normalized_utility."""
    n = len(utility)
    mean = sum(utility) / n
    spread = math.sqrt(sum((u - mean) ** 2 for u in utility) / n)
    return np.array([(u - mean) / (spread + epsilon) for u in utility])


def symmetric(rng, n, scale):
    x = rng.normal(size=(n, n)) * scale
    G = (x + x.T) / 2.0
    np.fill_diagonal(G, 1.0)
    return G
