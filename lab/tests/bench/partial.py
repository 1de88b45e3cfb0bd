"""Streams in which something is missing: answers, peers, or the all-or-nothing of labels."""

from dataclasses import replace

import numpy as np

from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream


def without_answers(stream: Stream) -> Stream:
    """Nothing can be read, as in recordings of agents that keep the verdict only."""
    events = (replace(e, answers=dict.fromkeys(e.answers, Answer("", None))) for e in stream)
    return Stream(stream.name, stream.peers, tuple(events))


def with_absent_peers(
    stream: Stream, share: float = 0.4, *, labels_only: bool = False, seed: int = 0
) -> Stream:
    """A share of the peers is absent from each event, or only their labels are; never all of them."""
    rng = np.random.default_rng(seed)

    def cut(event: Event) -> Event:
        kept = {p for p in stream.peers if rng.random() >= share} or {stream.peers[-1]}
        answers = event.answers if labels_only else {p: a for p, a in event.answers.items() if p in kept}
        return replace(event, answers=answers, correct={p: c for p, c in event.correct.items() if p in kept})

    return Stream(stream.name, stream.peers, tuple(cut(event) for event in stream))


def with_fractions(stream: Stream) -> Stream:
    """Labels 0.4 and −0.6 in place of 1 and −1: worth 0.7 and 0.2."""
    events = (replace(e, correct={p: 0.4 if c > 0 else -0.6 for p, c in e.correct.items()}) for e in stream)
    return Stream(stream.name, stream.peers, tuple(events))
