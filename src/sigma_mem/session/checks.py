"""What is accepted at the door: a φ, labels, answers; an error says what was got and what was expected."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from sigma_mem.errors import InputError
from sigma_mem.events import Answer, FloatArray

__all__ = ["checked_answers", "checked_labels", "checked_phi"]

_UNIT = 1e-6  # how far ‖φ‖² may be from 1


def checked_phi(phi: ArrayLike, rank: int) -> FloatArray:
    """A unit vector of the memory's rank, as an array of its own."""
    vector = np.array(phi, dtype=np.float64)
    if vector.shape != (rank,):
        raise InputError(f"φ has shape {vector.shape}; expected ({rank},), the rank of this memory")
    square = float(vector @ vector)
    if not abs(square - 1.0) <= _UNIT:  # False for NaN and infinity too
        what = f"norm {math.sqrt(square):.6g}" if math.isfinite(square) else "NaN or infinite entries"
        raise InputError(f"φ has {what}; expected a unit vector: divide it by its norm")
    return vector


def checked_labels(labels: Mapping[str, object], known: Collection[str]) -> dict[str, float]:
    """Labels as numbers: True is 1, False is −1, a number c ∈ [−1, 1] stays."""
    if not labels:
        raise InputError("labels are empty; expected {peer: bool or number in [-1, 1]} for at least one peer")
    out = {}
    for peer, label in labels.items():
        if peer not in known:
            raise InputError(f"peer {peer!r} is not in this memory; expected one of {sorted(known)}")
        out[peer] = 1.0 if label is True else -1.0 if label is False else _checked_label(peer, label)
    return out


def _checked_label(peer: str, label: object) -> float:
    if isinstance(label, (int, float, np.integer, np.floating, np.bool_)):
        c = (1.0 if label else -1.0) if isinstance(label, np.bool_) else float(label)
        if -1.0 <= c <= 1.0:  # False for NaN
            return c
    raise InputError(
        f"label of {peer!r} is {label!r}; expected a bool or a number in [-1, 1]; leave out a peer with none"
    )


def checked_answers(
    answers: Mapping[str, str | Answer | None],
    peers: Sequence[str],
    canon: Callable[[str], str | None],
) -> dict[str, Answer]:
    """Answers with their canons, in the order of the pool; None is a peer that gave no answer."""
    if not answers:
        raise InputError("answers are empty; expected {peer: text} for at least one peer")
    unknown = [peer for peer in answers if peer not in peers]
    if unknown:
        raise InputError(f"peer {unknown[0]!r} is not in the pool {list(peers)}; add it with add_peer")
    return {peer: _answer(answers[peer], canon) for peer in peers if peer in answers}


def _answer(given: str | Answer | None, canon: Callable[[str], str | None]) -> Answer:
    if isinstance(given, Answer):
        return given
    if given is None:
        return Answer("", None)
    if not isinstance(given, str):
        raise InputError(f"answer is {given!r}; expected text, an Answer, or None where there is none")
    return Answer(given, canon(given))
