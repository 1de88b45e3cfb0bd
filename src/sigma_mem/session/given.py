"""Answers as a decision takes them in: their canons, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.answers.features import FEATURES as SIGNS
from sigma_mem.answers.features import text_features as signs
from sigma_mem.events import Answer, FloatArray
from sigma_mem.session.checks import checked_answers

__all__ = ["NOTHING", "Given", "in_order", "looked_at"]


class Given(NamedTuple):
    """By peer: its answer, and the signs of it where it could be read and there is another beside it."""

    answers: Mapping[str, Answer]
    signs: Mapping[str, Sequence[float]]


NOTHING = Given({}, {})


def looked_at(
    question: str | None,
    answers: Mapping[str, str | Answer | None],
    peers: Sequence[str],
    canon: Callable[[str], str | None],
    look: bool = True,
) -> Given:
    """Check the answers and, if one is to look, see their signs before the memory is asked."""
    checked = checked_answers(answers, peers, canon)
    if not look:
        return Given(checked, {})
    readable = [peer for peer, answer in checked.items() if answer.canon is not None]
    if len(readable) < 2:
        return Given(checked, {})
    rows = dict(zip(checked, signs(question or "", list(checked.values())).tolist(), strict=True))
    return Given(checked, {peer: rows[peer] for peer in readable})


def in_order(
    found: Mapping[str, Sequence[float]], peers: Sequence[str]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Signs in the order of the pool, (P, S), and which of them are there; the others are 0."""
    there = np.array([peer in found for peer in peers])
    none = (0.0,) * len(SIGNS)
    return np.array([found.get(peer, none) for peer in peers]), there
