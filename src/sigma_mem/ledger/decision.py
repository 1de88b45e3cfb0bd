"""Decisions and feedback as lines, and back: the edge at which arrays get the names of peers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_mem.answers.features import FEATURES_VERSION
from sigma_mem.events import Decision, Feedback, FloatArray
from sigma_mem.ledger.lines import (
    NOT_ASKED,
    UNREADABLE,
    DecisionLine,
    FeedbackLine,
    Line,
    PacedDecision,
    PanelPlace,
    claim_bytes,
    feature_bytes,
    phi_bytes,
    score_bytes,
)
from sigma_mem.memory.combination import Standing

_NONE: Mapping[str, Any] = {}


def decision_line(
    decision: Decision,
    now: float,
    labelled: Sequence[int],
    keep_text: bool = True,
    *,
    claims: NDArray[np.float16] | None = None,
    confidence_claims: Sequence[Any] = (),
    agreement: FloatArray | None = None,
    topic_claims: NDArray[np.float16] | None = None,
    costs: Mapping[str, tuple[float, float]] = _NONE,
    pacing: Mapping[str, Any] | None = None,
) -> Line[DecisionLine]:
    """A decision made when the memory stood at `now` on its decay axis; see `DecisionLine`.

    `labelled` says on how many events each peer was labelled. `confidence_claims` are the peer whose answer
    they are about, the claims of every temperature, and their mixture. Without text, only the groups of equal
    answers and their text features are kept. The line shares no mapping with the decision, which its caller
    may change.
    """
    peers = tuple(decision.scores)
    place = {peer: i for i, peer in enumerate(peers)}
    groups, canons = _grouped(peers, decision.canons)
    details = {key: _own(value) for key, value in decision.details.items() if key != "panel"}
    panel = decision.details.get("panel")
    certain, *certainty = confidence_claims or (None,)
    body = DecisionLine(
        now=now,
        tick=decision.tick,
        time=decision.time,
        read=decision.read,
        peers=peers,
        peer=None if decision.peer is None else place[decision.peer],
        phi=phi_bytes(decision.phi),
        scores=score_bytes(
            [*decision.scores.values(), *decision.probs.values(), *decision.effective.values()]
        ),
        labelled=_once(tuple(labelled)),
        confidence=decision.confidence,
        propensity=decision.propensity,
        question=decision.question if keep_text else None,
        answer=decision.answer if keep_text else None,
        groups=groups,
        canons=canons if keep_text else (),
        features_version=FEATURES_VERSION,
        described=tuple(place[peer] for peer in decision.features),
        features=feature_bytes([*decision.features.values()]),
        reads={read: place[peer] for read, peer in decision.reads.items()},
        claims=claim_bytes(claims),
        agreement=claim_bytes(agreement),
        certain=-1 if certain is None else place[certain],
        certainty=score_bytes(certainty) if certainty else b"",
        ref=decision.ref,
        topics=tuple(decision.topics),
        topic_claims=claim_bytes(topic_claims),
        costs=dict(costs),
        pacing=None if pacing is None else _paced(pacing),
        panel=None if panel is None else PanelPlace.of(panel, keep_text),
        details=details,
    )
    return Line("decision", decision.id, decision.event, body)


def decision_in(line: Line[DecisionLine]) -> Decision:
    """The decision that a line holds."""
    body = line.body
    peers, (scores, probs, effective) = body.peers, body.read_of_peers().tolist()
    details = {key: _own(value) for key, value in body.details.items()}
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
        reads={read: peers[place] for read, place in body.reads.items()},
        details=details if body.panel is None else {**details, "panel": body.panel.details()},
        ref=body.ref,
        topics=body.topics,
        cost=math.fsum(amount for amount, _ in body.costs.values()) if body.costs else None,
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
    )
    return Line("feedback", id, feedback.event, body)


def feedback_in(line: Line[FeedbackLine]) -> Feedback:
    """The feedback that a line holds."""
    body = line.body
    return Feedback(body.own or line.id, line.event, dict(body.labels), body.source, body.time, body.amends)


def _features(body: DecisionLine) -> dict[str, list[float]]:
    """Text features of a decision's answers; none where another version of the features was recorded."""
    if not body.described or body.features_version != FEATURES_VERSION:
        return {}
    return {body.peers[i]: row for i, row in zip(body.described, body.feature_rows().tolist(), strict=True)}


def _grouped(
    peers: Sequence[str], canons: Mapping[str, str | None]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Which answers are equal, in the order of the pool, and the canon of each group."""
    if not canons:
        return (), ()
    numbers: dict[str, int] = {}
    groups = []
    for peer in peers:
        canon = canons.get(peer)
        if canon is None:
            groups.append(UNREADABLE if peer in canons else NOT_ASKED)
        else:
            groups.append(numbers.setdefault(canon, len(numbers)))
    return tuple(groups), tuple(numbers)


def _paced(pacing: Mapping[str, Any]) -> PacedDecision:
    at = {peer: tuple(values) for peer, values in pacing["at"].items()}
    return PacedDecision(at, pacing.get("budget"), pacing.get("period", 0))


def _once(values: tuple[int, ...]) -> tuple[int, ...]:
    """Values of peers; a single one where all are equal, as they are where peers are labelled together."""
    return values[:1] if len(set(values)) == 1 else values


def _own(value: Any) -> Any:
    """A copy of mappings and lists, which whoever gets it may change; the ledger's stay as they are."""
    if isinstance(value, Mapping):
        return {key: _own(inner) for key, inner in value.items()}
    return [_own(inner) for inner in value] if isinstance(value, list | tuple) else value
