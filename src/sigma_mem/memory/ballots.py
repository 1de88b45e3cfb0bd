"""Ballots: who answers with whom, and who is right when answers differ.

A log-odds vote adds up what the supporters of an answer are worth, as if they erred independently. Peers that
err together are one vote. So what the votes of all peers are worth is regressed jointly. X is 1 for the peers
that gave an answer (answers × peers), y its truth, both less their mean over the answers of the event:

    A = Σ XᵀX over all events,   b = Σ Xᵀy over the n labelled ones,
    w = (n·S + λI)⁻¹(b + λ·w₀),  S = (A + ½·n₀·I)/(events + n₀).

A needs no label. Without labels every vote is worth w₀, and w is a majority.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray

_RIDGE = 5.0  # λ, in labelled events
_PRIOR_WEIGHT = 0.2  # w₀, in units of y
_PRIOR_EVENTS = 20.0  # n₀: events in which every peer stood alone against another one


def pair_ballots(groups: NDArray[np.intp]) -> FloatArray:
    """XᵀX of every event (leading axes), centred, (..., P, P); 0 where all answers are one.

    With one column of X per peer this is 1 for a pair that agrees, less 1/(number of answers).

    Parameters
    ----------
    groups : int array (..., P)
        Answer groups, negative where there is no readable answer.

    Examples
    --------
    >>> pair_ballots(np.array([0, 0, 1, -1])).tolist()[0]
    [0.5, 0.5, -0.5, 0.0]
    """
    readable = groups >= 0
    several = _n_answers(groups) > 1
    both = readable[..., :, None] & readable[..., None, :] & several[..., None, None]
    same = groups[..., :, None] == groups[..., None, :]
    share = 1.0 / np.maximum(_n_answers(groups), 1)[..., None, None]
    out: FloatArray = np.where(both, same - share, 0.0)
    return out


def answer_truth(c: FloatArray, groups: NDArray[np.intp]) -> FloatArray:
    """How right the answer of every peer is, from 0 to 1, (..., P); NaN where that is not known.

    An answer's truth is the mean over the labels of the peers that gave it. Answers without a label share
    what is left of 1 with one answer that nobody gave: once an answer is right the others are wrong.

    Parameters
    ----------
    c : array (..., P)
        Labels in [−1, 1]; NaN where there is none.

    Examples
    --------
    >>> answer_truth(np.array([1.0, np.nan, np.nan]), np.array([0, 0, 1])).tolist()
    [1.0, 1.0, 0.0]
    >>> answer_truth(np.array([-1.0, np.nan, np.nan]), np.array([0, 0, 1])).tolist()
    [0.0, 0.0, 0.5]
    """
    right, labelled = _labelled_truth(c, groups)
    open_ = (groups >= 0) & ~labelled
    left = np.maximum(1.0 - _over_answers(np.where(labelled, right, 0.0), groups), 0.0)
    share = left / (_over_answers(open_.astype(np.float64), groups) + 1.0)
    out: FloatArray = np.where(open_, share[..., None], right)
    known = (groups >= 0) & labelled.any(axis=-1, keepdims=True)
    return np.where(known, out, np.nan)


def label_ballots(c: FloatArray, groups: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Xᵀy of every event, (..., P), and 1 for an event with several answers and a label, (...).

    Examples
    --------
    >>> b, n = label_ballots(np.array([1.0, 1.0, -1.0]), np.array([0, 0, 1]))
    >>> b.tolist(), float(n)
    ([0.5, 0.5, -0.5], 1.0)
    """
    truth = answer_truth(c, groups)
    known = truth == truth  # NaN differs from itself
    counts = known.any(axis=-1) & (_n_answers(groups) > 1)
    truth = np.where(known, truth, 0.0)
    mean = _over_answers(truth, groups) / np.maximum(_n_answers(groups), 1)
    out: FloatArray = np.where(known & counts[..., None], truth - mean[..., None], 0.0)
    return out, counts.astype(np.float64)


def joint_weights(pairs: FloatArray, events: float, right: FloatArray, labelled: float) -> FloatArray:
    """w, what a vote of every peer is worth beside the others, (P,).

    Parameters
    ----------
    pairs, events : array (P, P), and float
        A, and how many events with several answers it holds.
    right, labelled : array (P,), and float
        b, and how many labelled events it holds.

    Examples
    --------
    Ann and bob answer as one, and cat is right as often as they are: each of the two is worth half of cat.

    >>> pairs = 100.0 * np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.5]])
    >>> joint_weights(pairs, 100.0, 100.0 * np.array([0.25, 0.25, 0.25]), 100.0).round(2).tolist()
    [0.27, 0.27, 0.47]
    """
    spread = pairs.copy()
    spread.flat[:: len(right) + 1] += 0.5 * _PRIOR_EVENTS
    spread *= max(labelled, 0.0) / (max(events, 0.0) + _PRIOR_EVENTS)
    spread.flat[:: len(right) + 1] += _RIDGE
    return np.asarray(np.linalg.solve(spread, right + _RIDGE * _PRIOR_WEIGHT), dtype=np.float64)


def _n_answers(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many different answers can be read: groups are numbered from 0."""
    return np.asarray(groups.max(axis=-1, initial=-1) + 1, dtype=np.intp)


def _over_answers(values: FloatArray, groups: NDArray[np.intp]) -> FloatArray:
    """Σ over different answers of a value that its supporters share, (...)."""
    same = (groups[..., :, None] == groups[..., None, :]).sum(axis=-1)
    out: FloatArray = np.where(groups >= 0, values / same, 0.0).sum(axis=-1)
    return out


def _labelled_truth(c: FloatArray, groups: NDArray[np.intp]) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Mean truth over the labels of everyone who gave a peer's answer, and whether there is any."""
    there = (c == c) & (groups >= 0)  # NaN differs from itself
    same = (groups[..., :, None] == groups[..., None, :]) & there[..., None, :]
    count = same.sum(axis=-1)
    total = (same * np.where(there, 0.5 * (c + 1.0), 0.0)[..., None, :]).sum(axis=-1)
    labelled = (count > 0) & (groups >= 0)
    return np.where(labelled, total / np.maximum(count, 1), np.nan), labelled
