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

    def swap(event: Event) -> Event:
        if not {best, worst} <= event.answers.keys() & event.correct.keys():
            return event
        answers = {**event.answers, best: event.answers[worst], worst: event.answers[best]}
        correct = {**event.correct, best: event.correct[worst], worst: event.correct[best]}
        return replace(event, answers=answers, correct=correct)

    return replace(stream, events=tuple(swap(e) if when(t, e) else e for t, e in enumerate(stream)))


def late_peer(stream: Stream) -> tuple[Stream, str]:
    """The best peer is there from the middle on only, listed last; also its name."""
    newcomer, half = strongest(stream)[0], len(stream) // 2
    others = tuple(p for p in stream.peers if p != newcomer)

    def without(event: Event) -> Event:
        answers = {p: a for p, a in event.answers.items() if p != newcomer}
        return replace(
            event, answers=answers, correct={p: c for p, c in event.correct.items() if p != newcomer}
        )

    events = (*map(without, stream.events[:half]), *stream.events[half:])
    return Stream(stream.name, (*others, newcomer), events), newcomer
