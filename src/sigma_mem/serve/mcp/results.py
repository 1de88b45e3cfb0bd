"""What tools return, beside the bodies of the memory's API: short, since a model reads it."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sigma_mem.events import Decision, Feedback
from sigma_mem.session import Explanation, TrustByPeer
from sigma_mem.session.panel import Panel


class DecisionSummary(BaseModel):
    """Whom to trust, and how far."""

    decision: str = Field(description="The id of this decision, for feedback and explain.")
    event: str = Field(description="The event: the id of its first decision.")
    ref: str | None = Field(description="The caller's own name of the event.")
    peer: str | None = Field(description="Whom to trust; null where the decision abstains.")
    answer: str | None = Field(description="That peer's answer; null for a route.")
    confidence: float = Field(description="How sure the decision is, from 0 to 1.")
    probs: dict[str, float] = Field(description="Probability of being right here, by peer.")
    evidence: dict[str, float] = Field(description="How many labelled events are behind that, by peer.")
    read: str = Field(description="How it was chosen.")
    cost: float | None = Field(description="What the event's calls cost, or are expected to.")
    abstained: str | None = Field(None, description="Why nobody was chosen.")


class PanelStep(BaseModel):
    """Where a panel stands: whom to ask now, or the outcome."""

    ref: str = Field(description="Names the panel, for add_answer.")
    next: str | None = Field(description="The peer to ask now; null once the answers are enough.")
    change: float = Field(description="The chance that the peers not asked would change the answer.")
    asked: list[str] = Field(description="Peers whose answer is there.")
    decision: DecisionSummary = Field(description="The choice among the answers so far.")


class ExplanationBody(BaseModel):
    """Why a peer had the score it had: terms of past events."""

    model_config = ConfigDict(extra="allow")
    decision: str
    peer: str
    chosen: str
    score: float
    prob: float
    effective: float
    text: str = Field(description="The same in words.")


class TrustBody(BaseModel):
    """How far each peer can be trusted."""

    events: int
    votes: float | None = Field(description="Independent votes that an agreement of all peers is worth.")
    peers: dict[str, dict[str, Any]]
    topics: dict[str, dict[str, dict[str, Any]]]


class FeedbackBody(BaseModel):
    """Feedback as it was taken; it is on disk."""

    id: str
    event: str
    labels: dict[str, float]
    source: str
    time: float
    amends: bool


# What a tool's result looks like; any other is an object.
RESULTS: Mapping[type, type[BaseModel]] = {
    Decision: DecisionSummary,
    Explanation: ExplanationBody,
    TrustByPeer: TrustBody,
    Feedback: FeedbackBody,
}


def decision_summary(decision: Decision) -> DecisionSummary:
    """A decision without φ and what else only programs need."""
    why: dict[str, Any] = decision.details.get("abstained", {})
    return DecisionSummary(
        decision=decision.id,
        event=decision.event,
        ref=decision.ref,
        peer=decision.peer,
        answer=decision.answer,
        confidence=decision.confidence,
        probs=dict(decision.probs),
        evidence=dict(decision.effective),
        read=decision.read,
        cost=decision.cost,
        abstained=why.get("because", "not sure enough") if decision.peer is None else None,
    )


def panel_step(ref: str, panel: Panel) -> PanelStep:
    """Where a panel stands."""
    return PanelStep(
        ref=ref,
        next=panel.next,
        change=panel.change,
        asked=list(panel.answers),
        decision=decision_summary(panel.decision),
    )
