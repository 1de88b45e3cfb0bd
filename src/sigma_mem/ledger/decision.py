"""Decisions and feedback as lines, and back: the edge at which arrays get the names of peers."""

from __future__ import annotations

import math

from sigma_mem.events import Decision, Feedback
from sigma_mem.ledger.lines import DecisionLine, FeedbackLine, Line
from sigma_mem.memory.combination import Standing


def decision_in(line: Line[DecisionLine]) -> Decision:
    """The decision that a line holds."""
    body = line.body
    return Decision.of(
        body,
        id=line.id,
        event=line.event,
        read=body.read,
        peer=body.chosen,
        answer=body.answer,
        confidence=body.confidence,
        propensity=body.propensity,
        tick=body.tick,
        time=body.time,
        question=body.question,
        ref=body.ref,
        topics=body.topics,
        cost=math.fsum(amount for amount, _ in body.costs.values()) if body.costs else None,
        labels={},
        answers={},
    )


def feedback_line(
    feedback: Feedback, id: str, tick: float, standing: Standing | None = None
) -> Line[FeedbackLine]:
    """Labels from one source; `id` is that of the ledger's line, `tick` the event's place.

    What the source was worth then is kept with them; a trusted one weighs 1, and nothing is kept.
    """
    body = FeedbackLine(
        labels=dict(feedback.labels),
        source=feedback.source,
        tick=tick,
        time=feedback.time,
        amends=feedback.amends,
        own=None if id == feedback.id else feedback.id,
        weight=None if standing is None else standing.weight,
        reliability=None if standing is None else standing.reliability,
        overlap={} if standing is None else dict(standing.overlap),
        told=standing is not None and standing.told,
    )
    return Line("feedback", id, feedback.event, body)


def feedback_in(line: Line[FeedbackLine]) -> Feedback:
    """The feedback that a line holds."""
    body = line.body
    return Feedback(body.own or line.id, line.event, dict(body.labels), body.source, body.time, body.amends)
