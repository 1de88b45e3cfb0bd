"""Agreement of peers: the weakest evidence, and the only one that needs no label.

A peer's agreement at an event is the share of the other readable answers that equal its own, as a label
a ∈ [−1, 1]. Less the mean of the event's answers it is written at φ like any other label, into an M and N of
its own. It shows which peers are better than others, and on which tasks. Only labels show how often peers
are right at all. That M and N do not decay: if they did, one event after a pause would count for more than
everything before it, and agreement is never worth more than one event's worth of it.
"""

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.rates import shrunk_mean


def agreement_labels(groups: NDArray[np.intp]) -> FloatArray:
    """a of every peer, (..., P); NaN if it was not asked, or if fewer than two answers are readable.

    An answer that was asked for and cannot be read agrees with nobody.

    Parameters
    ----------
    groups : int array (..., P)
        Answer groups; −1 if an answer could not be read, −2 if none was asked for.

    >>> agreement_labels(np.array([0, 0, 1, -1, -2])).tolist()
    [0.0, 0.0, -1.0, -1.0, nan]
    """
    readable = groups >= 0
    others = readable.sum(axis=-1, keepdims=True) - 1
    same = (groups[..., :, None] == groups[..., None, :]).sum(axis=-1) - 1
    share = np.where(readable, same, 0) / np.maximum(others, 1)
    labels: FloatArray = np.where((groups >= -1) & (others > 0), 2.0 * share - 1.0, np.nan)
    return labels


def centred_agreement(a: FloatArray) -> FloatArray:
    """Agreement labels less their mean over the event's answers, (..., P); 0 if there is none.

    So an event moves no peer that did not answer, and none at all if all agree or none does.

    >>> centred_agreement(np.array([0.0, 0.0, -1.0, np.nan])).round(2).tolist()
    [0.33, 0.33, -0.67, 0.0]
    """
    there = a == a  # NaN differs from itself
    known = np.where(there, a, 0.0)
    mean = known.sum(axis=-1, keepdims=True) / np.maximum(there.sum(axis=-1, keepdims=True), 1)
    out: FloatArray = np.where(there, known - mean, 0.0)
    return out


def deviation(score: FloatArray, evidence: FloatArray, overall: FloatArray, strength: float) -> FloatArray:
    """How much more than elsewhere every peer agrees near φ, (..., P).

    Parameters
    ----------
    score, evidence : array (..., P)
        φᵀAφ and φᵀBφ: decayed kernel sums of centred agreement labels and of 1.
    overall : array (..., P)
        Its mean over all tasks.

    >>> deviation(np.array([5.0]), np.array([5.0]), np.array([0.0]), strength=5.0).tolist()
    [0.5]
    """
    out: FloatArray = shrunk_mean(score, evidence, overall, strength) - overall
    return out
