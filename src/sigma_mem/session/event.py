"""One event as its lines tell it: where it stands, what was answered and claimed, its labels by source."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide import Reads
from sigma_mem.decide.adaptive import duels
from sigma_mem.decide.vote import group_answers
from sigma_mem.events import FloatArray
from sigma_mem.memory.combination import Comparison, Standing, combined, comparisons
from sigma_mem.session.lines import halves_in, is_forgotten, phi_in, recorded_features
from sigma_mem.store.base import Record

_NONE: Mapping[str, Any] = {}


class EventLabels(NamedTuple):
    """Labels of an event by peer, and how much evidence each is; no weights where all are 1."""

    c: Mapping[str, float]
    weight: Mapping[str, float] = _NONE


class Charge(NamedTuple):
    """What an event is charged for a call to a peer: the real cost, or what was expected."""

    amount: float
    base: float  # what the price alone said; 0 without one
    time: float
    tick: float
    expected: float
    budget: tuple[str, int] | None = None  # its name and period
    real: bool = False


class EventState:
    """An event as its lines tell it: where it stands, what was answered, and its labels by source."""

    # What most events never have costs them nothing: these are set when a line brings them.
    canons: Mapping[str, str | None] = _NONE
    reads: Mapping[str, str] = _NONE  # read → the peer it chose
    features: Mapping[str, Sequence[float]] = _NONE
    expected: Mapping[str, float] = _NONE  # p̂ at the decision, of peers with features
    agreement: Mapping[str, float] = _NONE
    topics: tuple[str, ...] = ()
    confidence: Sequence[Any] = ()  # the peer, claims of every temperature, their mixture
    fair: Sequence[str] | None = None  # asked by an exploring panel whatever others said; None: all
    standings: Mapping[str, Standing] = _NONE  # of sources that were not trusted
    lines = 0  # of feedback
    served: Mapping[str, str] = _NONE  # decision → the peer that really answered
    served_lines = 0
    charges: Mapping[str, Charge] = _NONE  # by peer
    guess: Mapping[str, float] = _NONE  # p̂ by which a cost-aware route explored
    _topic_claims: tuple[str, tuple[str, ...]] | None = None

    def __init__(self, record: Record) -> None:
        body = record.body
        self._phi = record.phi
        self.seq = record.seq  # of its first decision
        self.tick: float = body["tick"]
        self.question: str | None = body["question"]
        self.said: dict[str, Mapping[str, float]] = {}  # source → peer → c
        self._claims = _claims(record)
        if "topics" in body:
            self.topics = tuple(body["topics"])
            self._topic_claims = _claims(record, "topic_claims")

    @property
    def phi(self) -> FloatArray:
        """φ of the event, to read; decoded when asked for, since most events are never labelled."""
        return phi_in(self._phi)

    def apply(self, record: Record) -> None:
        """Take in one of the event's lines."""
        body = record.body
        if record.kind == "feedback":
            self.tick = body["tick"]
            self.lines += 1
            source, labels = body["source"], body["labels"]
            before = self.said.get(source)
            self.said[source] = labels if before is None else {**before, **labels}
            if before is None and "weight" in body:
                standing = Standing(body["weight"], body.get("reliability"), body.get("overlap", _NONE))
                self.standings = {**self.standings, source: standing}
        elif record.kind == "served":
            self._serve(body)
        elif record.kind == "decision":
            self._charge(body)
            self._answer(record)

    def _charge(self, body: Mapping[str, Any]) -> None:
        """A decision sends the task to peers that were not asked yet."""
        pacing = body.get("pacing")
        if pacing is not None and not self.lines:
            self.guess = {peer: x[0] for peer, x in pacing["at"].items()}
        if "costs" in body:
            budget = (pacing["budget"], pacing["period"]) if pacing and "budget" in pacing else None
            asked = {
                peer: Charge(amount, base, body["time"], self.tick, amount, budget)
                for peer, (amount, base) in body["costs"].items()
            }
            self.charges = {**asked, **self.charges}

    def _serve(self, body: Mapping[str, Any]) -> None:
        """Somebody answered: who was chosen instead of it was not called."""
        decision, peer, cost = body["decision"], body["peer"], body.get("cost")
        charges = dict(self.charges)
        instead = self.served.get(decision, body.get("chosen"))
        dropped = None if instead in (None, peer) else charges.pop(instead, None)
        amount, base = body.get("expected", (0.0, 0.0))
        known = charges.get(peer)
        if known is None and (cost is not None or amount):
            place = dropped or Charge(0.0, 0.0, body["time"], self.tick, 0.0)
            known = place._replace(amount=amount, base=base, expected=amount, real=False)
        if known is not None:
            charges[peer] = known if cost is None else known._replace(amount=cost, real=True)
        self.charges = charges
        self.served = {**self.served, decision: peer}
        self.served_lines += 1

    def _answer(self, record: Record) -> None:
        body = record.body
        if body["canons"] and not self.lines:
            # Labels are about the last answers before the first label, so that what a correction or
            # a revocation takes back is what was written.
            self._claims = _claims(record)
            self._topic_claims = _claims(record, "topic_claims")
            recorded = _recorded_agreement(body)
            panel = body["details"].get("panel", {})
            self.fair = panel.get("fair", [panel["first"]] if panel.get("first") else None)
            self.agreement = agreement_of(body["canons"]) if recorded is None else recorded
            self.confidence = body.get("confidence_claims", ())
            self.canons, self.reads = body["canons"], body["reads"] or self.reads
            if self.fair is not None:
                self.agreement = agreement_of(self.compared_canons)
            self.features = recorded_features(record)
            self.expected = {peer: body["probs"][peer] for peer in self.features}

    @property
    def compared_canons(self) -> Mapping[str, str | None]:
        """Answers that tell who copies whom: not of peers that a panel asked because of what others said."""
        if self.fair is None:
            return self.canons
        return {peer: canon for peer, canon in self.canons.items() if peer in self.fair}

    def evidence(self, labels: Mapping[str, float]) -> Mapping[str, float]:
        """The labels that say how good their peers are.

        A panel asks on where a task looks hard, so those it asked later seem worse than they are: where only
        those who were asked are labelled, the first ones' labels alone are a fair sample.
        """
        if self.fair is None or any(peer not in self.canons for peer in labels):
            return labels
        return {peer: labels[peer] for peer in self.fair if peer in labels}

    def claimed(self, peers: tuple[str, ...]) -> NDArray[np.float16] | None:
        """What was claimed of these peers, (P, H + 2); NaN for one not in the pool then."""
        return _by_peer(self._claims, peers)

    def topics_claimed(self, peers: tuple[str, ...]) -> NDArray[np.float16] | None:
        """What every share of the topics claimed of these peers, (P, B); NaN for one not in the pool then."""
        return _by_peer(self._topic_claims, peers)

    def forget(self, source: str) -> None:
        """Leave out what a revoked source said."""
        self.said.pop(source, None)
        if source in self.standings:
            self.standings = {name: x for name, x in self.standings.items() if name != source}

    def labels(self) -> EventLabels:
        """The event's labels: where several sources labelled a peer, their weighted mean, so that |c| ≤ 1."""
        if self.standings and not (len(self.said) == 1 and self._sole_weight() == 1.0):
            return EventLabels(*combined(self.said, self.standings))
        if len(self.said) == 1:
            return EventLabels(next(iter(self.said.values())))
        by_peer: dict[str, list[float]] = {}
        for labels in self.said.values():
            for peer, c in labels.items():
                by_peer.setdefault(peer, []).append(c)
        return EventLabels({peer: sum(every) / len(every) for peer, every in by_peer.items()})

    def _sole_weight(self) -> float:
        return next(iter(self.standings.values())).weight

    def compared(self, of: str) -> Comparison:
        """What the event says of its sources, as far as it depends on this one."""
        return comparisons(self.said, self.standings, self.agreement, of)

    def residuals(self, labels: Mapping[str, float]) -> FloatArray:
        """c − (2p̂ − 1) of every answer with text features; NaN where it has no label."""
        return np.array([labels.get(p, math.nan) - 2.0 * self.expected[p] + 1.0 for p in self.features])

    def groups(self, peers: tuple[str, ...]) -> NDArray[np.intp] | None:
        """Answer groups; −1 where an answer could not be read, −2 where none was asked for."""
        if not self.canons:
            return None
        groups = group_answers([self.canons.get(peer) for peer in peers])
        return np.where([peer in self.canons for peer in peers], groups, -2)

    def read_labels(self, reads: Reads, labels: Mapping[str, float]) -> FloatArray:
        """Labels of the reads: how right the answer was that each chose, as duels with the first read."""
        return duels(np.array([self.answer_label(self.reads.get(read, ""), labels) for read in reads.names]))

    def answer_label(self, peer: str, labels: Mapping[str, float]) -> float:
        """How right a peer's answer was: its label, or that of a peer that gave the same answer; or NaN."""
        canon = self.canons.get(peer)
        if peer in labels or canon is None:  # an unreadable answer equals no other
            return labels.get(peer, math.nan)
        return next((c for other, c in labels.items() if self.canons.get(other) == canon), math.nan)


def agreement_of(canons: Mapping[str, str | None]) -> dict[str, float]:
    """Agreement label of every peer that was asked; none where fewer than two answers are readable.

    >>> agreement_of({"ann": "4", "bob": "4", "cat": "5"})
    {'ann': 0.0, 'bob': 0.0, 'cat': -1.0}
    """
    given = [canon for canon in canons.values() if canon is not None]
    others = len(given) - 1
    if others < 1:
        return {}
    return {
        peer: -1.0 if canon is None else 2.0 * (given.count(canon) - 1) / others - 1.0
        for peer, canon in canons.items()
    }


def _recorded_agreement(body: Mapping[str, Any]) -> dict[str, float] | None:
    """Agreement labels that a decision's line keeps; None where they follow from the canons."""
    if "agreement" not in body:
        return None
    labels = halves_in(body["agreement"]).tolist()
    return {peer: a for peer, a in zip(body["scores"], labels, strict=True) if a == a}  # not NaN


def _claims(record: Record, key: str = "claims") -> tuple[str, tuple[str, ...]] | None:
    """What was claimed, as the line keeps it, and the peers it is about, in order."""
    raw = record.body.get(key)
    return None if raw is None else (raw, tuple(record.body["scores"]))


def _by_peer(
    claims: tuple[str, tuple[str, ...]] | None, peers: tuple[str, ...]
) -> NDArray[np.float16] | None:
    """Recorded claims of these peers, a row each; NaN for one not in the pool then."""
    if claims is None:
        return None
    raw, then = claims
    recorded = halves_in(raw).reshape(len(then), -1)
    if then == peers:
        return recorded
    by_peer = dict(zip(then, recorded, strict=True))
    nothing = np.full(recorded.shape[1], math.nan, dtype=np.float16)
    return np.array([by_peer.get(peer, nothing) for peer in peers])


def events_of(records: Iterable[Record], revoked: Collection[str] = ()) -> dict[str, EventState]:
    """Events by id, in order, as a part of the ledger tells them; revoked sources are left out at the end."""
    events: dict[str, EventState] = {}
    silent = set(revoked)
    for record in records:
        if is_forgotten(record):
            continue
        if record.kind == "revoke":
            silent.add(record.body["source"])
        elif record.kind == "unrevoke":
            silent.discard(record.body["source"])
        elif record.kind == "decision" and record.event not in events:
            events[record.event] = EventState(record)
        if record.event in events:
            events[record.event].apply(record)
    for event in events.values():
        for source in silent.intersection(event.said):
            event.forget(source)
    return events
