"""Recorded streams: several as one, and their domains as topics."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from sigma_mem.errors import InputError
from sigma_mem.streams.stream import Stream, chance


def join_streams(streams: Sequence[Stream], name: str | None = None) -> Stream:
    """Put streams behind each other; an event without a dataset gets the name of its stream as one.

    >>> from sigma_mem.events import Answer, Event
    >>> one, two = (Stream(n, ("a",), (Event(n, "?", {"a": Answer("4", "4")}, {}),)) for n in ("x", "y"))
    >>> joined = join_streams([one, two])
    >>> joined.name, len(joined), joined.datasets
    ('x+y', 2, ('x', 'y'))
    """
    if len(streams) == 1:
        return streams[0]
    first = streams[0].peers
    peers = tuple(peer for peer in first if all(peer in stream.peers for stream in streams))
    if not peers:
        raise InputError("the streams have no peer in common; expected streams of the same peers")
    events = [
        event if event.dataset else replace(event, dataset=stream.name)
        for stream in streams
        for event in stream.select(peers=peers)
    ]
    ids = {event.id for event in events}
    if len(ids) < len(events):
        raise InputError("the streams share ids of events; expected every event once")
    return Stream(name or "+".join(stream.name for stream in streams), peers, tuple(events))


TopicsFrom = Literal["domain", "shuffled"]


def with_topics(stream: Stream, kind: TopicsFrom, seed: int = 0) -> Stream:
    """The stream with every event's domain as its topic; or with those of other events, as a control.

    >>> from sigma_mem.events import Event
    >>> stream = Stream("tiny", ("a",), (Event("1", "?", {}, {}, "law"), Event("2", "?", {}, {})))
    >>> [event.topics for event in with_topics(stream, "domain")]
    [('law',), ()]
    """
    domains = [event.domain for event in stream]
    if kind == "shuffled":
        order = sorted(range(len(stream)), key=lambda i: chance(seed, "topic", stream.events[i].id))
        domains = [domains[i] for i in order]
    elif kind != "domain":
        raise InputError(f"got topics {kind!r}; expected one of {', '.join(get_args(TopicsFrom))}")
    named = zip(stream.events, domains, strict=True)
    return replace(stream, events=tuple(replace(e, topics=(d,) if d else ()) for e, d in named))
