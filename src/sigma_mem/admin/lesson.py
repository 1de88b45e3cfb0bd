"""Learning from a recorded stream: every event is decided, then labelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sigma_mem.session import SigmaMem
from sigma_mem.session.checks import checked_kind
from sigma_mem.streams import Stream


@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned: new events, those that were there already, labels, and peers that were added."""

    events: int
    known: int
    labels: int
    added: tuple[str, ...]


def learn(
    mem: SigmaMem,
    stream: Stream,
    *,
    source: str = "default",
    progress: Callable[[int, int], None] | None = None,
) -> Learned:
    """Learn from a recorded stream: decide every event, then take its labels.

    Every event gets the ref ``stream name:event id``, so that learning again, or after an interruption,
    takes only what is not there yet. Peers that are new join the pool.

    Parameters
    ----------
    mem : SigmaMem
    stream : Stream
        See `sigma_mem.streams.load_stream`.
    source : str
        Name of the person or program that labelled it.
    progress : callable, optional
        Called with (done, total) from time to time.
    """
    checked_kind("stream", stream, Stream, "a stream, as load_stream gives it")
    added = tuple(peer for peer in stream.peers if peer not in mem.peers)
    for peer in added:
        mem.add_peer(peer)
    events = known = labels = 0
    for place, event in enumerate(stream):
        ref = f"{stream.name}:{event.id}"
        with mem.journal as fold:
            there = fold.event_named(ref)
            earlier = None if there is None else fold.event(there)
        if there is not None and (earlier is None or earlier.said or not event.correct):
            known += 1  # or it was forgotten, and stays so
            continue
        if there is None:
            topic = event.topics or None
            if event.answers:
                there = mem.decide(event.question, event.answers, ref=ref, topic=topic).id
            else:
                there = mem.route(event.question, ref=ref, topic=topic).id
            events += 1
        if event.correct:
            said = {peer: float(c) for peer, c in event.correct.items()}
            mem.feedback(there, said, source=source, wait=False)
            labels += len(event.correct)
        if progress is not None and (place % 64 == 63 or place + 1 == len(stream)):
            progress(place + 1, len(stream))
    mem.store.flush()
    return Learned(events, known, labels, added)
