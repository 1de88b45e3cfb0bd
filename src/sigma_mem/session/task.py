"""A decision, from the task to its line in the ledger: find the event, read the memory, choose, record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sigma_mem.answers.features import FEATURES_VERSION, Answers, check_in_pool
from sigma_mem.decide import Outcome, Read, View
from sigma_mem.decide.explore import explore as explore_peers
from sigma_mem.decide.mixture import mixture
from sigma_mem.decide.read import NOBODY
from sigma_mem.encode import Encoder
from sigma_mem.errors import InputError, StoreError, UnrecordedError
from sigma_mem.events import Answer, Decision, FloatArray
from sigma_mem.ledger.decision import decision_in
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.journal import Journal
from sigma_mem.ledger.lines import (
    NOT_ASKED,
    UNREADABLE,
    Body,
    DecisionLine,
    Line,
    OpenLine,
    PacedDecision,
    PanelPlace,
    claim_bytes,
    feature_bytes,
    phi_bytes,
    ref_line,
    score_bytes,
    single_precision,
)
from sigma_mem.memory import Reading, SigmaState
from sigma_mem.memory.confidence import answer_claims
from sigma_mem.memory.copies import agreement_beside_copies, votes_among
from sigma_mem.memory.kernel import pair_products
from sigma_mem.memory.topics import SHARES, checked_topics
from sigma_mem.session.checks import Topic, checked_ref, earlier_event, id_of, topics_of_event
from sigma_mem.session.judgement import Judge, JudgingCenter, consult, judge_answers, posterior_details
from sigma_mem.session.limits import RouteLimits, route_within
from sigma_mem.session.panel import Step
from sigma_mem.store.base import Ticket

CENTER = "center"  # the judge whose verdicts are the utilities of the memory's own center
_LEAST_LOG_ODDS = 0.005  # of text features: less is not kept with a decision
_UNIT = 1e-6  # how far ‖φ‖² may be from 1
_NO_COSTS: Mapping[str, tuple[float, float]] = {}


class TaskRequest(NamedTuple):
    """What a caller gives for a task: its question or φ, its topics, and the event it belongs to."""

    question: str | None = None
    phi: ArrayLike | None = None
    topic: Topic | None = None
    after: str | Decision | None = None
    ref: str | None = None


class Place(NamedTuple):
    """The place of a decision: its event, φ, topics and tick, and the text that was asked."""

    event: str | None  # None for a new one
    phi: FloatArray
    topics: tuple[str, ...]
    tick: float
    question: str | None
    ref_is_new: bool = False


class Ballot(NamedTuple):
    """The answers of a decision, in the order of the pool.

    Attributes
    ----------
    given : dict
        Answers by peer.
    asked, canons : tuple
        Groups of equal answers as a ledger keeps them, and the canon of each group.
    features, described : lists
        Text features of the readable answers, and the places of their peers.
    verdicts : mapping
        The verdicts of judges: the score of every peer's answer, NaN for none.
    """

    given: Mapping[str, Answer]
    asked: tuple[int, ...] = ()
    canons: tuple[str, ...] = ()
    features: Sequence[Sequence[float]] = ()
    described: tuple[int, ...] = ()
    verdicts: Mapping[str, FloatArray] = MappingProxyType({})


_NO_BALLOT = Ballot({})


class Decided(NamedTuple):
    """A decision, its lines, when they are durable, and how many events the memory has decided with it."""

    decision: Decision
    lines: tuple[Line[Body], ...]
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
        center: JudgingCenter | None,
        rng: np.random.Generator,
        clock: Callable[[], float],
        keep_text: bool,
    ) -> None:
        self.center = center
        self.next_id: str | None = None
        self._journal, self._opening, self._encoder = journal, opening, encoder
        self._rng, self._clock, self._keep_text = rng, clock, keep_text

    def encode(self, question: str) -> FloatArray:
        """φ of a question, as a ledger keeps it."""
        if self._encoder is None:
            named = self._opening.encoder["name"]
            remedy = "hand in phi=..." if named == "phi" else f"pass the encoder {named!r} it needs"
            raise InputError(f"this memory was opened without an encoder: {remedy}")
        return single_precision(self._encoder.encode([question])[0])

    def direction(
        self, question: str | None, phi: ArrayLike | None, topics: Sequence[str] = ()
    ) -> FloatArray:
        """φ as it was handed in, or of the question; 0 if there are topics only."""
        if phi is not None:
            return single_precision(_checked_phi(phi, self._opening.rank))
        if question:
            return self.encode(question)
        if not topics:
            raise InputError("neither question, phi nor topic was given; expected one of them")
        return np.zeros(self._opening.rank)

    def route(
        self,
        task: TaskRequest,
        read: Read,
        *,
        explore: bool = False,
        limits: RouteLimits | None = None,
        note: str | None = None,
    ) -> Decided:
        """Read the memory at φ, choose a peer before anyone answers, and record the decision."""
        topics = () if task.topic is None else checked_topics(task.topic)
        phi = self._before_the_lock(task, topics)
        with self._journal.writing() as fold:
            state, time = fold.state, self._clock()
            place = _place(fold, task, phi, topics, time)
            moment = state.moment(time)
            reading = state.read(place.phi, moment, place.topics)
            details: dict[str, Any] = {}
            costs = price = np.zeros(len(state.peers))
            if fold.costs.prices:
                costs, price = fold.costs.expected(state.peers, len(place.question or ""), place.phi, moment)
            pacing = None
            if limits is not None:
                view = _no_answers(state, reading)
                outcome, details, pacing = route_within(
                    limits, fold, read, view, reading, costs, price, explore, self._rng, time
                )
            elif explore:
                outcome = explore_peers(reading, self._rng)
            else:
                outcome = read.outcome(_no_answers(state, reading))
            if note:
                details["note"] = note
            peer = outcome.peer
            charged = {state.peers[peer]: (costs.item(peer), price.item(peer))} if costs[peer] else _NO_COSTS
            return self._record(
                fold, task, place, time, moment, reading, outcome, outcome.confidence, peer, details,
                charged=charged, pacing=pacing,
            )  # fmt: skip

    def consult(
        self, task: TaskRequest, answers: Answers, judges: Sequence[Judge]
    ) -> tuple[Answers, dict[str, Any]]:
        """The answers with the verdicts of judges that are worth asking; no lock is held meanwhile."""
        topics = checked_topics(task.topic)
        phi = self._before_the_lock(task, topics)
        with self._journal as fold:
            state, time = fold.state, self._clock()
            place = _place(fold, task, phi, topics, time)
            question = place.question
            view = self._view_at(state, place, state.moment(time), answers)
            names = [judge.name for judge in judges]
            powers = state.verdicts.powers(state.sums, names, place.phi, state.moment(time))
            reading = state.read(place.phi, state.moment(time), place.topics)
            known = zip(reading.prob.tolist(), reading.labels.tolist(), strict=True)
            records = dict(zip(state.peers, known, strict=True))
        return (answers, {}) if not question else consult(judges, question, answers, view, powers, records)

    def choose(
        self,
        task: TaskRequest,
        read: Read | None,
        answers: Answers,
        *,
        judged: Mapping[str, Any] = MappingProxyType({}),
        min_confidence: float | None = None,
        step: Step | None = None,
    ) -> Decided:
        """Read the memory at φ, choose among answers by `read` (None: a mixture of votes), and record it."""
        topics = () if task.topic is None else checked_topics(task.topic)
        phi = self._before_the_lock(task, topics)
        with self._journal.writing() as fold:
            state, time = fold.state, self._clock()
            place = _place(fold, task, phi, topics, time)
            moment, pairs = state.moment(time), pair_products(place.phi)
            reading = state.read(place.phi, moment, place.topics, pairs)
            ballot = _ballot(state.peers, answers)
            copying = state.copying(moment)
            utility: FloatArray | None = None
            details: dict[str, Any] = {"judges": judged} if judged else {}
            if self.center is not None or (read is not None and read.needs == "center"):
                utility, of_center = self._judged(read, task.question, place.phi, ballot, state)
                details |= of_center
                if read is None and utility is not None:
                    ballot = ballot._replace(verdicts={CENTER: utility, **ballot.verdicts})
            view = _view(state, reading, place.phi, moment, ballot, utility, copying, pairs)
            texts = view.text_log_odds
            if ballot.verdicts:
                view, details = _with_verdicts(state, view, place.phi, moment, ballot.verdicts, details)
            outcome = mixture(view) if read is None else read.outcome(view)
            if read is not None and read.needs == "center":
                details |= posterior_details(state, outcome.totals)
            if outcome.used_text and max(map(abs, texts.tolist())) >= _LEAST_LOG_ODDS:
                details = {"text_log_odds": state.by_peer(texts.round(4))} | details
            chosen, confidence, claims = _sureness(state, view, outcome, min_confidence, details)
            costs, charged = np.zeros(len(state.peers)), _NO_COSTS
            if fold.costs.prices:
                costs, price = fold.costs.expected(state.peers, len(place.question or ""), place.phi, moment)
                called = ((peer, state.peers.index(peer)) for peer in ballot.given)
                charged = {peer: (costs.item(i), price.item(i)) for peer, i in called if costs[i] > 0.0}
            if judged:  # what they cost is spent too, and has no price of a peer
                paid = {f"judge {name}": (found.get("cost", 0.0), 0.0) for name, found in judged.items()}
                charged = {**charged, **{name: each for name, each in paid.items() if each[0] > 0.0}}
            if step is not None:
                details["panel"] = step(state, view, confidence, costs)
            agreement = None
            if copying is not None and view.votes is not None and min(view.votes.tolist()) < 1.0:
                agreement = agreement_beside_copies(np.array(ballot.asked), copying, view.votes)
            return self._record(
                fold, task, place, time, moment, reading, outcome, confidence, chosen, details, ballot,
                certain=(outcome.peer, claims), agreement=agreement, charged=charged,
            )  # fmt: skip

    def view(self, phi: ArrayLike, answers: Answers, topic: Topic | None = None) -> View:
        """What every read could use now, to compare reads; no event, no line in the ledger."""
        place = Place(None, self.direction(None, phi), checked_topics(topic), 0.0, None)
        with self._journal as fold:
            return self._view_at(fold.state, place, fold.state.moment(self._clock()), answers)

    def _view_at(self, state: SigmaState, place: Place, moment: float, answers: Answers) -> View:
        pairs = pair_products(place.phi)
        reading = state.read(place.phi, moment, place.topics, pairs)
        ballot = _ballot(state.peers, answers)
        return _view(state, reading, place.phi, moment, ballot, None, state.copying(moment), pairs)

    def _before_the_lock(self, task: TaskRequest, topics: Sequence[str]) -> FloatArray | None:
        """φ of an event that may be new, or as it was handed in; None if it is that of an earlier one.

        Encoding may take milliseconds, so it holds no lock. Most refs are new, and to look one up takes
        about as long as to encode a question. So if there is a question, the ref is looked up under the lock
        only.
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
        self, read: Read | None, question: str | None, phi: FloatArray, ballot: Ballot, state: SigmaState
    ) -> tuple[FloatArray | None, dict[str, Any]]:
        """The center's utilities if this read needs them, or if the mixture can have them."""
        if (read is None and question is None) or (read is not None and read.needs != "center"):
            return None, {}
        return judge_answers(self.center, question or "", phi, ballot.given, state)

    def _record(
        self,
        fold: Fold,
        task: TaskRequest,
        place: Place,
        time: float,
        moment: float,
        reading: Reading,
        outcome: Outcome,
        confidence: float,
        peer: int,
        details: dict[str, Any],
        ballot: Ballot = _NO_BALLOT,
        *,
        certain: tuple[int, Sequence[float]] = (NOBODY, ()),
        agreement: FloatArray | None = None,
        charged: Mapping[str, tuple[float, float]] = _NO_COSTS,
        pacing: Mapping[str, Any] | None = None,
    ) -> Decided:
        """Append a decision to the ledger, and return it."""
        peers = fold.state.peers
        id = self.next_id or self._journal.new_id()
        event = place.event or id
        if reading.topics is not None:
            shares = [f"{share:g}" for share in SHARES.tolist()]
            details["topic_shares"] = dict(zip(shares, reading.topics.weights.tolist(), strict=True))
        panel = details.pop("panel", None)
        said = None if peer == NOBODY else ballot.given.get(peers[peer])
        labelled = tuple(map(fold.labelled.__getitem__, peers))
        ref = None if task.ref is None else str(task.ref)
        body = DecisionLine(
            now=moment,
            tick=place.tick,
            time=time,
            read=outcome.name,
            peers=peers,
            peer=None if peer == NOBODY else peer,
            phi=phi_bytes(place.phi),
            scores=score_bytes((reading.score, reading.prob, reading.effective)),
            labelled=labelled[:1] if labelled.count(labelled[0]) == len(labelled) else labelled,
            confidence=confidence,
            propensity=outcome.propensity,
            question=task.question,
            answer=None if said is None else said.text,
            groups=ballot.asked,
            canons=ballot.canons,
            features_version=FEATURES_VERSION,
            described=ballot.described,
            features=feature_bytes(ballot.features) if ballot.features else b"",
            votes=b"" if outcome.votes is None else claim_bytes(outcome.votes),
            claims=b"" if reading.claims is None else claim_bytes(reading.claims),
            agreement=b"" if agreement is None else claim_bytes(agreement),
            certain=certain[0] if certain[1] else NOBODY,
            certainty=score_bytes(certain[1]) if certain[1] else b"",
            ref=ref,
            topics=place.topics,
            topic_claims=b"" if reading.topics is None else claim_bytes(reading.topics.claims),
            costs=dict(charged),
            pacing=None if pacing is None else PacedDecision.of(pacing),
            panel=None if panel is None else PanelPlace.of(panel),
            details=details,
            verdicts=_as_bytes(ballot.verdicts) if ballot.verdicts else {},
            written=_written(peers, ballot.given, peer) if ballot.given else (),
        )
        line: Line[DecisionLine] = Line("decision", id, event, body)
        decision = decision_in(line)
        if not self._keep_text:
            line = line._replace(body=body.without_texts())
        names = (ref_line(ref, event),) if ref is not None and place.ref_is_new else ()
        lines = (line, *names)
        try:
            return Decided(decision, lines, self._journal.append(*lines), fold.state.clock)
        except StoreError as error:
            raise UnrecordedError(str(error), decision, lines) from error


def _as_bytes(verdicts: Mapping[str, FloatArray]) -> dict[str, bytes]:
    return {judge: score_bytes(scores) for judge, scores in verdicts.items()}


def _written(peers: Sequence[str], given: Mapping[str, Answer], chosen: int) -> tuple[str | None, ...]:
    """Texts of answers that are not their canons, without the chosen one's; () if there are none."""
    texts: list[str | None] = [None] * len(peers)
    for place, peer in enumerate(peers):
        said = given.get(peer)
        if said is not None and said.text and place != chosen and said.text != said.canon:
            texts[place] = said.text
    return tuple(texts) if texts.count(None) < len(texts) else ()


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


def _ballot(peers: tuple[str, ...], answers: Answers) -> Ballot:
    """Answers in the order of the pool; InputError if a peer is not in it."""
    check_in_pool(answers.by_peer, peers)
    numbers: dict[str, int] = {}
    given, asked, features, described = {}, [], [], []
    for place, peer in enumerate(peers):
        answer = answers.by_peer.get(peer)
        if answer is None:
            asked.append(NOT_ASKED)
            continue
        given[peer] = answer
        canon = answer.canon
        asked.append(UNREADABLE if canon is None else numbers.setdefault(canon, len(numbers)))
        if peer in answers.features:
            features.append(answers.features[peer])
            described.append(place)
    verdicts = {
        judge: np.array([said.get(peer, math.nan) if peer in given else math.nan for peer in peers])
        for judge, said in answers.verdicts.items()
    }
    return Ballot(given, tuple(asked), tuple(numbers), features, tuple(described), verdicts)


def _with_verdicts(
    state: SigmaState,
    view: View,
    phi: FloatArray,
    moment: float,
    verdicts: Mapping[str, FloatArray],
    details: dict[str, Any],
) -> tuple[View, dict[str, Any]]:
    """The view after judges spoke, and with what log-odds each did."""
    found = state.verdict_log_odds(verdicts, view.groups, phi, moment)
    if not found:
        return view, details
    moved = view.text_log_odds + np.add.reduce(list(found.values()))
    spoken = {judge: state.by_peer(values.round(4)) for judge, values in found.items()}
    return replace(view, text_log_odds=moved), details | {"verdicts": spoken}


def _no_answers(state: SigmaState, reading: Reading) -> View:
    """What a route may use."""
    none = np.zeros(len(state.peers))
    groups = np.full(len(none), NOT_ASKED)
    return View(
        reading.score, reading.prob, groups, none, 1.0, none, lambda: state.G, state.labelled, state.ballots
    )


def _view(
    state: SigmaState,
    reading: Reading,
    phi: FloatArray,
    moment: float,
    ballot: Ballot,
    utility: FloatArray | None,
    copying: FloatArray | None,
    pairs: FloatArray,
) -> View:
    """What reads may use; a peer that was asked and gave no text cannot be chosen."""
    peers, silent = state.peers, NOT_ASKED
    groups: NDArray[np.intp] = np.array(
        [
            silent if group < 0 and not (peer in ballot.given and ballot.given[peer].text) else group
            for peer, group in zip(peers, ballot.asked, strict=True)
        ],
        dtype=np.intp,
    )
    return View(
        score=reading.score,
        prob=reading.prob,
        groups=groups,
        text_log_odds=state.text_log_odds(ballot.features, ballot.described),
        alternatives=state.alternatives(phi, pairs),
        readable=state.readable,
        relation=lambda: state.G,
        labelled=state.labelled,
        ballots=lambda: state.ballots(moment),
        utility=utility,
        votes=None if copying is None else votes_among(groups, copying),
    )


def _sureness(
    state: SigmaState,
    view: View,
    outcome: Outcome,
    min_confidence: float | None,
    details: dict[str, Any],
) -> tuple[int, float, Sequence[float]]:
    """The peer chosen, the calibrated confidence in its answer, and the claims behind that.

    Nobody is chosen if no answer can be read, or if the answer is not sure enough; the details give the
    reason.
    """
    if outcome.peer == NOBODY:
        details["abstained"] = {"peer": None, "because": "no answer can be read"}
        return NOBODY, outcome.confidence, ()
    claims = answer_claims(
        view.vote_totals, view.alternatives, view.groups.item(outcome.peer), outcome.confidence
    )
    claim = state.mixed_claim(claims)
    confidence, kept = state.calibrated(claim), [*claims.tolist(), claim]
    if min_confidence is not None:
        of_set = state.confidence_of_set(confidence)
        if of_set < min_confidence:
            peer = state.peers[outcome.peer]
            details["abstained"] = {"peer": peer, "confidence": of_set, "expected": min_confidence}
            return NOBODY, confidence, kept
    return outcome.peer, confidence, kept


def _checked_phi(phi: ArrayLike, rank: int) -> FloatArray:
    """A unit vector of the memory's rank, which may be the caller's own array."""
    try:
        vector = np.asarray(phi, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"φ is not an array of numbers ({error}); expected {rank} of them") from error
    if vector.shape != (rank,):
        raise InputError(f"φ has shape {vector.shape}; expected ({rank},), the rank of this memory")
    square = float(vector.dot(vector))
    if not abs(square - 1.0) <= _UNIT:  # False for NaN and infinity too
        what = f"norm {math.sqrt(square):.6g}" if math.isfinite(square) else "NaN or infinite entries"
        raise InputError(f"φ has {what}; expected a unit vector: divide it by its norm")
    return vector
