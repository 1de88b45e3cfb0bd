"""Topics of a task at a decision: checked, recorded with it, and what is known of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.memory.topics import SHARES, TopicReading
from sigma_mem.session.event import EventState
from sigma_mem.session.fold import Fold

Topic = str | Sequence[str]  # one, or several


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic of which something was learned.

    Attributes
    ----------
    name : str
    labels : mapping
        Peer → decayed number of its labels on events with this topic.
    probs : mapping
        Peer → p̂ on a task of which nothing but this topic is known.
    """

    name: str
    labels: dict[str, float]
    probs: dict[str, float]


def topics_of_event(event: EventState, earlier: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """The topics that an event has; InputError where others are given with a later decision on it."""
    if given and given != event.topics:
        has = f"the topics {list(event.topics)}" if event.topics else "no topic"
        raise InputError(
            f"topic is {list(given)}, and the event of decision {earlier!r} has {has}; "
            "leave out topic, or leave out after and ref for a new event"
        )
    return event.topics


def share_details(reading: TopicReading | None) -> dict[str, Any]:
    """What a decision keeps of how far the topics counted: the weight of every share."""
    if reading is None:
        return {}
    names = [f"{share:g}" for share in SHARES.tolist()]
    return {"topic_shares": dict(zip(names, reading.weights.tolist(), strict=True))}


def known_topics(fold: Fold) -> list[KnownTopic]:
    """Every topic that was labelled and has sums of its own, in the order of their first labels."""
    state, nothing = fold.state, np.zeros(fold.state.rank)
    if state.topics is None:
        return []
    return [
        KnownTopic(
            name,
            state.by_peer(state.topics.labels(name, state.now)),
            state.by_peer(state.read(nothing, topics=(name,)).prob),
        )
        for name in state.topics.names
    ]
