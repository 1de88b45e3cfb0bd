"""Agreement of peers: the weakest evidence, and the only one that needs no label.

A peer's agreement at an event is the share of the other readable answers that equal its own, as a label
a ∈ [−1, 1]. It is written at φ like any other label, into an M and N of its own. How often a peer agrees
says where it is better and where worse than elsewhere; the level at which agreement becomes correctness is
learned from labels (`horizons`).
"""

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.calibration import shrunk_mean


def agreement_labels(groups: NDArray[np.intp]) -> FloatArray:
    """a of every peer, (..., P); NaN where it was not asked, or where fewer than two answers are readable.

    An answer that was asked for and cannot be read agrees with nobody.

    Parameters
    ----------
    groups : int array (..., P)
        Answer groups; −1 where an answer could not be read, −2 where none was asked for.

    >>> agreement_labels(np.array([0, 0, 1, -1, -2])).tolist()
    [0.0, 0.0, -1.0, -1.0, nan]
    """
    readable = groups >= 0
    others = readable.sum(axis=-1, keepdims=True) - 1
    same = (groups[..., :, None] == groups[..., None, :]).sum(axis=-1) - 1
    share = np.where(readable, same, 0) / np.maximum(others, 1)
    labels: FloatArray = np.where((groups >= -1) & (others > 0), 2.0 * share - 1.0, np.nan)
    return labels


def deviation(score: FloatArray, evidence: FloatArray, overall: FloatArray, strength: float) -> FloatArray:
    """How much more than elsewhere every peer agrees near φ, (..., P).

    Parameters
    ----------
    score, evidence : array (..., P)
        φᵀAφ and φᵀBφ: decayed kernel sums of a and of 1.
    overall : array (..., P)
        Its mean agreement over all tasks.

    >>> deviation(np.array([5.0]), np.array([5.0]), np.array([0.0]), strength=5.0).tolist()
    [0.5]
    """
    out: FloatArray = shrunk_mean(score, evidence, overall, strength) - overall
    return out
