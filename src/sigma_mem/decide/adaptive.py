"""Choosing among reads: the reads are the peers of a second, small Σ memory (DESIGN §8).

Reads agree on most events, so their p̂ differ by little, and the largest of several noisy numbers is
often not the best. The read listed first keeps its place until another leads by one standard error of
the difference of two means,

    √(v·½(1/n_r + 1/n_first)),   v = share of events of which exactly one of two reads is right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sigma_mem.events import FloatArray

__all__ = ["adaptive", "margin"]

_DISCORD = 0.05  # v; majority and the calibrated vote differ so on 2 to 18 % of real events, mostly 5 to 9


def margin(evidence: FloatArray, first: int) -> FloatArray:
    """By how much every read must lead the read `first` to be preferred.

    Parameters
    ----------
    evidence : array (reads,)
        Effective number of labels behind every read's p̂ at φ, its prior included.

    >>> margin(np.array([5.0, 500.0, 500.0]), first=1).round(4).tolist()
    [0.0711, 0.01, 0.01]
    """
    needed: FloatArray = np.sqrt(_DISCORD * 0.5 * (1.0 / evidence + 1.0 / evidence[first]))
    return needed


def adaptive(prob: FloatArray, available: Sequence[int], evidence: FloatArray | None = None) -> int:
    """The available read that leads the first available one by most, beyond the margin; else that one.

    Parameters
    ----------
    prob : array (reads,)
        Calibrated competence of every read, from the memory over reads.
    available : sequence of int
        Indices of the reads that could be made for this event; the first is the one to fall back on.
    evidence : array (reads,), optional
        As in `margin`. Without it every lead counts, however little is behind it.

    Examples
    --------
    >>> p = np.array([0.50, 0.52])
    >>> adaptive(p, [0, 1], evidence=np.array([20.0, 20.0]))
    0
    >>> adaptive(p, [0, 1], evidence=np.array([2000.0, 2000.0]))
    1
    """
    first = available[0]
    lead = prob - prob[first]
    if evidence is not None:
        lead = lead - margin(evidence, first)
        lead[first] = 0.0
    return max(available, key=lambda read: (lead[read], read == first, -read))
