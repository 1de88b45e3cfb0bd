"""A stream made ready for learning a steering: texts, labels and features side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream
from sigma_mem.train.episodes import Episode, IntArray

__all__ = ["TrainingStream", "prepared"]


@dataclass(frozen=True, slots=True)
class TrainingStream:
    """N events of P peers.

    Attributes
    ----------
    questions : tuple of str
    answers : tuple of tuples of str
        By event and peer; empty where a peer gave none.
    labels : (N, P) float
        ±1, NaN where there is no label or no answer to judge.
    domains : (N,) int
    features : (N, D) float
    train, held_out : int arrays
        Events that gradient steps may see, and those that decide when to stop.
    judged : int array
        The part of ``train`` that the language model reads; the memory is written from all of it.
    """

    questions: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    labels: FloatArray
    domains: IntArray
    features: FloatArray
    train: IntArray
    held_out: IntArray
    judged: IntArray

    def pairs(self, episode: Episode, at: IntArray) -> list[tuple[str, str]]:
        """(question, answer) of every seat at some places of an episode, seat by seat within a place."""
        return [
            (self.questions[event], self.answers[event][peer])
            for event, seats in zip(episode.events[at].tolist(), episode.dealt[at].tolist(), strict=True)
            for peer in seats
        ]


def prepared(
    stream: Stream, features: FloatArray, *, seed: int, judged: int, held_out: float = 0.2
) -> TrainingStream:
    """Set a share of the events aside, and choose at random those that the language model reads."""
    if len(stream) < 10 or len(stream.peers) < 2:
        raise InputError(
            f"the stream has {len(stream)} events of {len(stream.peers)} peers; "
            "expected at least 10 events of 2 peers to learn from"
        )
    clean = stream.labels()
    if not ((clean > 0).any(axis=1) & (clean < 0).any(axis=1)).any():
        raise InputError(
            "the peers of the stream are all right or all wrong at every event; "
            "expected events on which they differ"
        )
    answers = tuple(tuple(e.answers[p].text if p in e.answers else "" for p in stream.peers) for e in stream)
    empty = np.array([[not text for text in row] for row in answers])
    domains = np.unique([e.domain for e in stream], return_inverse=True)[1].astype(np.intp)
    order = np.random.default_rng((seed, 7)).permutation(len(stream))
    n_held = max(int(held_out * len(stream)), 4)
    train = np.sort(order[n_held:])
    return TrainingStream(
        questions=tuple(e.question for e in stream),
        answers=answers,
        labels=np.where(empty, np.nan, clean),
        domains=domains,
        features=features,
        train=train,
        held_out=np.sort(order[:n_held]),
        judged=np.sort(order[n_held : n_held + judged]),
    )
