"""Choosing among reads: the reads are the peers of a second, small Σ memory (DESIGN §8).

Reads agree on most events, so that their rates of being right differ by little and their noise
is shared: the largest of several such rates is often not the best read. What tells two reads apart
are the events that only one of them got right. So every read is labelled only where it differs
from the first one, and p̂ becomes the probability that it is the right one of the two: the same
write, the same φ, a paired comparison. The first read keeps its place until another wins more than half
of their duels here, by a margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings

__all__ = ["adaptive", "duels", "over_reads"]

_STRENGTH = 40.0  # duels that a read's overall rate is worth at a φ where little was seen
_MARGIN = 0.04
_EVEN = 1e9  # labels that an even chance is worth: reads start level, whatever the others do


def over_reads(settings: Settings) -> Settings:
    """Settings of the memory over reads, for a memory with these."""
    return replace(settings, prior=0.5, prior_labels=_EVEN, strength=_STRENGTH)


def duels(c: FloatArray) -> FloatArray:
    """Labels of the reads, relative to the first one; NaN where they were equally right.

    Parameters
    ----------
    c : array (..., reads)
        How right the answer was that each read chose, NaN where that is not known.

    >>> duels(np.array([-1.0, -1.0, 1.0, np.nan])).tolist()
    [nan, nan, 1.0, nan]
    """
    lead = c - c[..., :1]
    out: FloatArray = np.where(lead == 0.0, np.nan, lead.clip(-1.0, 1.0))
    return out


def adaptive(prob: FloatArray, available: Sequence[int]) -> int:
    """The available read that wins its duels with the first one most surely; the first one if none does.

    Parameters
    ----------
    prob : array (reads,)
        p̂ of the memory over reads at φ.
    available : sequence of int
        Indices of the reads that could be made for this event.

    Examples
    --------
    >>> adaptive(np.array([0.5, 0.53, 0.5]), [0, 1, 2])
    0
    >>> adaptive(np.array([0.5, 0.51, 0.6]), [0, 1, 2])
    2
    """
    best = max(available, key=lambda read: (prob[read] if read else 0.0, -read))
    return best if prob[best] > 0.5 + _MARGIN else 0
