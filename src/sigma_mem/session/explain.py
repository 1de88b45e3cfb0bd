"""Which past events weighed how much: a score taken apart into the terms it is the sum of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sigma_mem.memory import Settings
from sigma_mem.session.fold import Entry
from sigma_mem.store.base import Record
from sigma_mem.store.codec import phi_from_bytes

__all__ = ["Contribution", "Explanation", "explain"]


@dataclass(frozen=True, slots=True)
class Contribution:
    """One past event's term η·γ^age·c·(φ·φ_s)² in a peer's score."""

    event: str
    question: str | None
    label: float
    recency: float  # γ^age
    similarity: float  # (φ·φ_s)²
    share: float  # the term itself


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a peer had the score it had when a decision was made.

    Attributes
    ----------
    decision, peer, chosen : str
        The decision, the peer explained, and the peer that the decision chose.
    score, prob, effective : float
        φᵀM_pφ as the decision read it, p̂, and effective sample size.
    lean : float
        Log-odds by which the way its answer is written spoke for it; 0 where nothing was known of that.
    contributions : tuple
        The terms that weighed most, largest first in absolute value.
    others, rest : int, float
        How many events are not listed, and the sum of their terms; score = Σ share + rest.
    """

    decision: str
    peer: str
    chosen: str
    score: float
    prob: float
    effective: float
    lean: float
    contributions: tuple[Contribution, ...]
    others: int
    rest: float

    def __str__(self) -> str:
        verb = "chosen" if self.peer == self.chosen else f"not chosen ({self.chosen} was)"
        lines = [
            f"{self.peer}: {verb}; right with p = {self.prob:.2f} here, "
            f"from {self.effective:.1f} effective events (score {self.score:+.4f})"
        ]
        if self.lean:
            kind = "right" if self.lean > 0 else "wrong"
            lines.append(f"  its answer is written like {kind} ones ({self.lean:+.2f} log-odds)")
        for term in self.contributions:
            what = "right" if term.label > 0 else "wrong" if term.label < 0 else "undecided"
            about = f" «{_short(term.question)}»" if term.question else ""
            lines.append(
                f"  {term.share:+.4f}  {what} on {term.event}{about}"
                f" (similarity {term.similarity:.2f}, recency {term.recency:.2f})"
            )
        if self.others:
            lines.append(f"  {self.rest:+.4f}  {self.others} other events")
        return "\n".join(lines)


def explain(
    decision: Record, before: Sequence[Record], settings: Settings, peer: str | None = None, top: int = 5
) -> Explanation:
    """Take a peer's score at a decision apart, exactly.

    Parameters
    ----------
    decision : Record
        The decision's line.
    before : sequence of Record
        All lines before it.
    settings : Settings
        Of the memory.
    peer : str, optional
        The peer to explain; the chosen one by default.
    top : int
        How many terms to list.
    """
    body = decision.body
    name = body["peer"] if peer is None else peer
    phi = phi_from_bytes(decision.phi)
    events, questions = _labelled(before, name)
    if events:
        phis = np.array([entry.phi for entry in events.values()])
        labels = np.array([entry.labels()[name] for entry in events.values()])
        ticks = np.array([entry.tick for entry in events.values()])
        recency = np.exp(-settings.rate * (body["now"] - ticks))
        similarity = np.square(phis @ phi)
        share = settings.step * recency * labels * similarity
    else:
        labels = recency = similarity = share = np.zeros(0)
    order = np.argsort(-np.abs(share), kind="stable")[:top]
    ids = list(events)
    return Explanation(
        decision=decision.id,
        peer=name,
        chosen=body["peer"],
        score=body["scores"].get(name, 0.0),
        prob=body["probs"].get(name, math.nan),
        effective=body["effective"].get(name, 0.0),
        lean=body["details"].get("lean", {}).get(name, 0.0),
        contributions=tuple(
            Contribution(
                ids[i],
                questions.get(ids[i]),
                float(labels[i]),
                float(recency[i]),
                float(similarity[i]),
                float(share[i]),
            )
            for i in order
        ),
        others=len(ids) - len(order),
        rest=float(share.sum() - share[order].sum()),
    )


def _labelled(before: Sequence[Record], peer: str) -> tuple[dict[str, Entry], dict[str, str | None]]:
    """Events with a label of `peer` at that time, in order, and what they asked."""
    entries: dict[str, Entry] = {}
    questions: dict[str, str | None] = {}
    for line in before:
        if line.kind == "decision" and line.event not in entries:
            entries[line.event] = Entry(phi_from_bytes(line.phi), line.body["tick"])
            questions[line.event] = line.body["question"]
        elif line.kind == "feedback":
            entries[line.event].tick = line.body["tick"]
            entries[line.event].say(line.body["labels"], line.body["source"])
        elif line.kind == "revoke":
            for entry in entries.values():
                entry.unsay(line.body["source"])
    return {event: entry for event, entry in entries.items() if peer in entry.labels()}, questions


def _short(text: str | None, width: int = 48) -> str:
    flat = " ".join((text or "").split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
