"""Topics of a recorded stream: what a caller would know of each task's kind, taken from the domains."""

from dataclasses import replace
from typing import Literal, get_args

from sigma_mem.errors import InputError
from sigma_mem.streams.stream import Stream, chance

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
