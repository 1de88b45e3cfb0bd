"""What a line of the ledger does to a memory: the state after some part of a ledger, and the next line.

A line is built (`lines`), appended to the store and applied here, live as on replay. What lines contribute to
the sums is written at once when they are appended, and many at a time when they are replayed, by the same
code.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sigma_mem.answers.features import FEATURES
from sigma_mem.errors import UnknownDecisionError
from sigma_mem.ledger.contributions import Contributions
from sigma_mem.ledger.costs import Costs
from sigma_mem.ledger.event import Answered, EventLabels, EventState, events_of
from sigma_mem.ledger.lines import (
    Body,
    Charge,
    DecisionLine,
    FeedbackLine,
    ForgottenLine,
    Line,
    OpenLine,
    PeerLine,
    PriceLine,
    RenameLine,
    ResetLine,
    RevokeLine,
    ServedLine,
    is_decision,
)
from sigma_mem.ledger.pool import PeerChange, PoolChanges
from sigma_mem.ledger.records import Ledger
from sigma_mem.memory import SigmaState
from sigma_mem.memory.combination import NO_COMPARISON, Comparison, Standing
from sigma_mem.memory.sources import Sources

_NO_NAMES: Mapping[str, str] = {}
_AT_ONCE = 256  # lines whose contributions a replay writes together
_OPEN_EVENTS = 4096  # events kept in memory; older ones are read back from the ledger when feedback comes


class Fold:
    """The state after some part of a ledger, and how the next line changes it.

    Parameters
    ----------
    ledger : Ledger
        Where lines of older events are read back from.
    opening : OpenLine
        The ledger's first line.
    """

    def __init__(self, ledger: Ledger, opening: OpenLine) -> None:
        self.ledger = ledger
        features = len(FEATURES) if opening.settings.text_features else 0
        self.state = SigmaState(opening.peers, opening.rank, opening.settings, features)
        settings = opening.settings
        self.sources = Sources(settings.trusted, settings.rate, opening.rank)
        self.costs = Costs(len(opening.peers), opening.rank, settings.rate)
        self.revoked: set[str] = set()
        self.departed: set[str] = set()
        self.pool = PoolChanges()
        self.labelled: Counter[str] = Counter()  # events by peer
        self.last_label: dict[str, float] = {}  # when the newest feedback on each peer came
        self.seq = 0
        self._to_write = Contributions()
        self._events: OrderedDict[str, EventState] = OrderedDict()

    def known_peers(self) -> Collection[str]:
        """Peers that feedback may label: those in the pool, and those that were."""
        return {*self.state.peers, *self.departed} if self.departed else self.state.peers

    def apply(self, line: Line[Any], seq: int) -> None:
        """Take line `seq` into the state."""
        self._take(line, seq)
        self._to_write.write(self.state)

    def replay(self, lines: Iterable[Line[Any]]) -> int:
        """Take the lines that follow into the state; return how many there were."""
        number = 0
        for line in lines:
            self._take(line, line.seq)
            number += 1
            if number % _AT_ONCE == 0:
                self._to_write.write(self.state)
        self._to_write.write(self.state)
        return number

    def _take(self, line: Line[Any], seq: int) -> None:
        match line.body:
            case DecisionLine() as body:
                self._apply_decision(line, body, seq)
            case FeedbackLine() as body:
                self._apply_feedback(line, body, seq)
            case ForgottenLine() as body:
                self._apply_forgotten(line, body)
            case RevokeLine() as body:
                self._apply_revocation(body.of, line.kind == "unrevoke", seq)
            case PeerLine() as body:
                self._apply_peer(body, seq)
            case ResetLine() as body:
                self._give(body.peer, body.peer, body.keep)
                self.pool.add(PeerChange(seq, body.peer, None, body.keep))
            case RenameLine() as body:
                self._apply_rename(body, seq)
            case ServedLine():
                self._apply_served(line, seq)
            case PriceLine() as body:
                self.costs.apply_price(body)
        self.seq = seq  # other lines change no sums: they are looked up, or done by their appender

    def _apply_decision(self, line: Line[Any], body: DecisionLine, seq: int) -> None:
        if line.id == line.event:
            self.state.begin_event(body.time)
            self._keep(line.id, EventState(body, seq))
        if body.pacing is not None:
            self.costs.apply_pacing(body.pacing, body.time, self.state.peers)
        if not (body.groups or body.costs or body.pacing is not None):
            return
        event = self.event(line.event, before=seq)
        if event is not None:
            before, charges = event.answered, event.charges
            event.apply(line)
            self._recharge(event, charges)
            if event.answered is not before and event.answered is not None:
                self._write_answers(event, event.answered, before)
            if body.certainty and not body.asks_on:
                self._to_write.decisions.append((body.confidence, body.tick))

    def _apply_forgotten(self, line: Line[Any], body: ForgottenLine) -> None:
        """A line of which only its place, and what it cost, is left."""
        if line.kind == "feedback":
            if body.tick is not None and body.tick > self.state.now:  # it moved the decay axis on
                self.state.begin_labels(body.tick)
        elif line.kind == "decision":
            if line.id == line.event:
                self.state.begin_event(body.time)
            if body.pacing is not None:
                self.costs.apply_pacing(body.pacing, body.time, self.state.peers)
            for peer, charge in body.charges.items():
                self.costs.spend(peer, charge)

    def _apply_feedback(self, line: Line[Any], body: FeedbackLine, seq: int) -> None:
        event = self.event(line.event, before=seq)
        if event is None:
            return
        if event.lines:
            before: EventLabels | None = event.labels()
        else:
            before = None
            self.state.begin_labels(event.tick)
        compared = event.compared(body.source) if event.standings else NO_COMPARISON
        event.apply(line)
        self._write(event, before)
        for peer in body.labels:
            self.last_label[peer] = max(body.time, self.last_label.get(peer, 0.0))
        if event.standings:
            self._write_sources(event, compared, body.source)

    def _apply_revocation(self, source: str, undo: bool, seq: int) -> None:
        """Take back the reports of a source on every event or, with `undo`, let it count again."""
        revoked = self.revoked - {source} if undo else self.revoked | {source}
        for id in dict.fromkeys(record.event for record in self.ledger.of_source(source, seq)):
            before = self.event(id, before=seq)
            event = self._read_event(id, seq, revoked)
            if before is not None and event is not None:
                self._write(event, before.labels())
                self._write_sources(event, before.compared(source), source)
                self._recharge(event, before.charges)
        self.revoked = revoked

    def _apply_served(self, line: Line[Any], seq: int) -> None:
        event = self.event(line.event, before=seq)
        if event is not None:
            charges = event.charges
            event.apply(line)
            self._recharge(event, charges)

    def _recharge(self, event: EventState, before: Mapping[str, Charge]) -> None:
        if event.charges is not before:
            shares = self.pool.shares_since(event.seq, self.state.peers) if len(self.pool) else None
            peers = self.state.peers
            if shares is not None:  # of a peer that left and returned, nothing from before is known
                peers = tuple(peer if shares[place, place] else "" for place, peer in enumerate(peers))
            self.costs.recharge(before, event, peers)

    def _apply_peer(self, body: PeerLine, seq: int) -> None:
        self._to_write.write(self.state)
        before = self.state.peers
        if body.joins:
            if body.peer not in before:  # a merged memory has everyone from the start
                self.state.add_peer(body.peer)
            self.departed.discard(body.peer)
            if body.like is not None:
                self._give(body.peer, body.like, body.share)
        else:
            self.state.remove_peer(body.peer)
            self.departed.add(body.peer)
        self.costs.set_peers(before, self.state.peers)
        self.pool.add(PeerChange(seq, body.peer, None, body.keep, body.like, body.share))

    def _apply_rename(self, body: RenameLine, seq: int) -> None:
        peer, becomes = body.peer, body.becomes
        self._give(peer, peer, body.keep)
        self.state.rename_peer(peer, becomes)
        self.costs.rename_peer(peer, becomes)
        self.labelled[becomes] += self.labelled.pop(peer, 0)
        if peer in self.last_label:
            self.last_label[becomes] = self.last_label.pop(peer)
        self.pool.add(PeerChange(seq, peer, becomes, body.keep))
        self._events.clear()  # they are read again, with the new names

    def _give(self, peer: str, of: str, share: float) -> None:
        """Give a peer a share of what is known of another, or of itself."""
        self._to_write.write(self.state)
        peers = self.state.peers
        shares = np.eye(len(peers))
        shares[peers.index(peer), peers.index(of)] = share
        self.state.mix_peers(shares)

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
        """An event by its lines in the ledger, up to this state."""
        end = self.seq + 1 if before is None else before  # another process may have appended more
        lines = (line for line in self.ledger.of_event(id) if line.seq < end)
        event = events_of(map(self.pool.translated, lines), revoked).get(id)
        if event is not None:
            self._keep(id, event)
        return event

    def event_named(self, ref: str) -> str | None:
        """The id of the event that has this name; None if there is none."""
        line = self.ledger.find("ref", ref)
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
        """What a source is worth that labels an event now; None if it is trusted."""
        if self.sources.is_trusted(source):
            return None
        standing = event.standings.get(source)  # as when it spoke first
        if standing is None:
            standing = self.sources.standing(source, event.standings, self.state, lambda: event.phi)
        return standing._replace(told=len(event.said) > len(event.standings))

    def line(self, decision: str) -> Line[DecisionLine]:
        """The line of a decision; of a ref, that of its event's last decision."""
        line = self.any_line(decision)
        if not is_decision(line):
            raise UnknownDecisionError(f"decision {decision!r} was forgotten; nothing is left but its id")
        return line

    def any_line(self, decision: str) -> Line[Body]:
        """The same, also if it was forgotten."""
        line = self.ledger.find("decision", decision)
        if line is None and (event := self.event_named(decision)) is not None:
            lines = self.ledger.of_event(event)
            line = next((x for x in reversed(lines) if x.kind == "decision"), None)
        if line is None:
            raise UnknownDecisionError(
                f"decision {decision!r} is not in namespace {self.ledger.namespace!r}; "
                "expected the id of a decision of this memory, or the ref of its event"
            )
        return line

    def _keep(self, id: str, event: EventState) -> None:
        self._events[id] = event
        if len(self._events) > _OPEN_EVENTS:
            self._events.popitem(last=False)

    def _write_sources(self, event: EventState, before: Comparison, of: str) -> None:
        """Write what the event shows about its sources, instead of what it showed before."""
        after = event.compared(of)
        if after is not before:
            self.sources.write(event.phi, before, after, event.tick)

    def _write(self, event: EventState, before: EventLabels | None) -> None:
        """Write the event's labels to every sum, instead of its earlier ones."""
        if before is not None and before.c:
            self._add(event, before, -1.0)
        after = event.labels()
        if after.c:
            self._add(event, after, 1.0)

    def _add(self, event: EventState, said: EventLabels, sign: float) -> None:
        """Add an event's labels to every sum; sign −1 takes them back."""
        phi, tick, c, weight, answered = event.phi, event.tick, said.c, said.weight, event.answered
        fair = event.evidence(c)
        if fair:
            for peer in fair:
                self.labelled[peer] += 1 if sign > 0.0 else -1
            with self._share_of(event) as to_write:
                peers = self.state.peers
                left = [peer for peer in fair if peer in self.departed] if self.departed else ()
                row = (
                    phi,
                    [fair.get(peer, math.nan) for peer in (*peers, *left)],
                    tick,
                    sign,
                    [weight.get(peer, 0.0) for peer in peers] if weight else None,
                    None if answered is None else answered.groups_among((*peers, *left)),
                    event.claimed(peers),
                    event.topics,
                    event.topics_claimed(peers) if event.topics else None,
                    None if answered is None else answered.opinions_among((*peers, *left)),
                )
                to_write.labels.append(row)
        worth = sign * sum(weight.values()) / len(weight) if weight else sign
        if answered is not None:
            body = answered.body
            if answered.features is not None:
                self._to_write.texts.append((answered.features, answered.residuals(c), tick, worth))
            if body.verdicts:
                with self._share_of(event) as to_write:
                    to_write.verdicts.append((answered, phi, c, tick, worth))
            if body.certainty:
                label = event.answer_label(body.peers[body.certain], c)
                if label == label:  # NaN differs from itself
                    self._to_write.sureness.append((body.sureness(), 0.5 * (1.0 + label), tick, worth))
        for peer, guess in event.guess.items():
            if peer in c:
                self.costs.sums.write_residual(0.5 + 0.5 * c[peer] - guess, tick, sign)

    def _write_answers(self, event: EventState, now: Answered, before: Answered | None) -> None:
        """Write what the event's answers show without labels, instead of what earlier answers showed.

        What is the same as before is not taken back, so that nothing is rounded.
        """
        if before is None or (now.peers, now.compared) != (before.peers, before.compared):
            self._write_equal(event, now, before)
        if not self.state.settings.agreement:
            return
        tick, peers = event.tick, self.state.peers
        agreed = now.agreement_among(peers)
        was = None if before is None else before.agreement_among(peers)
        moved = (was is None or not _same(agreed, was)) and (_any(agreed) or (was is not None and _any(was)))
        if moved:
            with self._share_of(event) as to_write:
                if was is not None and _any(was):
                    to_write.agreements.append((event.phi, was, tick, -1.0))
                to_write.agreements.append((event.phi, agreed, tick, 1.0))
        if moved or before is None or now.body.features != before.body.features:
            for answered, sign in ((before, -1.0), (now, 1.0)):
                if answered is not None and answered.features is not None:
                    row = (answered.features, answered.text_agreement(), tick, sign)
                    self._to_write.agreed_texts.append(row)

    def _write_equal(self, event: EventState, now: Answered, before: Answered | None) -> None:
        """Write which of the event's answers are equal, instead of what earlier answers were."""
        with self._share_of(event) as to_write:
            for answered, sign in ((before, -1.0), (now, 1.0)):
                if answered is not None:
                    left = [peer for peer in answered.peers if peer in self.departed] if self.departed else ()
                    groups = answered.groups_among((*self.state.peers, *left), answered.compared)
                    to_write.answers.append((groups, event.tick, sign))

    @contextmanager
    def _share_of(self, event: EventState) -> Iterator[Contributions]:
        """Where to write what an event contributes to peers.

        What is known of a peer that was reset or replaced since then counts in part only, and in part for one
        that began like it. So it is written to a blank state, shared there, and added: every sum is linear.
        """
        shares = self.pool.shares_since(event.seq, self.state.peers) if len(self.pool) else None
        if shares is None:
            yield self._to_write
            return
        apart, blank = Contributions(), self.state.blank()
        yield apart
        apart.write(blank)
        blank.mix_peers(shares)
        self.state.merge(blank)


def _same(some: Sequence[float], others: Sequence[float]) -> bool:
    """Whether labels are equal; NaN equals NaN here."""
    return len(some) == len(others) and all(
        a == b or (a != a and b != b) for a, b in zip(some, others, strict=True)
    )


def _any(labels: Iterable[float]) -> bool:
    """Whether there is a label; NaN is none."""
    return any(label == label for label in labels)
