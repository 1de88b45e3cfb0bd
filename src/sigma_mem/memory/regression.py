"""Ridge regression of a peer's labels on φ: what a kernel mean cannot see if all tasks look alike.

    w_p = (N_p + λI)⁻¹ Σ γ^age (c − rate_p) φ,   claim_p(φ) = rate_p + w_pᵀφ.

A kernel mean weighs labels by (φ·φ′)², which hardly differs between tasks of narrow traffic; a regression
uses the small directions in which they do differ. If there is little to learn from φ it is the worse of the
two, so p̂ mixes them by likelihood (`rates`). If a peer is right on some kinds of task and wrong on others,
its rate is a step, which a linear function only approaches. So the regression is there in a second form, with
log-odds three times as large, which counts as far as labels bear it out.

φᵀ(N_p + λI)⁻¹φ is one over the number of labels near φ, and goes to 1/λ if there are none: what
exploration and intervals need.

N_p is that of `competence`; only Σγ^age·c·φ and Σγ^age·φ are kept for this. w_p is linear in rate_p, so the
two solutions of a peer stay the same until its own next label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.rates import bounded
from sigma_mem.memory.sums import PEERS, Sum

_TINY = 1e-300  # added to a weight that is divided by
RIDGE = 0.1  # λ: small, because the kernel mean is there for what is hard to learn


def sharpened(mean: FloatArray) -> FloatArray:
    """tanh(3·artanh(mean)): log-odds three times as large.

    >>> sharpened(np.array([0.0, 0.3, -0.8])).round(2).tolist()
    [0.0, 0.73, -0.97]
    """
    square = mean * mean
    return bounded(mean * (3.0 + square) / (1.0 + 3.0 * square))


def with_sharpened(claims: NDArray[np.float16]) -> NDArray[np.float16]:
    """Claims, (..., K), with the sharpened regression after the kernel mean and the regression."""
    sharp = sharpened(claims[..., 1:2].astype(np.float64))
    return np.concatenate((claims[..., :2], sharp.astype(np.float16), claims[..., 2:]), axis=-1)


def stretch(regressed: FloatArray, estimators: FloatArray) -> FloatArray:
    """How many times as much variance a regression's claim has, (P,), as far as it is sharpened.

    `estimators`, (3, P), are the weights of the kernel mean, the regression and its sharpened form.
    """
    _, plain, sharp = estimators
    square = regressed * regressed
    slope = 3.0 * (1.0 - square) / (1.0 + 3.0 * square)  # of the sharpened rate, in its own deviations
    out: FloatArray = 1.0 + sharp / (plain + sharp + _TINY) * (np.maximum(slope, 1.0) ** 2 - 1.0)
    return out


def direction_sum(rank: int, rate: float) -> Sum:
    """Declare Σcφ and Σφ of every peer."""
    return Sum((2, PEERS, rank), rate)


def direction_rows(phis: FloatArray, label: FloatArray, weight: FloatArray) -> FloatArray:
    """What events contribute to them, (T, 2, P, rank)."""
    rows = np.empty((len(phis), 2, label.shape[1], phis.shape[1]))
    np.multiply(label[..., None], phis[:, None], out=rows[:, 0])
    np.multiply(weight[..., None], phis[:, None], out=rows[:, 1])
    return rows


def solved(
    directions: FloatArray,
    fresh: FloatArray,
    evidence: Callable[[int], FloatArray],
    peers: Iterable[int],
    out: FloatArray,
) -> None:
    """(N_p + λI)⁻¹ of Σcφ and of Σφ, into `out`, (2, P, rank), for these peers.

    Peers that are labelled on the same events share N_p, and so one factorisation.

    Parameters
    ----------
    directions : array (2, P, rank)
    fresh : array (P,)
        By which sums are multiplied.
    evidence : callable
        Returns N_p of a peer, as of its anchor, (rank, rank).
    """
    for members in _alike(directions[1], fresh, peers):
        factor = float(fresh[members[0]])
        if not factor:
            out[:, members] = 0.0
            continue
        matrix = penalised(evidence(members[0]), factor)
        sides = (factor * directions[:, members]).reshape(-1, len(matrix))
        out[:, members] = np.linalg.solve(matrix, sides.T).T.reshape(2, len(members), -1)


def leverage(
    phi: FloatArray, factors: FloatArray, seen: FloatArray, evidence: Callable[[int], FloatArray]
) -> FloatArray:
    """φᵀ(N_p + λI)⁻¹φ of every peer, (P,), of sums multiplied by `factors`, (P,); `seen` is Σφ, (P, rank)."""
    out = np.empty(len(factors))
    for members in _alike(seen, factors, range(len(factors))):
        matrix = penalised(evidence(members[0]), float(factors[members[0]]))
        out[members] = phi @ np.linalg.solve(matrix, phi)
    return out


def penalised(matrix: FloatArray, factor: float) -> FloatArray:
    """factor·N_p + λI."""
    out: FloatArray = factor * matrix
    out.reshape(-1)[:: len(out) + 1] += RIDGE  # the diagonal
    return out


def _alike(seen: FloatArray, factors: FloatArray, peers: Iterable[int]) -> Iterable[list[int]]:
    """Peers with the same labelled events: their Σφ and factors are equal bit for bit."""
    found: dict[tuple[bytes, float], list[int]] = {}
    for peer in peers:
        found.setdefault((seen[peer].tobytes(), float(factors[peer])), []).append(peer)
    return found.values()
