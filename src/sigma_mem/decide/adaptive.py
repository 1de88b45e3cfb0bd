"""Choosing among reads: the reads are the peers of a second, small Σ memory (DESIGN §8)."""

from __future__ import annotations

from collections.abc import Sequence

from sigma_mem.events import FloatArray

__all__ = ["adaptive"]


def adaptive(prob: FloatArray, available: Sequence[int]) -> int:
    """The available read with the largest p̂ at φ; ties go to the one listed first.

    Parameters
    ----------
    prob : array (reads,)
        Calibrated competence of every read, from the memory over reads.
    available : sequence of int
        Indices of the reads that could be made for this event.
    """
    return max(available, key=lambda read: (prob[read], -read))
