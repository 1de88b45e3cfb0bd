"""What a line of the ledger does to a memory: the state after some part of a ledger, and the next line.

A line is built (`lines`), appended to the store and applied here, live as on replay, so that both agree bit
for bit.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from sigma_mem.answers.features import FEATURES
from sigma_mem.decide import Reads
from sigma_mem.decide.adaptive import settings_over_reads
from sigma_mem.decide.vote import group_answers
from sigma_mem.errors import StoreVersionError, UnknownDecisionError
from sigma_mem.events import FloatArray
from sigma_mem.memory import SigmaState
from sigma_mem.memory.combination import NO_COMPARISON, Comparison, Standing
from sigma_mem.memory.reading import Reading
from sigma_mem.memory.sources import Sources
from sigma_mem.session.costs import Costs
from sigma_mem.session.event import Charge, EventLabels, EventState, events_of
from sigma_mem.session.lines import Opening, asks_on, is_forgotten
from sigma_mem.session.pool import PeerChange, PoolChanges
from sigma_mem.store.base import Record, Store

_NO_NAMES: Mapping[str, str] = {}
_NOT_COMPARED = [0.0]  # of every peer
_OPEN_EVENTS = 4096  # events kept in memory; older ones are read back from the ledger when feedback comes


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
        self.costs = Costs(len(opening.peers), opening.rank, settings.rate)
        self.revoked: set[str] = set()
        self.departed: set[str] = set()
        self.pool = PoolChanges()
        self.labelled: Counter[str] | None = Counter()  # events by peer; None where a snapshot did not say
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
                self._apply_peer(record, seq)
            case "reset":
                self._apply_reset(record, seq)
            case "rename":
                self._apply_rename(record, seq)
            case "served":
                self._apply_served(record, seq)
            case "price":
                self.costs.apply_price(record)
            case "open" | "ref" | "forget":
                pass  # taken by __init__, looked up in the store, and done by whoever appended it
            case kind:
                raise StoreVersionError(
                    f"line {seq} of the ledger is a {kind!r}, which this version of sigma-mem does not know; "
                    "upgrade sigma-mem (pip install -U sigma-mem)"
                )
        self.seq = seq

    def _apply_decision(self, record: Record, seq: int) -> None:
        if is_forgotten(record):
            self._apply_forgotten(record)
            return
        if record.id == record.event:
            self.state.begin_event(record.body["time"])
            begun = EventState(record)
            begun.seq = seq
            self._keep(record.id, begun)
        if "pacing" in record.body:
            self.costs.apply_pacing(record, self.state.peers)
        if not (record.body["canons"] or "costs" in record.body or "pacing" in record.body):
            return
        event = self.event(record.event, before=seq)
        if event is not None:
            before, canons, charges = event.agreement, event.compared_canons, event.charges
            texts = event.features
            event.apply(record)
            self._recharge(event, charges)
            if event.agreement != before:
                self._write_agreement(event, before)
            if event.agreement != before or event.features != texts:
                self._write_agreed_texts(event, texts, before)
            if event.compared_canons != canons and self.state.copies is not None:
                self._write_copies(event, canons)
            if "confidence_claims" in record.body and not asks_on(record):
                self.state.confidence.count(record.body["confidence"], record.body["tick"])

    def _apply_forgotten(self, record: Record) -> None:
        """A decision of which only its place, and what it cost, is left."""
        if record.id == record.event:
            self.state.begin_event(record.body["time"])
        if "pacing" in record.body:
            self.costs.apply_pacing(record, self.state.peers)
        for peer, *charge in record.body.get("charges", ()):
            self.costs.spend(peer, Charge(*charge))

    def _apply_feedback(self, record: Record, seq: int) -> None:
        if is_forgotten(record):
            if record.body["tick"] > self.state.now:  # it was the first label, and moved the decay axis on
                self.state.begin_labels(record.body["tick"])
            return
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

    def _apply_served(self, record: Record, seq: int) -> None:
        event = self.event(record.event, before=seq)
        if event is not None:
            charges = event.charges
            event.apply(record)
            self._recharge(event, charges)

    def _recharge(self, event: EventState, before: Mapping[str, Charge]) -> None:
        if event.charges is not before:
            kept = self.pool.kept_since(event.seq, self.state.peers) if len(self.pool) else None
            peers = self.state.peers
            if kept is not None:  # of a peer that left and returned, nothing from before is known
                peers = tuple(peer if share else "" for peer, share in zip(peers, kept, strict=True))
            self.costs.recharge(before, event, peers, self.state.now)

    def _events_of_source(self, source: str, seq: int) -> Iterable[str]:
        """Events that a source labelled, in the order of its lines."""
        return dict.fromkeys(line.event for line in self._store.of_source(self._namespace, source, seq))

    def _apply_peer(self, record: Record, seq: int) -> None:
        peer = record.body["peer"]
        before = self.state.peers
        if record.body["joins"]:
            self.state.add_peer(peer)
            self.departed.discard(peer)
            keep = 0.0 if record.body.get("returning") else 1.0
        else:
            self.state.remove_peer(peer)
            self.departed.add(peer)
            keep = 1.0
        self.costs.set_peers(before, self.state.peers)
        self.pool.add(PeerChange(seq, peer, None, keep))

    def _apply_reset(self, record: Record, seq: int) -> None:
        peer, keep = record.body["peer"], record.body["keep"]
        self.state.scale_peers([keep if name == peer else 1.0 for name in self.state.peers])
        self.pool.add(PeerChange(seq, peer, None, keep))

    def _apply_rename(self, record: Record, seq: int) -> None:
        peer, becomes, keep = (record.body[key] for key in ("peer", "becomes", "keep"))
        self.state.scale_peers([keep if name == peer else 1.0 for name in self.state.peers])
        self.state.rename_peer(peer, becomes)
        self.costs.rename_peer(peer, becomes)
        if self.labelled is not None:
            self.labelled[becomes] += self.labelled.pop(peer, 0)
        self.pool.add(PeerChange(seq, peer, becomes, keep))
        self._events.clear()  # they are read again, with the names of now

    def evidence(self, reading: Reading, now: float) -> Sequence[Sequence[float]]:
        """What a reading rests on, for every peer of the pool; see `decision_record`."""
        if self.labelled is None:
            return ()
        counts = [self.labelled[peer] for peer in self.state.peers]
        labels = self.state.competence.labels(now).tolist()
        if reading.compared is None:
            return counts, labels, _NOT_COMPARED, _NOT_COMPARED
        near, anywhere = reading.compared
        return counts, labels, near.tolist(), anywhere.tolist()

    def aliases(self) -> Mapping[str, str]:
        """Names that peers had before, and what those peers are called now."""
        return self.pool.names_since(0) if len(self.pool) else _NO_NAMES

    def used_names(self) -> Collection[str]:
        """Every name that a peer has or had."""
        return {*self.known_peers(), *self.aliases()}

    def event(self, id: str, before: int | None = None) -> EventState | None:
        """An event as it stood before a line of the ledger (as it stands, if None); None if unknown."""
        event = self._events.get(id)
        return self._read_event(id, before, self.revoked) if event is None else event

    def _read_event(self, id: str, before: int | None, revoked: Collection[str]) -> EventState | None:
        """An event as its lines in the ledger tell it, as far as this state goes."""
        end = self.seq + 1 if before is None else before  # another process may have appended more
        lines = (x for x in self._store.of_event(self._namespace, id) if x.seq < end)
        event = events_of(map(self.pool.translated, lines), revoked).get(id)
        if event is not None:
            self._keep(id, event)
        return event

    def event_named(self, ref: str) -> str | None:
        """The id of the event that has this name; None if there is none."""
        line = self._store.find(self._namespace, "ref", ref)
        return None if line is None else line.event

    def event_of(self, decision: str) -> tuple[str, EventState]:
        """The id of the event of a decision, or of a ref; UnknownDecisionError if there is none."""
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

    def line(self, decision: str, *, forgotten: bool = False) -> Record:
        """The line of a decision; of a ref, that of its event's last decision."""
        line = self._store.find(self._namespace, "decision", decision)
        if line is None and (event := self.event_named(decision)) is not None:
            lines = self._store.of_event(self._namespace, event)
            line = next((x for x in reversed(lines) if x.kind == "decision"), None)
        if line is None:
            raise UnknownDecisionError(
                f"decision {decision!r} is not in namespace {self._namespace!r}; "
                "expected the id of a decision of this memory, or the ref of its event"
            )
        if is_forgotten(line) and not forgotten:
            raise UnknownDecisionError(f"decision {decision!r} was forgotten; nothing is left but its id")
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
        phi, tick, c, weight = event.phi, event.tick, said.c, said.weight
        fair = event.evidence(c)
        if fair:
            if self.labelled is not None:
                for peer in fair:
                    self.labelled[peer] += 1 if sign > 0.0 else -1
            state, kept = self._state_to_write(event)
            left = tuple(peer for peer in fair if peer in self.departed) if self.departed else ()
            groups = event.groups((*state.peers, *left))
            state.write(
                phi,
                _aligned(state.peers, fair),
                tick,
                weight=np.array([weight.get(peer, 0.0) for peer in state.peers]) if weight else None,
                sign=sign,
                groups=None if groups is None else groups[: len(state.peers)],
                agreement=_aligned(state.peers, event.agreement) if event.agreement else None,
                claims=event.claimed(state.peers),
                departed=[fair[peer] for peer in left],
                departed_groups=() if groups is None else groups[len(state.peers) :].tolist(),
                topics=event.topics,
                topic_claims=event.topics_claimed(state.peers) if event.topics else None,
            )
            self._take_share(state, kept)
        state = self.state
        worth = sign * sum(weight.values()) / len(weight) if weight else sign
        if event.features:
            features = np.array(list(event.features.values()))
            state.features.write(features, event.residuals(c), tick, worth)
        if event.confidence:
            peer, *claims, claim = event.confidence
            label = event.answer_label(peer, c)
            if label == label:  # NaN differs from itself
                state.confidence.write(np.array(claims), claim, 0.5 * (1.0 + label), tick, worth)
        for peer, guess in event.guess.items():
            if peer in c:
                self.costs.sums.write_residual(0.5 + 0.5 * c[peer] - guess, tick, sign)
        if event.reads:
            labels = event.read_labels(self.registry, c)
            same = None if abs(worth) == 1.0 else np.full(len(labels), abs(worth))
            self.reads.write(phi, labels, tick, weight=same, sign=sign)

    def _write_agreement(self, event: EventState, before: Mapping[str, float]) -> None:
        """Write the agreement of the event's answers, in place of that of earlier answers."""
        peers = self.state.peers
        state, kept = self._state_to_write(event)
        if before:
            state.write_agreement(event.phi, _aligned(peers, before), event.tick, -1.0)
        state.write_agreement(event.phi, _aligned(peers, event.agreement), event.tick)
        self._take_share(state, kept)

    def _write_agreed_texts(
        self, event: EventState, before: Mapping[str, Sequence[float]], agreement: Mapping[str, float]
    ) -> None:
        """Write which of the event's texts others agree with, in place of those of earlier answers."""
        for texts, agreed, sign in ((before, agreement, -1.0), (event.features, event.agreement, 1.0)):
            if texts:
                features = np.array(list(texts.values()))
                self.state.write_agreed_texts(features, _aligned(tuple(texts), agreed), event.tick, sign)

    def _write_copies(self, event: EventState, before: Mapping[str, str | None]) -> None:
        """Write which of the event's answers are equal, in place of what earlier answers were."""
        state, kept = self._state_to_write(event)
        for canons, sign in ((before, -1.0), (event.compared_canons, 1.0)):
            if canons:
                left = (peer for peer in canons if peer in self.departed)
                groups = group_answers([canons.get(peer) for peer in (*state.peers, *left)])
                state.write_copies(groups, event.tick, sign)
        self._take_share(state, kept)

    def _state_to_write(self, event: EventState) -> tuple[SigmaState, list[float] | None]:
        """Where to write what an event says, and the share of it that each peer keeps.

        What is known of a peer that was reset or replaced since then counts in part only, so it is written
        to a blank state, scaled there, and added: every sum is linear.
        """
        kept = self.pool.kept_since(event.seq, self.state.peers) if len(self.pool) else None
        return (self.state, None) if kept is None else (self.state.blank(), kept)

    def _take_share(self, written: SigmaState, kept: list[float] | None) -> None:
        """Add the share that is kept of a blank state that was written to."""
        if kept is not None:
            written.scale_peers(kept)
            self.state.merge(written)


def _aligned(names: tuple[str, ...], labels: Mapping[str, float]) -> FloatArray:
    in_order = tuple(labels) == names
    return np.array([*labels.values()] if in_order else [labels.get(name, math.nan) for name in names])
