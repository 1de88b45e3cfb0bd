"""Which past events weighed how much: the terms that a score is the sum of."""

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.events import Decision, FloatArray
from sigma_mem.ledger.decision import decision_in
from sigma_mem.ledger.event import EventState, events_of
from sigma_mem.ledger.lines import DecisionLine, FeedbackLine, ForgottenLine, Line, RevokeLine
from sigma_mem.ledger.pool import PoolChanges
from sigma_mem.ledger.records import Ledger
from sigma_mem.memory import Settings
from sigma_mem.memory.topics import topic_kernel, topic_overlap

_PAGE = 512  # lines
_PLACED = (DecisionLine, FeedbackLine, ForgottenLine)  # on the decay axis


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
        return (
            f"on tasks like this one right about {self.right:.0f} and wrong about {self.wrong:.0f} times; "
            f"{self.prior:.0%} of p is its overall rate on what it was asked ({self.labels} labels)"
        )


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
        How often it was right on tasks like this one, and how much of p̂ is prior.
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
        All lines before it, the newest page first, the lines of a page in order; see `pages_before`.
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
    near = made.effective[name]
    return Explanation(
        decision=made.id,
        peer=name,
        chosen=made.peer or "nobody",
        score=made.scores[name],
        prob=made.probs[name],
        effective=near,
        basis=_basis(made, name, settings, near, events),
        text_log_odds=made.details.get("text_log_odds", {}).get(name, 0.0),
        contributions=tuple(listed),
        others=events - len(listed),
        rest=made.scores[name] - math.fsum(term.share for term in listed),
        topics=made.topics,
        topic_shares=made.details.get("topic_shares", {}),
    )


def _basis(made: Decision, peer: str, settings: Settings, near: float, events: int) -> Basis:
    """Labels near φ, split by how far they were right, and what the prior weighs beside them."""
    left = made.effective.get(peer, 0.0)
    mean = made.scores.get(peer, 0.0) / settings.step / left if left > 0.0 else 0.0
    right = near * min(max(0.5 + 0.5 * mean, 0.0), 1.0)
    strength = settings.local_strength(len(made.scores))
    return Basis(right, near - right, events, strength / (near + strength))


def pages_before(ledger: Ledger, seq: int) -> Iterator[Sequence[Line[Any]]]:
    """Lines of a namespace before line `seq`, the newest page first, the lines of a page in order."""
    size, end = _PAGE, seq - 1
    while end > 0:
        start = max(0, end - size)
        page = list(ledger.lines(after=start, until=end))
        yield page
        if 2 * len(page) < _PAGE:  # most lines between are of other namespaces
            size *= 2
        end = start


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
        self._heard: dict[str, bool] = {}  # whether a source counts: its newest revocation says so
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
            kept = self._pool.kept_since(event.seq, [self._peer], until=self._line.seq)
            weight = 1.0 if kept is None else kept[0]
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
        # A label, its weight and the kernel are at most 1, but for the rounding of φ.
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


def _short(text: str | None, width: int = 48) -> str:
    flat = " ".join((text or "").split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
