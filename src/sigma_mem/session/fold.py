"""What a line of the ledger means: the one module that writes and reads the lines of a memory.

A line is built, appended to the store and applied to the `Fold`, live as on replay, so that both agree bit
for bit. Numbers that a decision claimed (p̂, text features, what each read chose) are taken from its line, not
computed again.
"""

import math
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.answers.features import FEATURES, FEATURES_VERSION
from sigma_mem.decide import Reads
from sigma_mem.decide.adaptive import duels, settings_over_reads
from sigma_mem.decide.vote import group_answers
from sigma_mem.errors import StoreCorruptError, StoreVersionError, UnknownDecisionError
from sigma_mem.events import Decision, Feedback, FloatArray
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.combination import NO_COMPARISON, Comparison, Standing, combined, comparisons
from sigma_mem.memory.sources import Sources
from sigma_mem.store.base import Record, Store

_NONE: Mapping[str, Any] = {}
_ONLY_IN_LINES = ("now", "signs", "claims", "confidence_claims")
_OF_FEEDBACK = ("id", "labels", "source", "time", "amends")
_NO_FEATURES = (FEATURES_VERSION, _NONE)
_OPEN_EVENTS = 4096  # events kept in memory; older ones are read back from the ledger when feedback comes


# --- lines -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opening:
    """What a memory is made of: its first line."""

    peers: tuple[str, ...]
    rank: int
    settings: Settings
    encoder: Mapping[str, str]  # name and version


def open_record(opening: Opening, time: float) -> Record:
    """The first line of a ledger."""
    body = {
        "peers": list(opening.peers),
        "rank": opening.rank,
        "settings": asdict(opening.settings),
        "encoder": dict(opening.encoder),
        "time": time,
    }
    return Record("open", "open", "", body)


def opening_from(record: Record) -> Opening:
    """What the first line says."""
    body = record.body
    return Opening(
        tuple(body["peers"]), body["rank"], Settings.from_record(body["settings"]), body["encoder"]
    )


def decision_record(
    decision: Decision,
    now: float,
    keep_text: bool = True,
    claims: NDArray[np.float16] | None = None,
    confidence_claims: Sequence[Any] = (),
) -> Record:
    """A decision made when the memory stood at `now` on its decay axis.

    What every horizon claimed of every peer, (P, H + 1), is kept as float16, in the order of the scores;
    what was claimed of the answer as its peer, the claims of every temperature, and their mixture.

    Without text, canons are replaced by the numbers of the groups they form; text features stay. The line
    shares no mapping with the decision, which its caller may change.
    """
    body = {
        "now": now,
        "tick": decision.tick,
        "time": decision.time,
        "read": decision.read,
        "peer": decision.peer,
        "answer": decision.answer if keep_text else None,
        "scores": dict(decision.scores),
        "probs": dict(decision.probs),
        "effective": dict(decision.effective),
        "confidence": decision.confidence,
        "propensity": decision.propensity,
        "question": decision.question if keep_text else None,
        "canons": _NONE
        if not decision.canons
        else dict(decision.canons)
        if keep_text
        else _numbered(decision.canons),
        "features": [FEATURES_VERSION, dict(decision.features)] if decision.features else _NO_FEATURES,
        "reads": dict(decision.reads) if decision.reads else _NONE,
        "details": dict(decision.details) if decision.details else _NONE,
    }
    if claims is not None:
        body["claims"] = b64encode(claims.astype("<f2", copy=False).tobytes()).decode()
    if confidence_claims:
        body["confidence_claims"] = list(confidence_claims)
    return Record("decision", decision.id, decision.event, body, phi_to_bytes(decision.phi))


def _numbered(canons: Mapping[str, str | None]) -> dict[str, str | None]:
    numbers: dict[str, str] = {}
    return {
        peer: None if canon is None else numbers.setdefault(canon, str(len(numbers)))
        for peer, canon in canons.items()
    }


def decision_from(record: Record) -> Decision:
    """The decision that a line holds."""
    body = {key: _own(value) for key, value in record.body.items() if key not in _ONLY_IN_LINES}
    body["features"] = dict(_features(record))
    if "lean" in body["details"]:  # the name in version 0.1
        details = dict(body["details"])
        body["details"] = {**details, "text_log_odds": details.pop("lean")}
    return Decision(id=record.id, event=record.event, phi=phi_from_bytes(record.phi), **body)


def _own(value: Any) -> Any:
    """A copy of a mapping, which whoever gets it may change; the ledger's stays as it is."""
    return dict(value) if isinstance(value, Mapping) else value


def decided_at(record: Record) -> float:
    """Where the memory stood on its decay axis when it made this decision."""
    return float(record.body["now"])


def _features(record: Record) -> Mapping[str, Sequence[float]]:
    """Text features of a decision's answers; none where another version of the features was recorded."""
    body = record.body
    version, features = body.get("features") or body.get("signs") or (FEATURES_VERSION, {})
    return features if version == FEATURES_VERSION else {}


def feedback_record(feedback: Feedback, line: str, tick: float, standing: Standing | None = None) -> Record:
    """Labels from one source; `line` is the id of the ledger's line, `tick` the event's place.

    What the source was worth then is kept with them; a trusted one weighs 1, and nothing is kept.
    """
    body = {
        "id": feedback.id,
        "labels": feedback.labels,
        "source": feedback.source,
        "amends": feedback.amends,
        "tick": tick,
        "time": feedback.time,
    }
    if standing is not None:
        body["weight"] = standing.weight
        if standing.reliability is not None:
            body["reliability"] = standing.reliability
        if standing.overlap:
            body["overlap"] = dict(standing.overlap)
    return Record("feedback", line, feedback.event, body)


def feedback_from(record: Record) -> Feedback:
    """The feedback that a line holds."""
    body: dict[str, Any] = {key: _own(value) for key, value in record.body.items() if key in _OF_FEEDBACK}
    return Feedback(event=record.event, **body)


def peer_record(peer: str, joins: bool, time: float) -> Record:
    """A peer joins or leaves the pool; a name is used once."""
    return Record("peer", f"{'+' if joins else '-'}{peer}", "", {"peer": peer, "joins": joins, "time": time})


def revoke_record(source: str, id: str, time: float) -> Record:
    """Everything that a source ever said is taken back."""
    return Record("revoke", id, "", {"source": source, "time": time})


def unrevoke_record(source: str, id: str, time: float) -> Record:
    """Everything that a revoked source ever said counts again."""
    return Record("unrevoke", id, "", {"source": source, "time": time})


def phi_to_bytes(phi: FloatArray) -> bytes:
    """Raw little-endian float64 of a vector, as `Record.phi` holds it."""
    return phi.astype("<f8", copy=False).tobytes()


def phi_from_bytes(raw: bytes) -> FloatArray:
    """The vector of `phi_to_bytes`, as an array of its own."""
    if len(raw) % 8:
        raise StoreCorruptError(f"got a φ of {len(raw)} bytes, expected a multiple of 8; restore the file")
    return np.frombuffer(raw, dtype="<f8").astype(np.float64)


# --- one event ---------------------------------------------------------------------------


class EventLabels(NamedTuple):
    """Labels of an event by peer, and how much evidence each is; no weights where all are 1."""

    c: Mapping[str, float]
    weight: Mapping[str, float] = _NONE


class EventState:
    """An event as its lines tell it: where it stands, what was answered, and its labels by source."""

    __slots__ = (
        "_claims",
        "_phi",
        "agreement",
        "canons",
        "confidence",
        "expected",
        "features",
        "lines",
        "question",
        "reads",
        "said",
        "standings",
        "tick",
    )

    def __init__(self, record: Record) -> None:
        self._phi = record.phi
        self.tick: float = record.body["tick"]
        self.question: str | None = record.body["question"]
        self.canons: Mapping[str, str | None] = _NONE
        self.reads: Mapping[str, str] = _NONE  # read → the peer it chose
        self.features: Mapping[str, Sequence[float]] = _NONE
        self.expected: Mapping[str, float] = _NONE  # p̂ at the decision, of peers with features
        self.agreement: Mapping[str, float] = _NONE
        self._claims = _claims(record)
        self.confidence: Sequence[Any] = ()  # the peer, claims of every temperature, their mixture
        self.said: dict[str, Mapping[str, float]] = {}  # source → peer → c
        self.standings: Mapping[str, Standing] = _NONE  # of sources that were not trusted
        self.lines = 0  # of feedback

    @property
    def phi(self) -> FloatArray:
        """φ of the event; decoded when asked for, since most events are never labelled."""
        return phi_from_bytes(self._phi)

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
        elif body["canons"] and not self.lines:
            # Labels are about the last answers before the first label, so that what a correction or
            # a revocation takes back is what was written.
            self._claims = _claims(record)
            self.agreement = agreement_of(body["canons"])
            self.confidence = body.get("confidence_claims", ())
            self.canons, self.reads = body["canons"], body["reads"] or self.reads
            self.features = _features(record)
            self.expected = {peer: body["probs"][peer] for peer in self.features}

    def claimed(self, peers: tuple[str, ...]) -> NDArray[np.float16] | None:
        """What was claimed of these peers, (P, H + 2); NaN for one not in the pool then."""
        if self._claims is None:
            return None
        raw, then = self._claims
        recorded = np.frombuffer(b64decode(raw), dtype="<f2").reshape(len(then), -1)
        if tuple(then) == peers:
            return recorded
        by_peer = dict(zip(then, recorded, strict=True))
        nothing = np.full(recorded.shape[1], math.nan, dtype=np.float16)
        return np.array([by_peer.get(peer, nothing) for peer in peers])

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


def _claims(record: Record) -> tuple[str, Mapping[str, float]] | None:
    """What every horizon claimed, as the line keeps it, and the peers it is about, in order."""
    raw = record.body.get("claims")
    return None if raw is None else (raw, record.body["scores"])


def events_of(records: Iterable[Record], revoked: Collection[str] = ()) -> dict[str, EventState]:
    """Events by id, in order, as a part of the ledger tells them; revoked sources are left out at the end."""
    events: dict[str, EventState] = {}
    silent = set(revoked)
    for record in records:
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


# --- the whole memory --------------------------------------------------------------------


class Fold:
    """The state after some part of a ledger, and how the next line changes it.

    Parameters
    ----------
    store, namespace
        Where lines of older events are read back from.
    opening : Opening
        The ledger's first line.
    reads : Reads
        The reads that the adaptive one chooses among.
    """

    def __init__(self, store: Store, namespace: str, opening: Opening, reads: Reads) -> None:
        self._store = store
        self._namespace = namespace
        self.registry = reads
        features = len(FEATURES) if opening.settings.text_features else 0
        self.state = SigmaState(opening.peers, opening.rank, opening.settings, features)
        self._reads = SigmaState(reads.names, opening.rank, settings_over_reads(opening.settings))
        settings = opening.settings
        self.sources = Sources(settings.trusted, settings.rate, opening.rank)
        self.revoked: set[str] = set()
        self.departed: set[str] = set()
        self.seq = 0
        self._events: OrderedDict[str, EventState] = OrderedDict()

    @property
    def reads(self) -> SigmaState:
        """The second memory, whose peers are the reads, at the same clock as the first."""
        self._reads.sync_clock(self.state)
        return self._reads

    def known_peers(self) -> Collection[str]:
        """Peers that feedback may label: those in the pool, and those that were."""
        return {*self.state.peers, *self.departed} if self.departed else self.state.peers

    def apply(self, record: Record, seq: int) -> None:
        """Take line `seq` into the state."""
        match record.kind:
            case "decision":
                self._apply_decision(record, seq)
            case "feedback":
                self._apply_feedback(record, seq)
            case "revoke":
                self._apply_revocation(record, seq)
            case "unrevoke":
                self._apply_unrevocation(record, seq)
            case "peer":
                self._apply_peer(record)
            case "open":
                pass  # taken by __init__
            case kind:
                raise StoreVersionError(
                    f"line {seq} of the ledger is a {kind!r}, which this version of sigma-mem does not know; "
                    "upgrade sigma-mem (pip install -U sigma-mem)"
                )
        self.seq = seq

    def _apply_decision(self, record: Record, seq: int) -> None:
        if record.id == record.event:
            self.state.begin_event(record.body["time"])
            self._keep(record.id, EventState(record))
        if not record.body["canons"]:
            return
        event = self.event(record.event, before=seq)
        if event is not None:
            before = event.agreement
            event.apply(record)
            if event.agreement != before:
                self._write_agreement(event, before)
            if "confidence_claims" in record.body:
                self.state.confidence.count(record.body["confidence"], record.body["tick"])

    def _apply_feedback(self, record: Record, seq: int) -> None:
        event = self.event(record.event, before=seq)
        if event is None:
            return
        if event.lines:
            before: EventLabels | None = event.labels()
        else:
            before = None
            self.state.begin_labels(event.tick)
        source = record.body["source"]
        compared = event.compared(source) if event.standings else NO_COMPARISON
        event.apply(record)
        self._write(event, before)
        if event.standings:
            self._write_sources(event, compared, source)

    def _apply_revocation(self, record: Record, seq: int) -> None:
        source = record.body["source"]
        for id in self._events_of_source(source, seq):
            event = self.event(id, before=seq)
            if event is not None:
                before, compared = event.labels(), event.compared(source)
                event.forget(source)
                self._write(event, before)
                self._write_sources(event, compared, source)
        self.revoked.add(source)

    def _apply_unrevocation(self, record: Record, seq: int) -> None:
        source = record.body["source"]
        for id in self._events_of_source(source, seq):
            without = self.event(id, before=seq)
            if without is not None:
                before, compared = without.labels(), without.compared(source)
                event = self._read_event(id, seq, self.revoked - {source})
                if event is not None:
                    self._write(event, before)
                    self._write_sources(event, compared, source)
        self.revoked.discard(source)

    def _events_of_source(self, source: str, seq: int) -> Iterable[str]:
        """Events that a source labelled, in the order of its lines."""
        return dict.fromkeys(line.event for line in self._store.of_source(self._namespace, source, seq))

    def _apply_peer(self, record: Record) -> None:
        peer = record.body["peer"]
        if record.body["joins"]:
            self.state.add_peer(peer)
        else:
            self.state.remove_peer(peer)
            self.departed.add(peer)

    def event(self, id: str, before: int | None = None) -> EventState | None:
        """An event as it stood before a line of the ledger (as it stands, if None); None if unknown."""
        event = self._events.get(id)
        return self._read_event(id, before, self.revoked) if event is None else event

    def _read_event(self, id: str, before: int | None, revoked: Collection[str]) -> EventState | None:
        """An event as its lines in the ledger tell it."""
        lines = self._store.of_event(self._namespace, id)
        event = events_of((x for x in lines if before is None or x.seq < before), revoked).get(id)
        if event is not None:
            self._keep(id, event)
        return event

    def event_of(self, decision: str) -> tuple[str, EventState]:
        """The id of a decision's event, and the event; UnknownDecisionError if there is none."""
        id, event = decision, self.event(decision)
        if event is None:
            id = self.line(decision).event
            event = self.event(id)
        if event is None:  # the ledger holds a decision without its event's first one
            raise UnknownDecisionError(f"event {id!r} of decision {decision!r} is not in this memory")
        return id, event

    def standing(self, source: str, event: EventState) -> Standing | None:
        """What a source is worth that speaks of an event now; None where it is trusted."""
        if self.sources.is_trusted(source):
            return None
        if source in event.standings:
            return event.standings[source]  # as when it spoke first
        return self.sources.standing(source, event.standings, self.state, lambda: event.phi)

    def line(self, decision: str) -> Record:
        """The line of a decision."""
        line = self._store.find(self._namespace, "decision", decision)
        if line is None:
            raise UnknownDecisionError(
                f"decision {decision!r} is not in namespace {self._namespace!r}; "
                "expected the id of a decision of this memory"
            )
        return line

    def _keep(self, id: str, event: EventState) -> None:
        self._events[id] = event
        if len(self._events) > _OPEN_EVENTS:
            self._events.popitem(last=False)

    def _write_sources(self, event: EventState, before: Comparison, of: str) -> None:
        """Write what the event says of its sources, in place of what it said before."""
        after = event.compared(of)
        if after is not before:
            self.sources.write(event.phi, before, after, event.tick, self.state.now)

    def _write(self, event: EventState, before: EventLabels | None) -> None:
        """Write the event's labels to every sum, in place of those before."""
        if before is not None and before.c:
            self._add(event, before, -1.0)
        after = event.labels()
        if after.c:
            self._add(event, after, 1.0)

    def _add(self, event: EventState, said: EventLabels, sign: float) -> None:
        """Add an event's labels to every sum; sign −1 takes them back."""
        state, phi, tick, c, weight = self.state, event.phi, event.tick, said.c, said.weight
        left = tuple(peer for peer in c if peer in self.departed) if self.departed else ()
        groups = event.groups((*state.peers, *left))
        state.write(
            phi,
            _aligned(state.peers, c),
            tick,
            weight=np.array([weight.get(peer, 0.0) for peer in state.peers]) if weight else None,
            sign=sign,
            groups=None if groups is None else groups[: len(state.peers)],
            agreement=_aligned(state.peers, event.agreement) if event.agreement else None,
            claims=event.claimed(state.peers),
            departed=[c[peer] for peer in left],
            departed_groups=() if groups is None else groups[len(state.peers) :].tolist(),
        )
        worth = sign * sum(weight.values()) / len(weight) if weight else sign
        if event.features:
            features = np.array(list(event.features.values()))
            state.features.write(features, event.residuals(c), tick, worth)
        if event.confidence:
            peer, *claims, claim = event.confidence
            label = event.answer_label(peer, c)
            if label == label:  # NaN differs from itself
                state.confidence.write(np.array(claims), claim, 0.5 * (1.0 + label), tick, worth)
        if event.reads:
            labels = event.read_labels(self.registry, c)
            same = None if abs(worth) == 1.0 else np.full(len(labels), abs(worth))
            self.reads.write(phi, labels, tick, weight=same, sign=sign)

    def _write_agreement(self, event: EventState, before: Mapping[str, float]) -> None:
        """Write the agreement of the event's answers, in place of that of earlier answers."""
        peers = self.state.peers
        if before:
            self.state.write_agreement(event.phi, _aligned(peers, before), event.tick, -1.0)
        self.state.write_agreement(event.phi, _aligned(peers, event.agreement), event.tick)


def _aligned(names: tuple[str, ...], labels: Mapping[str, float]) -> FloatArray:
    return np.array([labels.get(name, math.nan) for name in names])
