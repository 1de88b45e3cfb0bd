"""A decision, from the task to its line in the ledger: find the event, read the memory, choose, record."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sigma_mem.answers.chat import Question, question_text
from sigma_mem.answers.features import NO_ANSWERS, Answers
from sigma_mem.decide import Outcome, Read, Reads, View
from sigma_mem.decide.adaptive import best_read
from sigma_mem.decide.explore import explore as explore_peers
from sigma_mem.decide.read import NOBODY
from sigma_mem.encode import Encoder
from sigma_mem.errors import InputError
from sigma_mem.events import Decision, FloatArray
from sigma_mem.ledger.decision import decision_line
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.journal import Journal
from sigma_mem.ledger.lines import OpenLine, ref_line, single_precision
from sigma_mem.memory import SigmaState
from sigma_mem.memory.kernel import pair_products
from sigma_mem.memory.topics import checked_topics
from sigma_mem.session.judgement import JudgingCenter, judge_answers, posterior_details
from sigma_mem.session.limits import RouteLimits, route_within
from sigma_mem.session.names import checked_ref, earlier_event, id_of
from sigma_mem.session.panel import Step
from sigma_mem.session.topics import Topic, share_details, topics_of_event
from sigma_mem.session.view import believed, recorded_agreement, view_of
from sigma_mem.store.base import Ticket

_LEAST_LOG_ODDS = 0.005  # of text features: less is not kept with a decision
_UNIT = 1e-6  # how far ‖φ‖² may be from 1


class TaskRequest(NamedTuple):
    """What a caller says of a task: its question or φ, its topics, and the event it belongs to."""

    question: str | None = None
    phi: ArrayLike | None = None
    topic: Topic | None = None
    after: str | Decision | None = None
    ref: str | None = None


class Place(NamedTuple):
    """Where a decision stands: its event, φ, topics and tick, and the text that was asked."""

    event: str | None  # None for a new one
    phi: FloatArray
    topics: tuple[str, ...]
    tick: float
    question: str | None
    ref_is_new: bool


class Decided(NamedTuple):
    """A decision, when it is durable, and how many events the memory has decided with it."""

    decision: Decision
    ticket: Ticket
    events: int


class Decider:
    """Makes the decisions of one memory.

    Attributes
    ----------
    next_id : str, optional
        Of the next decision, while those of another ledger are made again.
    """

    def __init__(
        self,
        journal: Journal,
        opening: OpenLine,
        encoder: Encoder | None,
        reads: Reads,
        center: JudgingCenter | None,
        rng: np.random.Generator,
        clock: Callable[[], float],
        keep_text: bool,
    ) -> None:
        self.center = center
        self.next_id: str | None = None
        self._journal, self._opening, self._encoder, self._reads = journal, opening, encoder, reads
        self._rng, self._clock, self._keep_text = rng, clock, keep_text

    def encode(self, question: Question) -> FloatArray:
        """φ of a question, as a ledger keeps it."""
        if self._encoder is None:
            named = self._opening.encoder["name"]
            remedy = "hand in phi=..." if named == "phi" else f"pass the encoder {named!r} it needs"
            raise InputError(f"this memory was opened without an encoder: {remedy}")
        return single_precision(self._encoder.encode([question_text(question) or ""])[0])

    def direction(
        self, question: str | None, phi: ArrayLike | None, topics: Sequence[str] = ()
    ) -> FloatArray:
        """φ as it was handed in, or of the question; 0 where there are topics only."""
        if phi is not None:
            return single_precision(_checked_phi(phi, self._opening.rank))
        if question:
            return self.encode(question)
        if not topics:
            raise InputError("neither question, phi nor topic was given; expected one of them")
        return np.zeros(self._opening.rank)

    def decide(
        self,
        task: TaskRequest,
        read: Read | None,
        answers: Answers = NO_ANSWERS,
        *,
        explore: bool = False,
        limits: RouteLimits | None = None,
        min_confidence: float | None = None,
        step: Step | None = None,
    ) -> Decided:
        """Read the memory at φ, choose by `read` (None: the adaptive one), and record the decision."""
        topics = checked_topics(task.topic)
        phi = self._before_the_lock(task, topics)
        with self._journal.writing() as fold:
            state, time = fold.state, self._clock()
            place = _place(fold, task, phi, topics, time)
            moment, id = state.moment(time), self.next_id or self._journal.new_id()
            pairs = pair_products(place.phi)
            reading = state.read(place.phi, moment, place.topics, pairs)
            utility, copying = None, None
            details: dict[str, Any] = {}
            if answers.by_peer:
                answers = answers.in_pool(state.peers)
                utility, details = self._judged(read, task.question, place.phi, answers, state)
                copying = state.copying(moment)
            view = view_of(state, reading, place.phi, answers, utility, copying, pairs)
            costs, price = fold.costs.expected(state.peers, len(place.question or ""), place.phi, moment)
            pacing = None
            if limits is not None and read is not None:
                outcome, details, pacing = route_within(
                    limits, fold, read, view, reading, costs, price, explore, self._rng, time
                )
            elif explore:
                outcome = explore_peers(reading, self._rng)
            elif read is None:
                of_reads = fold.reads.read(place.phi, moment, pairs=pairs)
                outcome = best_read(self._reads, view, of_reads.prob)
            else:
                outcome = read.outcome(view)
            details = _read_details(state, view, outcome, details)
            peer, confidence, claims = _sureness(state, view, outcome, answers, min_confidence, details)
            called = answers.by_peer or ((peer,) if peer else ())
            charged = _charges(state.peers, called, costs, price) if fold.costs.prices and costs.any() else {}
            if step is not None:
                details |= {"panel": step(state, view, confidence, costs)}
            decision = Decision(
                id=id,
                event=place.event or id,
                read=outcome.name,
                phi=place.phi,
                peer=peer,
                answer=answers.by_peer[peer].text if peer and peer in answers.by_peer else None,
                scores=state.by_peer(reading.score),
                probs=state.by_peer(reading.prob),
                effective=state.by_peer(reading.effective),
                confidence=confidence,
                propensity=outcome.propensity,
                tick=place.tick,
                time=time,
                question=task.question,
                canons=answers.canons() if answers.by_peer else {},
                features=answers.features,
                reads={} if read else _choices_by_name(state.peers, outcome),
                details=details if reading.topics is None else details | share_details(reading.topics),
                ref=None if task.ref is None else str(task.ref),
                topics=place.topics,
                cost=math.fsum(amount for amount, _ in charged.values()) if charged else None,
            )
            line = decision_line(
                decision,
                moment,
                fold.events_labelled(),
                self._keep_text,
                claims=reading.claims,
                confidence_claims=claims,
                agreement=recorded_agreement(view, answers, copying, state.peers),
                topic_claims=None if reading.topics is None else reading.topics.claims,
                costs=charged,
                pacing=pacing,
            )
            names = (ref_line(str(task.ref), decision.event),) if task.ref and place.ref_is_new else ()
            return Decided(decision, self._journal.append(line, *names), fold.state.clock)

    def _before_the_lock(self, task: TaskRequest, topics: Sequence[str]) -> FloatArray | None:
        """φ of an event that may be new, or as it was handed in; None where it is that of an earlier one.

        Encoding may take milliseconds, so it holds no lock. Most refs are new, and to look one up takes
        about as long as to encode a question: where there is one, the ref is looked up under the lock only.
        """
        earlier = task.after is not None
        encodable = bool(task.question) and self._encoder is not None
        if task.ref is not None and not earlier and not encodable:
            with self._journal as fold:
                earlier = earlier_event(fold, None, checked_ref(task.ref))[0] is not None
        if task.phi is None and earlier:
            return None
        return self.direction(task.question, task.phi, topics)

    def _judged(
        self, read: Read | None, question: str | None, phi: FloatArray, answers: Answers, state: SigmaState
    ) -> tuple[FloatArray | None, dict[str, Any]]:
        """The center's utilities where this read needs them, or where the adaptive one can have them."""
        wanted = self.center is not None and question is not None if read is None else read.needs == "center"
        if not wanted:
            return None, {}
        return judge_answers(self.center, question or "", phi, answers.by_peer, state)


def _place(
    fold: Fold, task: TaskRequest, phi: FloatArray | None, topics: tuple[str, ...], time: float
) -> Place:
    """The event that a task belongs to, as it stands under the lock: another thread may have been first."""
    earlier, ref_is_new = None, False
    if task.after is not None or task.ref is not None:
        after = None if task.after is None else id_of(task.after)
        earlier, ref_is_new = earlier_event(fold, after, None if task.ref is None else checked_ref(task.ref))
    if earlier is None:
        if phi is None:
            raise InputError(f"ref {task.ref!r} has been forgotten meanwhile; expected the task again")
        return Place(None, phi, topics, fold.state.next_tick(time), task.question, ref_is_new)
    id, event = fold.event_of(earlier)
    if task.phi is not None and phi is not None and not np.array_equal(phi, single_precision(event.phi)):
        raise InputError(
            f"phi differs from that of decision {earlier!r}, and an event has one φ; "
            "leave out phi, or leave out after and ref for a new event"
        )
    topics = topics_of_event(event, earlier, topics)
    return Place(id, event.phi, topics, event.tick, task.question or event.question, ref_is_new)


def _read_details(state: SigmaState, view: View, outcome: Outcome, details: dict[str, Any]) -> dict[str, Any]:
    """What to keep of how the reads chose, beside what is kept already."""
    if "select" in outcome.choices:
        details |= posterior_details(state, outcome.choices["select"].totals)
    if outcome.used_text and max(map(abs, view.text_log_odds.tolist())) >= _LEAST_LOG_ODDS:
        details = {"text_log_odds": state.by_peer(view.text_log_odds.round(4))} | details
    return details


def _sureness(
    state: SigmaState,
    view: View,
    outcome: Outcome,
    answers: Answers,
    min_confidence: float | None,
    details: dict[str, Any],
) -> tuple[str | None, float, Sequence[str | float]]:
    """The peer chosen or None, the confidence in it and the claims behind that; says why it abstains."""
    if outcome.peer == NOBODY:
        details["abstained"] = {"peer": None, "because": "no answer can be read"}
        return None, outcome.confidence, ()
    peer, confidence = state.peers[outcome.peer], outcome.confidence
    claims: Sequence[str | float] = ()
    if answers.by_peer:
        confidence, claims = believed(state, view, outcome)
    if min_confidence is not None:
        of_set = state.confidence_of_set(confidence)
        if of_set < min_confidence:
            details["abstained"] = {"peer": peer, "confidence": of_set, "expected": min_confidence}
            return None, confidence, claims
    return peer, confidence, claims


def _charges(
    peers: Sequence[str], called: Iterable[str], costs: FloatArray, price: FloatArray
) -> dict[str, tuple[float, float]]:
    """What a call to each of these peers will cost, and what its price alone says; none that is free."""
    rows = ((peer, peers.index(peer)) for peer in called)
    return {peer: (float(costs[row]), float(price[row])) for peer, row in rows if costs[row] > 0.0}


def _choices_by_name(peers: Sequence[str], outcome: Outcome) -> dict[str, str]:
    """The peer that each read chose, of those that chose one."""
    return {name: peers[c.peer] for name, c in outcome.choices.items() if c.peer != NOBODY}


def _checked_phi(phi: ArrayLike, rank: int) -> FloatArray:
    """A unit vector of the memory's rank, which may be the caller's own array."""
    try:
        vector = np.asarray(phi, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"φ is no array of numbers ({error}); expected {rank} of them") from error
    if vector.shape != (rank,):
        raise InputError(f"φ has shape {vector.shape}; expected ({rank},), the rank of this memory")
    square = float(vector.dot(vector))
    if not abs(square - 1.0) <= _UNIT:  # False for NaN and infinity too
        what = f"norm {math.sqrt(square):.6g}" if math.isfinite(square) else "NaN or infinite entries"
        raise InputError(f"φ has {what}; expected a unit vector: divide it by its norm")
    return vector
