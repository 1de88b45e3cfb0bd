"""Which past events weighed how much: the terms that a score is the sum of."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.events import Decision, FloatArray
from sigma_mem.memory import Settings
from sigma_mem.memory.basis import Basis, basis
from sigma_mem.memory.topics import kernel, topic_overlap
from sigma_mem.session.event import EventState, events_of
from sigma_mem.session.lines import decided_at, decision_from
from sigma_mem.session.pool import PoolChanges
from sigma_mem.store.base import Record


@dataclass(frozen=True, slots=True)
class Contribution:
    """One past event's term η·γ^age·w·c·(φ·φ_s)² in a peer's score; topics count as in `Topics`."""

    event: str
    question: str | None
    label: float
    weight: float  # w, of who said so
    recency: float  # γ^age
    similarity: float  # (φ·φ_s)²
    share: float  # the term itself
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a peer had the score it had when a decision was made.

    Attributes
    ----------
    decision, peer, chosen : str
        The decision, the peer explained, and the peer that the decision chose.
    score, prob, effective : float
        φᵀM_pφ as the decision read it, p̂, and effective sample size.
    basis : Basis
        How much of p̂ comes from labels near φ, from the peer's overall rate, from agreement and from the
        pool, as of the decision.
    text_log_odds : float
        Log-odds by which the text of its answer spoke for it; 0 where nothing was known of that.
    contributions : tuple
        The terms that weighed most, largest first in absolute value.
    others, rest : int, float
        How many events are not listed, and the sum of their terms; score = Σ share + rest.
    served : str, optional
        Who really answered, where the caller said so.
    topics : tuple of str
        Of the decision; `topic_shares` says how far they counted: the weight of every share b, by b.
    """

    decision: str
    peer: str
    chosen: str
    score: float
    prob: float
    effective: float
    basis: Basis
    text_log_odds: float
    contributions: tuple[Contribution, ...]
    others: int
    rest: float
    served: str | None = None
    topics: tuple[str, ...] = ()
    topic_shares: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        verb = "chosen" if self.peer == self.chosen else f"not chosen ({self.chosen} was)"
        if self.served not in (None, self.chosen):
            verb += f", and {'it' if self.served == self.peer else self.served} answered instead"
        lines = [
            f"{self.peer}: {verb}; right with p = {self.prob:.2f} here, "
            f"from {self.effective:.1f} effective events (score {self.score:+.4f})",
            f"  {self.basis}",
        ]
        if self.topics:
            mean = sum(float(share) * weight for share, weight in self.topic_shares.items())
            lines.append(f"  topics {', '.join(self.topics)}: a share of {mean:.2f}, the text has the rest")
        if self.text_log_odds:
            which = "for" if self.text_log_odds > 0 else "against"
            lines.append(f"  the text of its answer speaks {which} it ({self.text_log_odds:+.2f} log-odds)")
        for term in self.contributions:
            what = "right" if term.label > 0 else "wrong" if term.label < 0 else "undecided"
            about = f" «{_short(term.question)}»" if term.question else ""
            lines.append(
                f"  {term.share:+.4f}  {what} on {term.event}{about}"
                f" (similarity {term.similarity:.2f}, recency {term.recency:.2f}"
                f"{'' if term.weight == 1.0 else f', weight {term.weight:.2f}'})"
            )
        if self.others:
            lines.append(f"  {self.rest:+.4f}  {self.others} other events")
        return "\n".join(lines)


def explain(
    decision: Record,
    before: Iterable[Record],
    settings: Settings,
    peer: str | None = None,
    top: int = 5,
    pool: PoolChanges | None = None,
) -> Explanation:
    """Take a peer's score at a decision apart, exactly.

    Parameters
    ----------
    decision : Record
        The decision's line.
    before : iterable of Record
        All lines before it.
    settings : Settings
        Of the memory.
    peer : str, optional
        The peer to explain; the chosen one by default.
    top : int
        How many terms to list.
    pool : PoolChanges, optional
        How the pool changed: what was learned before a peer was reset or replaced counts in part.
    """
    made = decision_from(decision)
    name = peer or made.peer or made.details["abstained"]["peer"]
    if name is None:
        raise InputError(
            f"decision {made.id!r} chose nobody, since no answer could be read; expected peer=, "
            f"one of {sorted(made.scores)}"
        )
    changes = PoolChanges() if pool is None else pool
    past = events_of(changes.translated(line, until=decision.seq) for line in before)
    now = decided_at(decision)
    events = {id: event for id, event in past.items() if name in event.evidence(event.labels().c)}
    ids = list(events)
    said = [event.labels() for event in events.values()]
    labels = np.array([event.c[name] for event in said])
    kept = [changes.kept_since(event.seq, [name], until=decision.seq) for event in events.values()]
    shares = [1.0 if share is None else share[0] for share in kept]
    weights = np.array([w * event.weight.get(name, 1.0) for w, event in zip(shares, said, strict=True)])
    ticks = np.array([event.tick for event in events.values()])
    phis = np.array([event.phi for event in events.values()]).reshape(len(ids), len(made.phi))
    recency = np.exp(-settings.rate * (now - ticks))
    similarity = _similarity(phis, list(events.values()), made)
    share = settings.step * recency * weights * labels * similarity
    order = np.argsort(-np.abs(share), kind="stable")[:top]
    return Explanation(
        decision=made.id,
        peer=name,
        chosen=made.peer or "nobody",
        score=made.scores.get(name, 0.0),
        prob=made.probs.get(name, math.nan),
        effective=made.effective.get(name, 0.0),
        basis=basis(
            made.effective.get(name, 0.0),
            float((recency * weights).sum()),
            *_agreement(past.values(), name, made.phi, now, settings),
            settings,
            len(made.scores),
        ),
        text_log_odds=made.details.get("text_log_odds", {}).get(name, 0.0),
        contributions=tuple(
            Contribution(
                ids[i],
                events[ids[i]].question,
                float(labels[i]),
                float(weights[i]),
                float(recency[i]),
                float(similarity[i]),
                float(share[i]),
                events[ids[i]].topics,
            )
            for i in order
        ),
        others=len(ids) - len(order),
        rest=float(share.sum() - share[order].sum()),
        topics=made.topics,
        topic_shares=made.details.get("topic_shares", {}),
    )


def _similarity(phis: FloatArray, events: Sequence[EventState], made: Decision) -> FloatArray:
    """The kernel of past events with a decision: (φ·φ_s)², mixed over the shares of topics if it has any."""
    near: FloatArray = phis @ made.phi
    if not made.topics:
        return np.square(near)
    shared = np.array([topic_overlap(event.topics, made.topics) for event in events])
    return kernel(near, shared, np.array(list(made.details["topic_shares"].values())))


def _agreement(
    past: Iterable[EventState], peer: str, phi: FloatArray, now: float, settings: Settings
) -> tuple[float, float]:
    """Decayed number of events, near φ and anywhere, in which the peer's answer was compared with others'."""
    compared = [event for event in past if settings.agreement and peer in event.agreement]
    weights = [math.exp(-settings.rate * (now - event.tick)) for event in compared]
    near = [weight * float(event.phi @ phi) ** 2 for weight, event in zip(weights, compared, strict=True)]
    return math.fsum(near), math.fsum(weights)


def _short(text: str | None, width: int = 48) -> str:
    flat = " ".join((text or "").split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
