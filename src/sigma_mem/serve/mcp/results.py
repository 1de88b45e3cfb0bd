"""What tools return, beside the bodies of the memory's API: short, since a model reads it."""

from typing import Any

from pydantic import BaseModel, Field

from sigma_mem.events import Decision
from sigma_mem.session.panel import Panel


class DecisionSummary(BaseModel):
    """Whom to trust, and how far."""

    decision: str = Field(description="The id of this decision, for record_feedback and explain.")
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
