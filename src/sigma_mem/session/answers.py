"""The peers' answers as a decision takes them in: checked, with canons and text features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.answers.features import FEATURES, text_features
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, FloatArray

__all__ = ["NO_ANSWERS", "Answers", "prepare_answers"]


class Answers(NamedTuple):
    """By peer: its answer, and its text features where it is readable and not the only readable one."""

    by_peer: Mapping[str, Answer]
    features: Mapping[str, Sequence[float]]

    def in_pool(self, peers: Sequence[str]) -> Answers:
        """The answers in the order of the pool; InputError where a peer is not in it."""
        unknown = [peer for peer in self.by_peer if peer not in peers]
        if unknown:
            raise InputError(f"peer {unknown[0]!r} is not in the pool {list(peers)}; add it with add_peer")
        ordered = [peer for peer in peers if peer in self.by_peer]
        return Answers(
            {peer: self.by_peer[peer] for peer in ordered},
            {peer: self.features[peer] for peer in ordered if peer in self.features},
        )

    def canons(self) -> dict[str, str | None]:
        """Canonical answers by peer."""
        return {peer: answer.canon for peer, answer in self.by_peer.items()}

    def feature_rows(self, peers: Sequence[str]) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Features in the order of the pool, (P, S), and which rows are there; the others are 0."""
        there = np.array([peer in self.features for peer in peers])
        none = (0.0,) * len(FEATURES)
        return np.array([self.features.get(peer, none) for peer in peers]), there


NO_ANSWERS = Answers({}, {})


def prepare_answers(
    question: str | None,
    answers: Mapping[str, str | Answer | None],
    canon: Callable[[str], str | None],
    with_features: bool,
) -> Answers:
    """Read the canon of every answer and, where two or more are readable, the features of their texts."""
    if not answers:
        raise InputError("answers are empty; expected {peer: text} for at least one peer")
    found = {peer: _answer(given, canon) for peer, given in answers.items()}
    readable = [peer for peer, answer in found.items() if answer.canon is not None]
    if not with_features or len(readable) < 2:
        return Answers(found, {})
    rows = dict(zip(found, text_features(question or "", list(found.values())).tolist(), strict=True))
    return Answers(found, {peer: rows[peer] for peer in readable})


def _answer(given: str | Answer | None, canon: Callable[[str], str | None]) -> Answer:
    if isinstance(given, Answer):
        return given
    if given is None:
        return Answer("", None)
    if not isinstance(given, str):
        raise InputError(f"answer is {given!r}; expected text, an Answer, or None where there is none")
    return Answer(given, canon(given))
