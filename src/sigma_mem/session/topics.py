"""Topics of a task at a decision: checked against its event, and recorded."""

from collections.abc import Sequence
from typing import Any

from sigma_mem.errors import InputError
from sigma_mem.ledger.event import EventState
from sigma_mem.memory.topics import SHARES, TopicReading

Topic = str | Sequence[str]  # one, or several


def topics_of_event(event: EventState, earlier: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """The topics that an event has; InputError where others are given with a later decision on it."""
    if given and given != event.topics:
        has = f"the topics {list(event.topics)}" if event.topics else "no topic"
        raise InputError(
            f"topic is {list(given)}, and the event of decision {earlier!r} has {has}; "
            "leave out topic, or leave out after and ref for a new event"
        )
    return event.topics


def share_details(reading: TopicReading) -> dict[str, Any]:
    """What a decision keeps of how far the topics counted: the weight of every share."""
    names = [f"{share:g}" for share in SHARES.tolist()]
    return {"topic_shares": dict(zip(names, reading.weights.tolist(), strict=True))}
