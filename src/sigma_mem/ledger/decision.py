"""Decisions and feedback as lines, and back: the edge at which arrays get the names of peers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sigma_mem.answers.features import FEATURES_VERSION
from sigma_mem.events import Decision, Feedback
from sigma_mem.ledger.lines import DecisionLine, FeedbackLine, Line
from sigma_mem.memory.combination import Standing

_NONE: Mapping[str, Any] = {}


def decision_in(line: Line[DecisionLine]) -> Decision:
    """The decision that a line holds."""
    body = line.body
    peers, (scores, probs, effective) = body.peers, body.read_of_peers().tolist()
    details = {key: _own(value) for key, value in body.details.items()}
    if body.votes:
        details["votes"] = body.chosen_by_vote()
    return Decision(
        id=line.id,
        event=line.event,
        read=body.read,
        phi=body.direction(),
        peer=body.chosen,
        answer=body.answer,
        scores=dict(zip(peers, scores, strict=True)),
        probs=dict(zip(peers, probs, strict=True)),
        effective=dict(zip(peers, effective, strict=True)),
        confidence=body.confidence,
        propensity=body.propensity,
        tick=body.tick,
        time=body.time,
        question=body.question,
        canons=body.canons_by_peer(),
        features=_features(body),
        details=details if body.panel is None else {**details, "panel": body.panel.details()},
        ref=body.ref,
        topics=body.topics,
        cost=math.fsum(amount for amount, _ in body.costs.values()) if body.costs else None,
        verdicts=body.verdicts_by_peer() if body.verdicts else {},
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


def _features(body: DecisionLine) -> dict[str, list[float]]:
    """Text features of a decision's answers; none if another version of the features was recorded."""
    if not body.described or body.features_version != FEATURES_VERSION:
        return {}
    return {body.peers[i]: row for i, row in zip(body.described, body.feature_rows().tolist(), strict=True)}


def _own(value: Any) -> Any:
    """A copy of mappings and lists, which callers may change; the ledger's stay as they are."""
    if isinstance(value, Mapping):
        return {key: _own(inner) for key, inner in value.items()}
    return [_own(inner) for inner in value] if isinstance(value, list | tuple) else value
