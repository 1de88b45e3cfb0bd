"""One event as its lines describe it: its place, what was answered and claimed, its labels by source."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.answers.features import FEATURES_VERSION
from sigma_mem.events import FloatArray
from sigma_mem.ledger.lines import (
    NOT_ASKED,
    UNREADABLE,
    Body,
    Charge,
    DecisionLine,
    FeedbackLine,
    Line,
    RevokeLine,
    ServedLine,
    claims_in,
)
from sigma_mem.memory.ballots import answer_opinions, opinions_of_peers
from sigma_mem.memory.combination import Comparison, Standing, combined, comparisons

_NONE: Mapping[str, Any] = {}


class EventLabels(NamedTuple):
    """Labels of an event by peer, and how much evidence each is; no weights if all are 1."""

    c: Mapping[str, float]
    weight: Mapping[str, float] = _NONE


class Answered:
    """What a decision records of the answers it was given, in the order of its pool."""

    def __init__(self, body: DecisionLine, before: Answered | None = None) -> None:
        self.body = body
        self.peers, self.groups = body.peers, body.groups
        self.mixed = body  # the decision that mixed votes on these answers
        if not body.votes and before is not None and before.body.same_answers(body):
            self.mixed = before.mixed
        self.fair = None if body.panel is None else body.panel.fair
        if body.agreement and self.fair is None:  # recorded, since it depends on which peers copy
            self.agreement: list[float] = claims_in(body.agreement, 1)[0].tolist()
        else:
            self.agreement = agreement_of(self.compared)
        described = body.features_version == FEATURES_VERSION
        self.described = body.described if described else ()  # places of answers with text features
        self.features = body.feature_rows() if self.described else None  # of these, (answers, S)

    @property
    def compared(self) -> Sequence[int]:
        """Groups of answers that show which peers copy: not of peers asked because of other answers."""
        if self.fair is None:
            return self.groups
        return [g if p in self.fair else NOT_ASKED for p, g in zip(self.peers, self.groups, strict=True)]

    def groups_among(self, peers: tuple[str, ...], groups: Sequence[int] | None = None) -> Sequence[int]:
        """Answer groups of these peers; −1 unreadable, −2 not asked."""
        given = self.groups if groups is None else groups
        if peers == self.peers:
            return given
        by_peer = dict(zip(self.peers, given, strict=True))
        return [by_peer.get(peer, NOT_ASKED) for peer in peers]

    def opinions_among(self, peers: tuple[str, ...]) -> FloatArray | None:
        """Opinions of the answer that each of these peers gave, (opinions, P); None without a mixture."""
        if not self.mixed.votes:
            return None
        opinions = answer_opinions(self.mixed.vote_totals().astype(np.float64))
        return opinions_of_peers(opinions, np.array(self.groups_among(peers)))

    def agreement_among(self, peers: tuple[str, ...]) -> Sequence[float]:
        """Agreement labels of these peers, then of others that answered; NaN for one that gave no answer."""
        if peers == self.peers:
            return self.agreement
        by_peer = dict(zip(self.peers, self.agreement, strict=True))
        own = [by_peer.pop(peer, math.nan) for peer in peers]
        return [*own, *by_peer.values()]

    def text_agreement(self) -> FloatArray:
        """Agreement labels of the answers that have text features."""
        return np.array([self.agreement[place] for place in self.described])

    def errors(self, labels: Mapping[str, float]) -> FloatArray:
        """How right every peer's answer was, from 0 to 1, less p̂; NaN if it has no label."""
        c = np.array([labels.get(peer, math.nan) for peer in self.peers])
        out: FloatArray = 0.5 + 0.5 * c - self.body.read_of_peers()[1]
        return out

    def residuals(self, labels: Mapping[str, float]) -> FloatArray:
        """c − (2p̂ − 1) of every answer with text features; NaN if it has no label."""
        probs = self.body.read_of_peers()[1]
        peers = self.peers
        return np.array(
            [labels.get(peers[i], math.nan) - 2.0 * probs[i] + 1.0 for i in self.described], dtype=np.float64
        )


class EventState:
    """An event as its lines describe it: its place, what was answered, and its labels by source."""

    answered: Answered | None = None  # the last answers before the first label
    early: Mapping[str, Mapping[str, float]] = _NONE  # labels given before those of a trusted source
    standings: Mapping[str, Standing] = _NONE  # of sources that were not trusted
    lines = 0  # of feedback
    served: Mapping[str, str] = _NONE  # decision → the peer that really answered
    served_lines = 0
    vouched: Mapping[str, str] = _NONE  # the same, by trusted sources only
    charges: Mapping[str, Charge] = _NONE  # by peer
    bills: tuple[tuple[ServedLine, float], ...] = ()  # reports of who answered, and their ticks
    guess: Mapping[str, float] = _NONE  # p̂ by which a cost-aware route explored
    _phi: FloatArray | None = None

    def __init__(self, first: DecisionLine, seq: int) -> None:
        self.first, self.seq = first, seq
        self.tick = first.tick
        self.said: dict[str, Mapping[str, float]] = {}  # source → peer → c
        self._claimed = first  # the decision whose claims are scored

    @property
    def phi(self) -> FloatArray:
        """φ of the event, to read."""
        if self._phi is None:
            self._phi = self.first.direction()
        return self._phi

    @property
    def question(self) -> str | None:
        """What was asked, as far as texts are kept."""
        return self.first.question

    @property
    def topics(self) -> tuple[str, ...]:
        """What the caller knew of the task's kind."""
        return self.first.topics

    def apply(self, line: Line[Body], silent: Collection[str] = ()) -> None:
        """Take in one of the event's lines; of reports of a `silent` source nothing but that they came."""
        body = line.body
        if isinstance(body, FeedbackLine):
            self.tick = body.tick
            self.lines += 1
            if body.source not in silent:
                self._label(body)
        elif isinstance(body, ServedLine):
            self.served_lines += 1
            if body.source not in silent:
                self._serve(body)
        elif isinstance(body, DecisionLine):
            if body.pacing is not None and not self.lines:
                self.guess = {peer: x[0] for peer, x in body.pacing.at.items()}
            if body.costs:
                self._charge(body)
            # Labels are about the last answers before the first label, so that what a correction or
            # a revocation takes back is what was written.
            if body.groups and not self.lines:
                self.answered = Answered(body, self.answered)
                self._claimed = body

    def _label(self, body: FeedbackLine) -> None:
        before = self.said.get(body.source)
        self.said[body.source] = body.labels if before is None else {**before, **body.labels}
        if body.weight is None:
            return
        if before is None:
            standing = Standing(body.weight, body.reliability, body.overlap)
            self.standings = {**self.standings, body.source: standing}
        if not body.told:
            self.early = {**self.early, body.source: {**self.early.get(body.source, _NONE), **body.labels}}

    def _charge(self, body: DecisionLine) -> None:
        """A decision sends the task to peers that were not asked yet."""
        pacing = body.pacing
        budget = None if pacing is None or pacing.budget is None else (pacing.budget, pacing.period)
        asked = {
            peer: Charge(amount, base, body.time, self.tick, amount, budget)
            for peer, (amount, base) in body.costs.items()
        }
        self.charges = {**asked, **self.charges}

    def _serve(self, body: ServedLine) -> None:
        """A peer answered; one that a route chose instead was not called."""
        decision, peer, cost = body.decision, body.peer, body.cost
        self.bills = (*self.bills, (body, self.tick))
        if body.weight is None:
            self.vouched = {**self.vouched, decision: peer}
        elif decision in self.vouched:
            return
        charges = dict(self.charges)
        instead = None if body.chosen is None else self.served.get(decision, body.chosen)
        dropped = None if instead is None or instead == peer else charges.pop(instead, None)
        amount, base = body.expected
        known = charges.get(peer)
        if known is None and (cost is not None or amount):
            place = dropped or Charge(0.0, 0.0, body.time, self.tick, 0.0)
            known = place._replace(amount=amount, base=base, expected=amount, real=False)
        if known is not None:
            charges[peer] = known if cost is None else known.reported(cost, body.weight)
        self.charges = charges
        self.served = {**self.served, decision: peer}

    def evidence(self, labels: Mapping[str, float]) -> Mapping[str, float]:
        """The labels that show how good their peers are.

        A panel asks on if a task looks hard, so peers it asked later seem worse than they are. If only peers
        that were asked are labelled, the first ones' labels alone are a fair sample.
        """
        answered = self.answered
        if answered is None or answered.fair is None:
            return labels
        asked = {p for p, g in zip(answered.peers, answered.groups, strict=True) if g != NOT_ASKED}
        if any(peer not in asked for peer in labels):
            return labels
        return {peer: labels[peer] for peer in answered.fair if peer in labels}

    def claimed(self, peers: tuple[str, ...]) -> NDArray[np.float16] | None:
        """What was claimed of these peers, (P, K); NaN for one that was not in the pool."""
        return _among(self._claimed.claims, self._claimed.peers, peers)

    def topics_claimed(self, peers: tuple[str, ...]) -> NDArray[np.float16] | None:
        """What every share of the topics claimed of these peers, (P, B); NaN for one not in the pool."""
        return _among(self._claimed.topic_claims, self._claimed.peers, peers)

    def labels(self) -> EventLabels:
        """The event's labels: if several sources labelled a peer, their weighted mean, so that |c| ≤ 1."""
        one = len(self.said) == 1
        if self.standings and not (one and next(iter(self.standings.values())).weight == 1.0):
            return EventLabels(*combined(self.said, self.standings))
        if one:
            return EventLabels(next(iter(self.said.values())))
        by_peer: dict[str, list[float]] = {}
        for labels in self.said.values():
            for peer, c in labels.items():
                by_peer.setdefault(peer, []).append(c)
        return EventLabels({peer: sum(every) / len(every) for peer, every in by_peer.items()})

    def compared(self, of: str) -> Comparison:
        """What the event shows about its sources, as far as it depends on this one."""
        answered = self.answered
        agreement: Mapping[str, float] = _NONE
        if answered is not None:
            by_peer = zip(answered.peers, answered.agreement, strict=True)
            agreement = {peer: a for peer, a in by_peer if a == a}  # not NaN
        return comparisons(self.said, self.early, self.standings, agreement, of)

    def answer_label(self, peer: str, labels: Mapping[str, float]) -> float:
        """How right a peer's answer was: its label, or that of a peer that gave the same answer; or NaN."""
        answered = self.answered
        if peer in labels or answered is None or peer not in answered.peers:
            return labels.get(peer, math.nan)
        group = answered.groups[answered.peers.index(peer)]
        if group < 0:  # an unreadable answer equals no other
            return math.nan
        same = {p for p, g in zip(answered.peers, answered.groups, strict=True) if g == group}
        return next((c for other, c in labels.items() if other in same), math.nan)


def agreement_of(groups: Sequence[int]) -> list[float]:
    """Agreement label of every peer; NaN for one that was not asked, or if fewer than two can be read.

    `agreement_labels` of one event, in a tenth of its time: every line with answers needs it, also on replay.

    >>> agreement_of([0, 0, 1, -2])
    [0.0, 0.0, -1.0, nan]
    """
    given = [group for group in groups if group >= 0]
    others = len(given) - 1
    if others < 1:
        return [math.nan] * len(groups)
    apart = {NOT_ASKED: math.nan, UNREADABLE: -1.0}
    return [
        apart[group] if group in apart else 2.0 * (given.count(group) - 1) / others - 1.0 for group in groups
    ]


def _among(raw: bytes, then: tuple[str, ...], peers: tuple[str, ...]) -> NDArray[np.float16] | None:
    """Recorded claims of these peers, a row each; NaN for one that was not in the pool."""
    if not raw:
        return None
    recorded = claims_in(raw, len(then))
    if then == peers:
        return recorded
    by_peer = dict(zip(then, recorded, strict=True))
    nothing = np.full(recorded.shape[1], math.nan, dtype=np.float16)
    return np.array([by_peer.get(peer, nothing) for peer in peers])


def events_of(lines: Iterable[Line[Any]], revoked: Collection[str] = ()) -> dict[str, EventState]:
    """Events by id, in order, from a part of the ledger; without sources that are revoked at its end."""
    read, silent = list(lines), set(revoked)
    for line in read:
        if isinstance(line.body, RevokeLine):
            (silent.add if line.kind == "revoke" else silent.discard)(line.body.of)
    events: dict[str, EventState] = {}
    for line in read:
        if isinstance(line.body, DecisionLine) and line.event not in events:
            events[line.event] = EventState(line.body, line.seq)
        if line.event in events:
            events[line.event].apply(line, silent)
    return events
