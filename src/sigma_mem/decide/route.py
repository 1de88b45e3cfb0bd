"""Routing: pick a peer from the question alone, before anyone answers."""

from __future__ import annotations

from sigma_mem.events import FloatArray

__all__ = ["calibrated_route", "m_route"]


def m_route(score: FloatArray) -> int:
    """argmax_p φᵀM_pφ, exactly as the paper writes it (eq:direct_m_route).

    >>> import numpy as np
    >>> m_route(np.array([0.1, 0.4, 0.4]))
    1
    """
    return int(score.argmax())


def calibrated_route(prob: FloatArray) -> int:
    """argmax_p p̂_p: unlike the raw score it does not confuse how much was seen with how good it was.

    >>> import numpy as np
    >>> calibrated_route(np.array([0.7, 0.9]))
    1
    """
    return int(prob.argmax())
