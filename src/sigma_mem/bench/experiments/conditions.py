"""What a condition does to a stream: peers that change places, or come late."""

from collections.abc import Callable
from dataclasses import replace

from sigma_mem.events import Event
from sigma_mem.streams import Stream
from sigma_mem.streams.stream import chance


def strongest(stream: Stream) -> list[str]:
    """The peers by their mean label over the whole stream, best first."""
    labels = {p: [e.correct[p] for e in stream if p in e.correct] for p in stream.peers}
    return sorted(stream.peers, key=lambda p: -sum(labels[p]) / max(len(labels[p]), 1))


def abrupt(stream: Stream) -> Stream:
    """From the middle on, the best and the worst peer exchange answers and labels."""
    half = len(stream) // 2
    return _exchanged(stream, lambda t, event: t >= half)


def gradual(stream: Stream, seed: int = 0) -> Stream:
    """The same exchange with a probability that grows from 0 to 1 along the stream."""
    n = max(len(stream) - 1, 1)
    return _exchanged(stream, lambda t, event: chance(seed, "gradual", event.id) < t / n)


def _exchanged(stream: Stream, when: Callable[[int, Event], bool]) -> Stream:
    order = strongest(stream)
    best, worst = order[0], order[-1]
    events = tuple(_swap(e, best, worst) if when(t, e) else e for t, e in enumerate(stream))
    return Stream(stream.name, stream.peers, events)


def _swap(event: Event, a: str, b: str) -> Event:
    if not (a in event.answers and b in event.answers and a in event.correct and b in event.correct):
        return event
    answers = {**event.answers, a: event.answers[b], b: event.answers[a]}
    correct = {**event.correct, a: event.correct[b], b: event.correct[a]}
    return replace(event, answers=answers, correct=correct)


def late_peer(stream: Stream) -> tuple[Stream, str]:
    """The best peer is there from the middle on only, listed last; also its name."""
    newcomer, half = strongest(stream)[0], len(stream) // 2
    peers = (*(p for p in stream.peers if p != newcomer), newcomer)
    events = tuple(_without(e, newcomer) if t < half else e for t, e in enumerate(stream))
    return Stream(stream.name, peers, events), newcomer


def _without(event: Event, peer: str) -> Event:
    answers = {p: a for p, a in event.answers.items() if p != peer}
    correct = {p: c for p, c in event.correct.items() if p != peer}
    return replace(event, answers=answers, correct=correct)
