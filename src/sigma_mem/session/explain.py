"""Which past events weighed how much: the terms that a score is the sum of."""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.events import Decision, FloatArray, shortened
from sigma_mem.ledger.decision import decision_in
from sigma_mem.ledger.event import EventState, events_of
from sigma_mem.ledger.lines import (
    DecisionLine,
    FeedbackLine,
    ForgottenLine,
    Line,
    RevokeLine,
    claims_in,
)
from sigma_mem.ledger.pool import PoolChanges
from sigma_mem.memory import Settings
from sigma_mem.memory.regression import RIDGE
from sigma_mem.memory.topics import FEW, topic_kernel, topic_overlap
from sigma_mem.tabular import Tabular

_APART = 0.02  # difference of two claims that rounding leaves visible
_PLACED = (DecisionLine, FeedbackLine, ForgottenLine)  # on the decay axis


@dataclass(frozen=True, slots=True)
class Contribution:
    """One past event's term η·γ^age·w·c·(φ·φ_s)² in a peer's score; topics count as in `Topics`."""

    event: str
    question: str | None
    label: float
    weight: float  # w, of the source
    recency: float  # γ^age
    similarity: float  # (φ·φ_s)²
    share: float  # the term itself
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Basis:
    """What a peer's p̂ at a task rests on, as of the decision.

    Attributes
    ----------
    right, wrong : float
        Effective number of labels of tasks like this one, as far as they are not forgotten.
    labels : int
        Events on which it was labelled at all.
    prior : float
        Share of p̂ that is the peer's overall rate, because too few such tasks are labelled.
    """

    right: float
    wrong: float
    labels: int
    prior: float

    def __str__(self) -> str:
        if not self.labels:
            return "it has no label yet: p is the level of the pool"
        return (
            f"on tasks like this one right about {self.right:.0f} and wrong about {self.wrong:.0f} times; "
            f"{self.prior:.0%} of p is its overall rate on what it was asked ({self.labels} labels)"
        )


@dataclass(frozen=True, slots=True)
class Explanation(Tabular):
    """Why a peer had the score it had when a decision was made.

    Attributes
    ----------
    decision, peer, chosen : str
        The decision, the peer explained, and the peer that the decision chose.
    score, prob, effective : float
        φᵀM_pφ as the decision read it, p̂, and effective sample size.
    basis : Basis
        How often it was right on tasks like this one, and how much of p̂ is prior.
    text_log_odds : float
        Log-odds that the text of its answer added; 0 if nothing was known about that.
    contributions : tuple
        The terms that weighed most, largest first in absolute value.
    others, rest : int, float
        How many events are not listed, and the sum of their terms; score = Σ share + rest.
    served : str, optional
        The peer that really answered, if the caller reported it.
    topics : tuple of str
        Of the decision; `topic_shares` is how far they counted: the weight of every share b, by b.
    verdicts : mapping
        The score that every judge gave its answer, and the log-odds that this was worth: judge → (score,
        log-odds).
    note : str, optional
        What the caller noted with the decision: what held a conversation on its peer, for example.
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
    verdicts: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    note: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row a term."""
        return [asdict(term) for term in self.contributions]

    def to_dict(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)

    def _caption(self) -> str:
        return str(self).partition("\n")[0]

    def __str__(self) -> str:
        verb = "chosen" if self.peer == self.chosen else f"not chosen ({self.chosen} was)"
        if self.served not in (None, self.chosen):
            verb += f", and {'it' if self.served == self.peer else self.served} answered instead"
        lines = [
            f"{self.peer}: {verb}; right with p = {self.prob:.2f} here, "
            f"from {self.effective:.1f} effective events (score {self.score:+.4f})",
            f"  {self.basis}",
        ]
        if self.note:
            lines.append(f"  noted with the decision: {self.note}")
        if self.topics:
            mean = sum(float(share) * weight for share, weight in self.topic_shares.items())
            lines.append(f"  topics {', '.join(self.topics)}: a share of {mean:.2f}, the text has the rest")
        if self.text_log_odds:
            which = "for" if self.text_log_odds > 0 else "against"
            lines.append(f"  the text of its answer speaks {which} it ({self.text_log_odds:+.2f} log-odds)")
        for judge, (score, worth) in self.verdicts.items():
            which = "for it" if worth > 0 else "against it" if worth < 0 else "neither for nor against it"
            lines.append(f"  judge {judge} gave {score:.3g}, which speaks {which} ({worth:+.2f} log-odds)")
        for term in self.contributions:
            what = "right" if term.label > 0 else "wrong" if term.label < 0 else "undecided"
            about = f" «{shortened(term.question)}»" if term.question else ""
            lines.append(
                f"  {term.share:+.4f}  {what} on {term.event}{about}"
                f" (similarity {term.similarity:.2f}, recency {term.recency:.2f}"
                f"{'' if term.weight == 1.0 else f', weight {term.weight:.2f}'})"
            )
        if self.others:
            lines.append(f"  {self.rest:+.4f}  {self.others} other events")
        elif abs(self.rest) > 1e-6:
            lines.append(f"  {self.rest:+.4f}  the record of another peer, like which it started")
        return "\n".join(lines)


def explain(
    decision: Line[DecisionLine],
    pages: Iterable[Sequence[Line[Any]]],
    settings: Settings,
    peer: str | None = None,
    top: int = 5,
    pool: PoolChanges | None = None,
) -> Explanation:
    """Take a peer's score at a decision apart, exactly.

    Older events weigh less and less. So pages are read until no older event can weigh as much as those found;
    how many there are and what they rest on is in the decision's line.

    Parameters
    ----------
    decision : Line
        The decision's line.
    pages : iterable of sequences of Line
        All lines before it, the newest page first, the lines of a page in order; see `pages_back`.
    settings : Settings
        Of the memory.
    peer : str, optional
        The peer to explain; the chosen one by default.
    top : int
        How many terms to list.
    pool : PoolChanges, optional
        How the pool changed: what was learned before a peer was reset or replaced counts in part.
    """
    made = decision_in(decision)
    name = peer or made.peer or made.details["abstained"]["peer"]
    if name is None:
        raise InputError(
            f"decision {made.id!r} chose nobody, since no answer could be read; expected peer=, "
            f"one of {sorted(made.scores)}"
        )
    events = decision.body.events_of(name)
    past = _Past(decision, made, name, settings, top, PoolChanges() if pool is None else pool)
    for page in pages:
        past.add(page)
        if past.is_settled():
            break
    listed = past.listed()
    return Explanation(
        decision=made.id,
        peer=name,
        chosen=made.peer or "nobody",
        score=made.scores[name],
        prob=made.probs[name],
        effective=made.effective[name],
        basis=_basis(made, decision.body, name, settings, events),
        text_log_odds=made.details.get("text_log_odds", {}).get(name, 0.0),
        contributions=tuple(listed),
        others=events - len(listed),
        rest=made.scores[name] - math.fsum(term.share for term in listed),
        topics=made.topics,
        topic_shares=made.details.get("topic_shares", {}),
        verdicts=_verdicts(made, name),
        note=made.details.get("note"),
    )


def _verdicts(made: Decision, peer: str) -> dict[str, tuple[float, float]]:
    worth = made.details.get("verdicts", {})
    return {
        judge: (said[peer], worth.get(judge, {}).get(peer, 0.0))
        for judge, said in made.verdicts.items()
        if peer in said
    }


def _basis(made: Decision, line: DecisionLine, peer: str, settings: Settings, events: int) -> Basis:
    """Labels near φ, split by how far they were right, and what the prior weighs compared with them."""
    near = made.effective[peer]
    mean = made.scores[peer] / settings.step / near if near > 0.0 else 0.0
    right = near * min(max(0.5 + 0.5 * mean, 0.0), 1.0)
    strength = settings.local_strength(len(made.scores))
    regressed = _of_regression(made, line, peer, settings)
    prior = (1.0 - regressed) * strength / (near + strength) + regressed * RIDGE / (near + RIDGE)
    if made.topics:
        of_text = made.details["topic_shares"]["0"]
        prior *= of_text + (1.0 - of_text) * FEW / (near + FEW)
    return Basis(right, near - right, events, prior)


def _of_regression(made: Decision, line: DecisionLine, peer: str, settings: Settings) -> float:
    """Weight of the regression against the kernel mean, by what both claimed; 0 if that is the same."""
    if not settings.regression or not line.claims:
        return 0.0
    claims = claims_in(line.claims, len(line.peers))[line.peers.index(peer)].astype(float)
    kernel, regression = claims[:2]
    near = claims[1 + len(settings.horizons)] if len(claims) > 2 else 2.0 * made.probs[peer] - 1.0
    if not abs(regression - kernel) > _APART:  # nor if the peer was unknown: NaN
        return 0.0
    return min(max(float((near - kernel) / (regression - kernel)), 0.0), 1.0)


class _Past:
    """Events before a decision, the newest first, and what each contributes to a peer's score."""

    def __init__(
        self,
        line: Line[DecisionLine],
        made: Decision,
        peer: str,
        settings: Settings,
        top: int,
        pool: PoolChanges,
    ) -> None:
        self._line, self._made, self._peer, self._settings, self._pool = line, made, peer, settings, pool
        self._top = top
        self._now = line.body.now
        self._waiting: dict[str, list[Line[Any]]] = {}  # lines of events whose first one was not read yet
        self._heard: dict[str, bool] = {}  # whether a source counts, by its newest revocation
        self._oldest = math.inf  # no event that was not read yet has a later tick
        self._largest: list[tuple[float, int, Contribution]] = []

    def add(self, page: Sequence[Line[Any]]) -> None:
        """Take in an older page."""
        begun: list[str] = []
        for line in reversed(page):
            if isinstance(line.body, RevokeLine):
                self._heard.setdefault(line.body.of, line.kind == "unrevoke")
            if line.kind == "decision":
                self._oldest = min(self._oldest, line.body.now)
                if line.id == line.event:
                    begun.append(line.event)
            if line.event:
                self._waiting.setdefault(line.event, []).append(line)
        silent = {source for source, heard in self._heard.items() if not heard}
        found = []
        for id in begun:
            lines = [self._pool.translated(x, self._line.seq) for x in reversed(self._waiting.pop(id))]
            for event in events_of(lines, silent).values():
                found.append((id, event))
        if found:
            self._weigh(found)

    def _weigh(self, found: Sequence[tuple[str, EventState]]) -> None:
        """Add what each of these events contributes."""
        made, settings = self._made, self._settings
        events = [event for _, event in found]
        near = np.array([event.phi for event in events]) @ made.phi
        kernels = _similarity(near, events, made)
        for i, (id, event) in enumerate(found):
            kept = self._pool.shares_since(event.seq, [self._peer], until=self._line.seq)
            weight = 1.0 if kept is None else kept.item()
            said = event.labels()
            if self._peer not in event.evidence(said.c):
                continue
            weight *= said.weight.get(self._peer, 1.0)
            label, recency, similarity = said.c[self._peer], self._recency(event.tick), float(kernels[i])
            share = settings.step * recency * weight * label * similarity
            term = Contribution(id, event.question, label, weight, recency, similarity, share, event.topics)
            self._largest.append((-abs(share), event.seq, term))
        self._largest = heapq.nsmallest(self._top, self._largest, key=itemgetter(0, 1))

    def _recency(self, tick: float) -> float:
        return math.exp(-self._settings.rate * (self._now - tick))

    def is_settled(self) -> bool:
        """Whether no event that was not read yet can weigh as much as those that are listed."""
        if not self._largest or len(self._largest) < self._top:
            return self._top == 0
        waiting = (line.body for lines in self._waiting.values() for line in lines)
        ticks = [body.tick for body in waiting if isinstance(body, _PLACED) and body.tick is not None]
        latest = max(self._oldest, *ticks, -math.inf)
        # A label, its weight and the kernel are at most 1, except for the rounding of φ.
        return 1.001 * self._settings.step * self._recency(latest) < -self._largest[-1][0]

    def listed(self) -> list[Contribution]:
        """The terms that weigh most, the largest first."""
        return [term for _, _, term in self._largest]


def _similarity(near: FloatArray, events: Sequence[EventState], made: Decision) -> FloatArray:
    """The kernel of past events with a decision: (φ·φ_s)², mixed over the shares of topics if it has any."""
    if not made.topics:
        return np.square(near)
    shared = np.array([topic_overlap(event.topics, made.topics) for event in events])
    return topic_kernel(near, shared, np.array(list(made.details["topic_shares"].values())))
