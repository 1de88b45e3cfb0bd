"""SigmaMem: the object that users hold."""

from __future__ import annotations

import os
import secrets
import time as _time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sigma_mem.answers.canon import canon as default_canon
from sigma_mem.decide.reads import ROUTES, VOTES
from sigma_mem.encode import Encoder
from sigma_mem.errors import InputError, UnknownDecisionError
from sigma_mem.events import Answer, Decision, Feedback, FloatArray
from sigma_mem.memory import Reading, Settings, SigmaState
from sigma_mem.session.checks import checked_labels, checked_phi
from sigma_mem.session.choices import Choice, by_adaptive_read, by_route, by_vote
from sigma_mem.session.explain import Explanation, explain
from sigma_mem.session.fold import Entry, Fold
from sigma_mem.session.given import NOTHING, Given, looked_at
from sigma_mem.session.journal import Journal
from sigma_mem.session.judging import Center, by_name, select
from sigma_mem.session.opening import open_memory
from sigma_mem.session.records import (
    decision_from,
    decision_record,
    feedback_record,
    peer_record,
    revoke_record,
)
from sigma_mem.session.repeats import free_line, news, repeated
from sigma_mem.store.base import Record, Store
from sigma_mem.store.open import open_store

__all__ = ["SigmaMem"]

Answers = Mapping[str, str | Answer | None]


class SigmaMem:
    """An online reliability memory: who can be trusted, and when.

    Parameters
    ----------
    peers : sequence of str, optional
        Names of the models or agents; may be left out when an existing memory is opened.
    path : str or path, optional
        A file to keep the memory in; None keeps it in this process.
    rank : int, optional
        For a memory without an encoder: the dimension of every φ that is handed in.
    encoder : str or Encoder, optional
        What turns a question into φ: "static" (default), "hashed", or an object with the protocol.
    settings : Settings, optional
        Decay, step sizes and prior, recorded with the memory.
    namespace : str
        Several memories may live in one store.
    center : Center, optional
        A frozen model for `select`; see `sigma_mem.center`.
    store : Store, optional
        In place of `path`.
    durable : {"feedback", "all"}
        Feedback is acknowledged once it is on disk. A decision is written behind, within
        milliseconds, unless "all".
    keep_text : bool
        Whether questions and answers are kept in the ledger (explanations quote them). Without, numbers
        remain of them: φ, which answers were equal, and the signs of each.
    seed : int, optional
        For exploring routes.
    clock : callable
        Seconds since 1970.

    Examples
    --------
    >>> mem = SigmaMem(peers=["ann", "bob"], encoder="hashed")
    >>> for _ in range(8):
    ...     d = mem.vote("What is 2 + 2?", {"ann": "4", "bob": "5"})
    ...     _ = mem.feedback(d.id, {"ann": True, "bob": False})
    >>> mem.route("What is 2 + 3?").peer
    'ann'
    """

    def __init__(
        self,
        peers: Sequence[str] | None = None,
        path: str | os.PathLike[str] | None = None,
        *,
        rank: int | None = None,
        encoder: str | Encoder | None = None,
        settings: Settings | None = None,
        namespace: str = "default",
        center: Center | None = None,
        store: Store | None = None,
        durable: Literal["feedback", "all"] = "feedback",
        keep_text: bool = True,
        snapshot_every: int = 4096,
        seed: int | None = None,
        clock: Callable[[], float] = _time.time,
    ) -> None:
        self._clock = clock
        self._center = center
        self._durable = durable == "all"
        self._keep_text = keep_text
        self._rng = np.random.default_rng(seed)
        self._boot = secrets.token_hex(4)  # decisions of another run never share an id with ours
        self._count = 0
        self._owns_store = store is None
        self._closed = False
        self.store = open_store(path) if store is None else store
        self._namespace = namespace
        try:
            opening = open_memory(self.store, namespace, peers, rank, encoder, settings, clock())
            self._opening = opening
            self._rank: int = opening.body["rank"]
            self._settings = Settings(**opening.body["settings"])
            self._journal = Journal(self.store, namespace, opening, snapshot_every)
            self._check_pool(peers)
        except BaseException:
            if self._owns_store:
                self.store.close()
            raise

    # --- what it is ----------------------------------------------------------------------

    @property
    def peers(self) -> tuple[str, ...]:
        """The pool, in order."""
        with self._journal as fold:
            return fold.state.peers

    @property
    def rank(self) -> int:
        """Dimension of φ."""
        return self._rank

    @property
    def settings(self) -> Settings:
        """As recorded with the memory."""
        return self._settings

    @property
    def state(self) -> SigmaState:
        """The state itself, for reading; write only through `feedback`."""
        with self._journal as fold:
            return fold.state

    @property
    def reads(self) -> SigmaState:
        """The second memory, whose peers are the reads."""
        with self._journal as fold:
            return fold.reads

    @property
    def events(self) -> int:
        """How many events were decided."""
        with self._journal as fold:
            return fold.state.clock

    def namespace(self, name: str, peers: Sequence[str] | None = None, **options: Any) -> SigmaMem:
        """Another memory in the same store."""
        return SigmaMem(peers, store=self.store, namespace=name, **options)

    # --- decide --------------------------------------------------------------------------

    def encode(self, question: str) -> FloatArray:
        """φ of a question."""
        phi: FloatArray = self._opening.encoder().encode([question])[0]
        return phi

    def route(
        self,
        question: str | None = None,
        *,
        phi: ArrayLike | None = None,
        read: str = "calibrated-route",
        explore: bool = False,
        after: str | None = None,
    ) -> Decision:
        """Choose a peer before anyone answers.

        Parameters
        ----------
        question : str, optional
            The task; may be left out when `phi` is given.
        phi : array (rank,), optional
            The competence direction, in place of encoding the question.
        read : {"calibrated-route", "m-route"}
            The paper's M-route, or its calibrated form.
        explore : bool
            Where only the chosen peer will be labelled: choose by posterior sampling, so that the
            others are tried as well, and report the propensity.
        after : str, optional
            An earlier decision on the same task: both are one event.
        """
        if read not in ROUTES:
            raise InputError(f"read is {read!r}; expected one of {sorted(ROUTES)}")
        rng = self._rng if explore else None
        return self._decide(question, phi, after, lambda reading, _: by_route(reading, read, rng))

    def vote(
        self,
        question: str | None,
        answers: Answers,
        *,
        phi: ArrayLike | None = None,
        read: str = "calibrated-vote",
        canon: Callable[[str], str | None] = default_canon,
        after: str | None = None,
    ) -> Decision:
        """Choose among answers: equal ones vote together, weighted by what the memory says of their peers.

        Parameters
        ----------
        question, phi, after
            As for `route`.
        answers : mapping
            Peer → text (or `Answer`, or None for no answer).
        read : {"calibrated-vote", "expert-vote", "m-vote", "majority", "posterior", "posterior-no-g"}
            How to weigh them.
        canon : callable
            Canonical form of an answer's text.
        """
        if read not in VOTES:
            raise InputError(f"read is {read!r}; expected one of {sorted(VOTES)}")
        given = looked_at(question, answers, self.peers, canon, self._settings.signs)
        return self._decide(
            question, phi, after, lambda reading, at: by_vote(reading, self.state, at, given, read), given
        )

    def select(
        self,
        question: str,
        answers: Answers,
        *,
        phi: ArrayLike | None = None,
        canon: Callable[[str], str | None] = default_canon,
        after: str | None = None,
    ) -> Decision:
        """Choose among answers by the steered center's judgement and the relation G.

        The decision's details keep utilities U, normalized utilities z and the yes+no mass.
        """
        given = looked_at(question, answers, self.peers, canon, self._settings.signs)
        return self._decide(
            question,
            phi,
            after,
            lambda _, direction: select(self._center, question, direction, given.answers, self.state),
            given,
        )

    def decide(
        self,
        question: str | None,
        answers: Answers,
        *,
        phi: ArrayLike | None = None,
        canon: Callable[[str], str | None] = default_canon,
        after: str | None = None,
    ) -> Decision:
        """Choose among answers by the read that has been best here: the adaptive read.

        Every single read makes its choice; a second memory, whose peers are the reads, chooses
        among them by φ, and learns from the same feedback which of them were right.
        """
        given = looked_at(question, answers, self.peers, canon, self._settings.signs)

        def choice(reading: Reading, direction: FloatArray) -> Choice:
            selected = None
            if self._center is not None and question is not None:
                selected = select(self._center, question, direction, given.answers, self.state)
            return by_adaptive_read(
                reading, self.state, direction, given, self.reads.read(direction), selected
            )

        return self._decide(question, phi, after, choice, given)

    # --- feedback ------------------------------------------------------------------------

    def feedback(
        self,
        decision: str,
        labels: Mapping[str, object],
        *,
        source: str = "default",
        id: str | None = None,
        amend: bool = False,
    ) -> Feedback:
        """Say who was right: for some or all peers, now or late. Returns once it is on disk.

        Saying the same again changes nothing. Saying something else of a peer that the same source
        has spoken of before is an error, unless it amends; the result is then as if it had been
        said so in the first place.

        Parameters
        ----------
        decision : str
            Id of any decision on the event.
        labels : mapping
            Peer → bool, or c ∈ [−1, 1]. A peer left out is unlabelled: missing is not wrong.
        source : str
            Who says so; `revoke` takes back all that a source said.
        id : str, optional
            Of this feedback, for senders that retry.
        amend : bool
            Replace what this source said of these peers.
        """
        with self._journal as fold:
            clean = checked_labels(labels, fold.known_peers())
            if source in fold.revoked:
                raise InputError(f"source {source!r} was revoked; expected another source")
            event, entry = self._known(fold, decision)
            if id is not None and repeated(self.store, self._namespace, id, (event, clean, source), amend):
                fresh: Mapping[str, float] = {}
            else:
                fresh = news(entry, clean, source, amend)
            feedback = Feedback(id or f"{event}/{entry.lines}", event, clean, source, self._clock(), amend)
            if fresh:
                line = feedback.id if id is None else free_line(self.store, self._namespace, id)
                tick = fold.tick_of(entry)
                ticket = self._journal.append(feedback_record(feedback, line, tick))
                fold.learn(entry, fresh, source, tick)
                self._journal.snapshot_when_due()
        if fresh:
            ticket.wait()
        else:
            self.store.flush()  # what was said before may still be on its way
        return feedback

    def revoke(self, source: str) -> int:
        """Take back all that a source ever said; return how many lines of feedback that were.

        The memory is then as if that source had never spoken; it is not heard again. Decisions made
        meanwhile stay, and so does what they expected of their peers, which signs are held against.
        """
        with self._journal as fold:
            lines: int = sum(
                line.kind == "feedback" and line.body["source"] == source
                for line in self.store.records(self._namespace)
            )
            if source not in fold.revoked:
                self._journal.commit(revoke_record(source, self._clock()))
        return lines

    # --- peers ---------------------------------------------------------------------------

    def add_peer(self, peer: str) -> None:
        """Take a new peer into the pool, last in order, with nothing known of it."""
        with self._journal as fold:
            if peer in fold.departed:
                raise InputError(f"peer {peer!r} was removed before; expected a name not used yet")
            SigmaState((*self.peers, peer), 1)  # the same checks as ever, before anything is written
            self._journal.commit(peer_record(peer, True, self._clock()))

    def remove_peer(self, peer: str) -> None:
        """Forget a peer; its name is not used again, so that nobody starts afresh under it."""
        with self._journal:
            if peer not in self.peers or len(self.peers) == 1:
                SigmaState(self.peers, 1).remove_peer(peer)  # says what is wrong
            self._journal.commit(peer_record(peer, False, self._clock()))

    # --- look ----------------------------------------------------------------------------

    def decision(self, id: str) -> Decision:
        """An earlier decision, from the ledger."""
        return decision_from(self._line(id))

    def explain(self, decision: str, *, peer: str | None = None, top: int = 5) -> Explanation:
        """Name the past events that weighed most in a decision, exactly.

        Parameters
        ----------
        decision : str
            Id of the decision.
        peer : str, optional
            Whose score to take apart; the chosen peer's by default.
        top : int
            How many events to list.
        """
        line = self._line(decision)
        if peer is not None and peer not in line.body["scores"]:
            raise InputError(f"peer {peer!r} was not in the pool {sorted(line.body['scores'])} then")
        before = list(self.store.records(self._namespace, until=line.seq - 1))
        return explain(line, before, self.settings, peer, top)

    def replayed(self) -> Fold:
        """The state that the ledger alone gives, from its first line; equal to the live one bit for bit."""
        with self._journal:
            return self._journal.replayed()

    # --- life ----------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Save derived state, so that the next start need not replay the whole ledger."""
        with self._journal:
            self._journal.snapshot()

    def close(self) -> None:
        """Write everything that is still on its way, and let go of the store; twice is fine."""
        if self._closed or not self._owns_store:
            return
        self._closed = True
        try:
            with self._journal:
                self._journal.snapshot_if_possible()
        finally:
            self.store.close()

    def __enter__(self) -> SigmaMem:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside --------------------------------------------------------------------------

    def _check_pool(self, peers: Sequence[str] | None) -> None:
        if peers is not None and tuple(peers) != self.peers:
            raise InputError(
                f"peers are {list(peers)}; the memory in {self._namespace!r} has {list(self.peers)}: open it "
                "without peers, then use add_peer and remove_peer"
            )

    def _direction(self, question: str | None, phi: ArrayLike | None, after: str | None) -> FloatArray:
        if phi is not None:
            return checked_phi(phi, self._rank)
        if after is not None:
            with self._journal as fold:
                return self._known(fold, after)[1].phi
        if not question:
            raise InputError("neither question nor phi was given; expected one of them")
        return self.encode(question)

    def _decide(
        self,
        question: str | None,
        phi: ArrayLike | None,
        after: str | None,
        choose: Callable[[Reading, FloatArray], Choice],
        given: Given = NOTHING,
    ) -> Decision:
        """Read the memory, choose, and record the choice as a decision on a new or an earlier event."""
        direction = self._direction(question, phi, after)
        with self._journal as fold:
            state, now, time = fold.state, fold.state.now, self._clock()
            reading = state.read(direction)
            choice = choose(reading, direction)
            self._count += 1
            id = f"{self._boot}-{self._count}"
            if after is None:
                event, tick = id, fold.begin(id, direction, time)
            else:
                event, entry = self._known(fold, after)
                tick = entry.tick
            answers, peer = given.answers, state.peers[choice.peer]
            decision = Decision(
                id=id,
                event=event,
                read=choice.read,
                phi=direction,
                peer=peer,
                answer=answers[peer].text if peer in answers else None,
                scores=by_name(state.peers, reading.score),
                probs=by_name(state.peers, reading.prob),
                effective=by_name(state.peers, reading.effective),
                confidence=choice.confidence,
                propensity=choice.propensity,
                tick=tick,
                time=time,
                question=question,
                canons={name: answer.canon for name, answer in answers.items()},
                signs={name: row for name, row in given.signs.items() if name in state.peers},
                reads=choice.reads,
                details=choice.details,
            )
            if answers:
                fold.answered(event, decision.canons, decision.reads, decision.signs, decision.probs)
            ticket = self._journal.append(decision_record(decision, now, self._keep_text))
            self._journal.snapshot_when_due()
        if self._durable:
            ticket.wait()
        return decision

    def _known(self, fold: Fold, decision: str) -> tuple[str, Entry]:
        """The event of a decision, and what is known of it."""
        entry = fold.entry(decision)
        if entry is not None:
            return decision, entry
        line = self._line(decision)
        entry = fold.entry(line.event)
        if entry is None:  # the ledger holds a decision without its event's first one
            raise UnknownDecisionError(f"event {line.event!r} of decision {decision!r} is not in this memory")
        return line.event, entry

    def _line(self, decision: str) -> Record:
        line = self.store.find(self._namespace, "decision", decision)
        if line is None:
            raise UnknownDecisionError(
                f"decision {decision!r} is not in namespace {self._namespace!r}; "
                "expected the id of a decision of this memory"
            )
        return line
