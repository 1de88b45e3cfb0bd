"""SigmaMem: the object that users hold."""

from __future__ import annotations

import os
import time as _time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sigma_mem.answers.canon import Canon
from sigma_mem.answers.chat import Question, question_text
from sigma_mem.answers.features import Answers, prepare_answers
from sigma_mem.decide import READS, Reads
from sigma_mem.encode import Encoder
from sigma_mem.encode.custom import Embed
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Decision, Feedback, FloatArray
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.topics import checked_topics
from sigma_mem.session.advice import FIRST_CHECK, Advice, advice_for, rank_advice
from sigma_mem.session.building import build_store
from sigma_mem.session.costs import Budget, Price, Spending, price_record
from sigma_mem.session.deciding import Decided, Decider, TaskRequest, checked_share, named_read
from sigma_mem.session.drift import Drift, find_drift, recent_labels
from sigma_mem.session.event import events_of
from sigma_mem.session.explain import Explanation, explain
from sigma_mem.session.feedback import append_feedback, append_revocation
from sigma_mem.session.fold import Fold
from sigma_mem.session.forgetting import forget_events
from sigma_mem.session.history import History, histories
from sigma_mem.session.journal import Journal, shared_journal
from sigma_mem.session.judging import JudgingCenter
from sigma_mem.session.learning import Learned, learn_stream
from sigma_mem.session.limits import RouteLimits
from sigma_mem.session.lines import decision_from, is_forgotten
from sigma_mem.session.listing import Decisions, Moment, decision_lines, filtered
from sigma_mem.session.logs import LOG
from sigma_mem.session.looking import TrustByPeer, TrustTable, trust_at, trust_overall
from sigma_mem.session.merging import Ledger, append_merged, merged_opening
from sigma_mem.session.moving import export_ledger, read_ledger, restore_ledger
from sigma_mem.session.naming import id_of
from sigma_mem.session.opening import open_memory
from sigma_mem.session.panel import EXPLORED, Panel, PanelLimits, Step
from sigma_mem.session.peers import (
    append_departure,
    append_join,
    append_rename,
    append_reset,
    checked_pool,
    other_pool_error,
    sync_pool,
)
from sigma_mem.session.pool import PoolChanges
from sigma_mem.session.refolding import RecordedTask, Refolded, RefoldReport, refolded, refolded_opening
from sigma_mem.session.serving import append_served, as_served, checked_among
from sigma_mem.session.sources import Source, list_sources
from sigma_mem.session.topics import Topic
from sigma_mem.session.viewing import view_of
from sigma_mem.session.votes import votes_of_groups
from sigma_mem.store.backup import backup_store
from sigma_mem.store.base import Record, Store
from sigma_mem.store.open import open_store
from sigma_mem.store.postgres import is_postgres
from sigma_mem.streams import Stream

GivenAnswers = Mapping[str, str | Answer | None]

_LEAST_LOG_ODDS = 0.005  # of text features: less is not kept with a decision
_NEVER = 2**62  # lines until a snapshot
_NO_TASK = "neither question, phi nor topic was given; expected one of them"
_UNIT = 1e-6  # how far ‖φ‖² may be from 1


class SigmaMem:
    """An online reliability memory: who can be trusted, and when.

    Parameters
    ----------
    peers : sequence of str, optional
        Names of the models or agents, for an existing memory in any order; they may be left out there.
    path : str or path, optional
        A file to keep the memory in; None keeps it in this process.
    sync : bool
        Whether the pool of an existing memory is matched to `peers`: who is missing is added, who is not
        named is removed.
    rank : int, optional
        For a memory without an encoder: the dimension of every φ that is handed in.
    encoder : str, callable or Encoder, optional
        What turns a question into φ: "static" (default), "minilm", "hashed", or your own; see docs/encoders.
    settings : Settings, optional
        Decay, step sizes and prior, recorded with the memory.
    namespace : str
        Several memories may live in one store.
    center : Center, optional
        A frozen model for `select`; see `sigma_mem.center`.
    readonly : bool
        Look at the memory in a file and follow it, beside the process that writes it.
    store : Store, optional
        In place of `path`.
    durable : {"feedback", "all"}
        Feedback is acknowledged once it is on disk. A decision is written behind, within
        milliseconds, unless "all".
    keep_text : bool, optional
        Whether questions and answers are kept in the ledger (explanations quote them), by default so. Without
        them the ledger keeps numbers only: φ, which answers were equal, and the text features of each. It is
        recorded with a new memory, and holds whenever that is opened.
    reads : Reads
        The reads that `vote`, `route` and `decide` know.
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
        sync: bool = False,
        rank: int | None = None,
        encoder: str | Embed | Encoder | None = None,
        settings: Settings | None = None,
        namespace: str = "default",
        center: JudgingCenter | None = None,
        readonly: bool = False,
        store: Store | None = None,
        durable: Literal["feedback", "all"] = "feedback",
        keep_text: bool | None = None,
        snapshot_every: int = 4096,
        reads: Reads = READS,
        seed: int | None = None,
        clock: Callable[[], float] = _time.time,
    ) -> None:
        self._clock = clock
        self._registry = reads
        if durable not in ("feedback", "all"):
            raise InputError(f"durable is {durable!r}; expected 'feedback' or 'all'")
        self._durable = durable == "all"
        self._rng = np.random.default_rng(seed)
        self._warned: set[str] = set()
        self._owns_store = store is None
        self._closed = False
        made = path is not None and not readonly and not is_postgres(path) and not os.path.exists(path)
        self.store = open_store(path, readonly, create=peers is not None) if store is None else store
        self._namespace = namespace
        try:
            opening, self._encoder = open_memory(
                self.store, namespace, peers, rank, encoder, settings, keep_text, clock()
            )
            self._opening = opening
            self._keep_text = keep_text is not False if opening.keep_text is None else opening.keep_text
            self._journal = shared_journal(self.store, namespace, opening, reads, snapshot_every)
            self._decider = Decider(
                self._journal, opening, self._encoder, reads, center, self._rng, clock, self._keep_text
            )
            with self._journal:
                pass  # load it now: a damaged memory does not open
            if peers is not None and not checked_pool(peers, self.peers):
                if not sync:
                    raise other_pool_error(peers, self.peers, namespace)
                sync_pool(self._journal, peers, clock())
            self._warn([rank_advice(opening.rank)])
        except BaseException:
            if self._owns_store:
                unused = made and not self.store.namespaces()
                self.store.close()
                if unused and path is not None:
                    os.unlink(path)  # no memory came of it
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
        return self._opening.rank

    @property
    def settings(self) -> Settings:
        """As recorded with the memory."""
        return self._opening.settings

    @property
    def encoder(self) -> Mapping[str, str]:
        """Name and version of the encoder that the memory was made with."""
        return dict(self._opening.encoder)

    @property
    def keep_text(self) -> bool:
        """Whether questions and answers are kept in the ledger."""
        return self._keep_text

    @property
    def state(self) -> SigmaState:
        """The live state, to read from; it is written through `feedback` only."""
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

    def namespace(
        self,
        name: str,
        peers: Sequence[str] | None = None,
        *,
        rank: int | None = None,
        encoder: str | Embed | Encoder | None = None,
        settings: Settings | None = None,
        center: JudgingCenter | None = None,
        durable: Literal["feedback", "all"] = "feedback",
        keep_text: bool | None = None,
        snapshot_every: int = 4096,
        seed: int | None = None,
    ) -> SigmaMem:
        """Another memory in the same store; the parameters are those of `SigmaMem`."""
        return SigmaMem(
            peers,
            store=self.store,
            namespace=name,
            rank=rank,
            encoder=encoder,
            settings=settings,
            center=center,
            durable=durable,
            keep_text=keep_text,
            snapshot_every=snapshot_every,
            reads=self._registry,
            seed=seed,
            clock=self._clock,
        )

    # --- decide --------------------------------------------------------------------------

    def encode(self, question: Question) -> FloatArray:
        """φ of a question."""
        return self._decider.encode(question)

    def route(
        self,
        question: Question | None = None,
        *,
        phi: ArrayLike | None = None,
        read: str = "calibrated-route",
        explore: bool = False,
        topic: Topic | None = None,
        among: Sequence[str] | None = None,
        max_cost: float | None = None,
        max_latency: float | None = None,
        value: float | None = None,
        min_prob: float | None = None,
        budget: Budget | None = None,
        after: str | Decision | None = None,
        ref: str | None = None,
    ) -> Decision:
        """Choose a peer before anyone answers.

        Parameters
        ----------
        question : str or list of messages, optional
            The task, or a chat that ends with it, of which the user's texts count; may be left out when `phi`
            or `topic` is given.
        phi : array (rank,), optional
            The competence direction, in place of encoding the question.
        read : str
            Which route: "calibrated-route", or the paper's "m-route".
        explore : bool
            Thompson sampling, for where only the chosen peer will be labelled: the others are tried as
            well, and the decision reports its propensity.
        topic : str or sequence of str, optional
            What you know of the task's kind: its field, tool, language or tenant. A topic is new where it
            was not named before. Topic alone, question alone or both.
        among : sequence of str, optional
            The candidates: only these can be chosen, and the propensity is over them alone.
        max_cost, max_latency : float, optional
            Leave out peers whose call is expected to cost more, or to take longer (in seconds).
        value : float, optional
            What a right answer is worth, in the unit of the prices: the largest p̂·value − cost is chosen.
        min_prob : float, optional
            Choose the cheapest peer with at least this p̂; the best one where none has, and `details` says so.
        budget : Budget, optional
            Choose so that spending follows a budget over many events.
        after : str or Decision, optional
            An earlier decision on the same task: both are one event.
        ref : str, optional
            A name of your own for the event (a trace id, say), which `feedback`, `served`, `explain` and
            `after` take in place of an id, also after a restart. The same ref again is the same event.
        """
        chosen = named_read(self._registry.routes, read)
        limits = RouteLimits(among, max_cost, max_latency, value, min_prob, budget)
        task = TaskRequest(question_text(question), phi, topic, after, ref)
        return self._made(self._decider.decide(task, chosen, explore=explore, limits=limits))

    def vote(
        self,
        question: Question | None,
        answers: GivenAnswers,
        *,
        phi: ArrayLike | None = None,
        read: str = "calibrated-vote",
        canon: Canon = "auto",
        topic: Topic | None = None,
        among: Sequence[str] | None = None,
        after: str | Decision | None = None,
        ref: str | None = None,
        min_confidence: float | None = None,
    ) -> Decision:
        """Choose among answers: equal ones vote together, weighted by what the memory says of their peers.

        Where no answer can be read the vote abstains: `peer` and `answer` are None.

        Parameters
        ----------
        question, phi, topic, after, ref
            As for `route`.
        answers : mapping
            Peer → text (or `Answer`, or None for no answer).
        read : str
            How to weigh them: one of the votes in `sigma_mem.decide.READS`. A tie in "majority" goes to
            the answer with the larger sum of the calibrated vote's weights.
        canon : str or callable
            How answers are compared: "auto", "number", "choice", "math", "text", "json", "code" (a literal)
            or "program", as in `sigma_mem.answers.canon`; or a function from the text of an answer to its
            canonical form, None where it cannot be read.
        among : sequence of str, optional
            Only the answers of these peers count; those of others are left out.
        min_confidence : float, optional
            Answer only where that many in a hundred of the answers given are right: abstain, with `peer` and
            `answer` None, where decisions at least as sure as this one have a smaller mean confidence.
        """
        chosen = named_read(self._registry.votes, read)
        task = TaskRequest(question_text(question), phi, topic, after, ref)
        given = self._prepared(task.question, answers, canon, among)
        share = checked_share(min_confidence)
        return self._made(self._decider.decide(task, chosen, given, min_confidence=share))

    def select(
        self,
        question: Question,
        answers: GivenAnswers,
        *,
        phi: ArrayLike | None = None,
        canon: Canon = "auto",
        topic: Topic | None = None,
        among: Sequence[str] | None = None,
        after: str | Decision | None = None,
        ref: str | None = None,
    ) -> Decision:
        """Choose among answers by the steered center's judgement and the relation G.

        The decision's details keep utilities U, normalized utilities z and the yes+no mass.
        """
        task = TaskRequest(question_text(question), phi, topic, after, ref)
        given = self._prepared(task.question, answers, canon, among)
        return self._made(self._decider.decide(task, self._registry["select"], given))

    def decide(
        self,
        question: Question | None,
        answers: GivenAnswers,
        *,
        phi: ArrayLike | None = None,
        canon: Canon = "auto",
        topic: Topic | None = None,
        among: Sequence[str] | None = None,
        after: str | Decision | None = None,
        ref: str | None = None,
        min_confidence: float | None = None,
    ) -> Decision:
        """Choose among answers by the read that has been best here: the adaptive read.

        Every read makes its choice; a second memory, whose peers are the reads, chooses among them by φ
        and learns from the same feedback which of them were right. The parameters are those of `vote`.
        """
        task = TaskRequest(question_text(question), phi, topic, after, ref)
        given = self._prepared(task.question, answers, canon, among)
        share = checked_share(min_confidence)
        return self._made(self._decider.decide(task, None, given, min_confidence=share))

    def served(
        self,
        decision: str | Decision,
        peer: str | None = None,
        *,
        cost: float | None = None,
        latency: float | None = None,
    ) -> Decision:
        """Say who really answered, where a caller takes another peer than the decision chose, and its cost.

        A line of the ledger: the decision then has `served`, and its propensity is 0 where that is not the
        peer it chose, since no draw of this memory chose it. Feedback goes on as usual. Said again, the last
        one counts. Returns the decision as it now stands, once it is on disk.

        Parameters
        ----------
        decision : str or Decision
            The decision, its id, or the ref of its event (then the event's last decision).
        peer : str, optional
            Who answered; the peer that was chosen, if left out. It is charged, in place of the chosen one.
        cost, latency : float, optional
            What the call really cost, in place of what was expected, and how many seconds it took.
        """
        return append_served(self._journal, id_of(decision), peer, cost, latency, self._clock())

    def set_price(
        self,
        peer: str,
        *,
        per_call: float = 0.0,
        per_input_token: float = 0.0,
        per_output_token: float = 0.0,
        output_tokens: float = 300.0,
        latency: float | None = None,
    ) -> Price:
        """Say what a call to a peer costs from now on, in any one unit of money, and how long it takes.

        Parameters
        ----------
        per_call, per_input_token, per_output_token : float
            The call costs their sum; the tokens of a question are estimated from its length.
        output_tokens : float
            How long an answer is expected to be, until `served` has reported real costs.
        latency : float, optional
            Seconds.
        """
        price = Price(per_call, per_input_token, per_output_token, output_tokens, latency)
        with self._journal.writing() as fold:
            if peer not in fold.state.peers:
                raise InputError(f"peer is {peer!r}; expected one of {list(fold.state.peers)}")
            if fold.costs.prices.get(peer) == price:
                return price
            line = price_record(peer, price, fold.costs.price_lines, self._clock())
            ticket = self._journal.append(line)
        ticket.wait()
        return price

    def prices(self) -> dict[str, Price]:
        """The prices that peers of the pool have now."""
        with self._journal as fold:
            return {peer: fold.costs.prices[peer] for peer in fold.state.peers if peer in fold.costs.prices}

    def spent(self, *, since: float | None = None, until: float | None = None) -> Spending:
        """What was spent: in all, by peer, and by day (UTC).

        Parameters
        ----------
        since, until : float, optional
            Seconds since 1970: only the days from the one to the other, both included.
        """
        with self._journal as fold:
            return fold.costs.spending(since, until)

    def ask(
        self,
        question: Question | None = None,
        *,
        phi: ArrayLike | None = None,
        topic: Topic | None = None,
        explore: bool = False,
        canon: Canon = "auto",
        among: Sequence[str] | None = None,
        after: str | Decision | None = None,
        ref: str | None = None,
        change: float = 0.2,
        confidence: float | None = None,
        calls: int | None = None,
    ) -> Panel:
        """Ask peers one after the other, until the rest would hardly change the answer.

        `panel.next` is the peer to ask, `panel.add(peer, answer)` takes its answer and says whether that is
        enough, `panel.decision` is the outcome. All of it is one event, and every step is in the ledger.
        After a restart the same `ref`, or `after` with any step, goes on where the panel stood; in a memory
        that keeps no texts it begins again with nobody asked.

        Parameters
        ----------
        question, phi, topic, explore, canon, among, after, ref
            As for `route` and `vote`, but `explore` says that only those who were asked will be labelled. A
            panel asks on where a task looks hard, so that those asked later seem worse than they are: one
            panel in ten then asks everyone, and of the others only the label of the first peer counts.
        change : float
            Stop once the chance that the peers not asked would change the answer is at most this.
        confidence : float, optional
            Stop as well once the answer is at least this sure.
        calls : int, optional
            Ask at most so many.
        """
        everyone = explore and self._rng.random() < EXPLORED
        limits = PanelLimits(change, confidence, calls, among, explore, everyone)
        task = TaskRequest(question_text(question), phi, topic, after, ref)
        route, within = self._registry["calibrated-route"], RouteLimits(among)
        first = self._made(self._decider.decide(task, route, limits=within))

        def decide(answers: Mapping[str, Answer], step: Step) -> Decision:
            given = prepare_answers(task.question, answers, canon, self.settings.text_features)
            same = TaskRequest(task.question, after=first.event)
            return self._made(self._decider.decide(same, None, given, step=step))

        panel = Panel(first, limits, canon, decide)
        if first.id != first.event:
            lines = self.store.of_event(self._namespace, first.event)
            panel.resume(decision_from(line) for line in lines if _is_step(line))
        return panel

    # --- feedback ------------------------------------------------------------------------

    def feedback(
        self,
        decision: str | Decision,
        labels: Mapping[str, object] | None = None,
        *,
        scores: Mapping[str, object] | None = None,
        source: str = "default",
        id: str | None = None,
        amend: bool = False,
        wait: bool = True,
    ) -> Feedback:
        """Say who was right: for some or all peers, now or late. Returns once it is on disk.

        Feedback is idempotent: the same labels again change nothing. Another label for a peer that the same
        source labelled before is an error, unless it amends; the result is then as if it had been the first.

        Parameters
        ----------
        decision : str or Decision
            Any decision on the event, its id, or the ref of the event.
        labels : mapping
            Peer → bool, or c ∈ [−1, 1]. A peer left out is unlabelled: missing is not wrong. The integer 1 is
            right; the integer 0 is refused, since it could mean wrong (False) or undecided (0.0).
        scores : mapping
            Peer → s ∈ [0, 1], where 0 is wrong and 1 is right: the label is c = 2s − 1.
        source : str
            Who says so. Sources that are not trusted weigh less (`Settings.trusted`); `revoke` takes back all
            that a source said. A peer cannot label itself.
        id : str, optional
            Of this feedback, for senders that retry.
        amend : bool
            Replace what this source said of these peers.
        wait : bool
            Whether to return only once it is on disk. Who sends many leaves that out, and calls
            ``store.flush()`` after the last.
        """
        said, time = id_of(decision), self._clock()
        return append_feedback(self._journal, said, labels, scores, source, id, amend, time, wait)

    def revoke(self, source: str) -> int:
        """Take back all feedback of a source; return how many lines that were.

        The memory is then as if that source had never spoken, and the source is not heard again, until
        `unrevoke`. Decisions made meanwhile stay, and so do the p̂ they claimed and the weights that other
        sources had.
        """
        return append_revocation(self._journal, source, False, self._clock())

    def unrevoke(self, source: str) -> int:
        """Take a revocation back: all feedback of the source counts again; return how many lines that are."""
        return append_revocation(self._journal, source, True, self._clock())

    def sources(self) -> list[Source]:
        """Everyone who gave feedback or is trusted, by name: how often, and what that is worth now."""
        with self._journal as fold:
            return list_sources(fold, self.store.sources(self._namespace))

    # --- peers ---------------------------------------------------------------------------

    def add_peer(self, peer: str, *, returning: bool = False) -> None:
        """Take a peer into the pool, last in order, with nothing known of it.

        A peer that was removed before must be `returning`, so that nobody starts afresh under a name by
        accident; the ledger says so.
        """
        append_join(self._journal, peer, returning, self._clock())

    def remove_peer(self, peer: str) -> None:
        """Take a peer out of the pool, and forget what is known of it; see `add_peer` for its return."""
        append_departure(self._journal, peer, self._clock())

    def reset_peer(self, peer: str, *, keep: float = 0.2) -> None:
        """Say that a model was updated under its name: only a share of its record counts from here on.

        Labels of events before that count with this share, whenever they come.

        Parameters
        ----------
        peer : str
        keep : float
            The share, from 0 (start afresh) to 1 (nothing changes).
        """
        append_reset(self._journal, peer, keep, self._clock())

    def rename_peer(self, peer: str, name: str) -> None:
        """Give a peer another name; everything that is known of it stays.

        Feedback may still use the old name, which no other peer can have.
        """
        append_rename(self._journal, peer, name, 1.0, self._clock())

    def replace_peer(self, peer: str, by: str, *, keep: float = 0.2) -> None:
        """Put another peer in the place of one, with a share of its record: its successor.

        Parameters
        ----------
        peer, by : str
            Who leaves, and who takes its place in the pool.
        keep : float
            The share of the record that the successor starts with.
        """
        append_rename(self._journal, peer, by, keep, self._clock())

    # --- look ----------------------------------------------------------------------------

    def decision(self, id: str | Decision) -> Decision:
        """An earlier decision, from the ledger; for a ref, the last one on its event."""
        with self._journal as fold:
            return as_served(fold, fold.line(id_of(id)))

    def decisions(
        self,
        last: int | None = None,
        *,
        before: str | Decision | None = None,
        peer: str | None = None,
        read: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        text: str | None = None,
    ) -> Decisions:
        """Earlier decisions, newest first, read from the ledger while they are iterated.

        Parameters
        ----------
        last : int, optional
            At most this many.
        before : str or Decision, optional
            Only decisions older than this one: the last on the page before.
        peer, read : str, optional
            Only those that chose this peer, or were made by this read.
        since, until : float, datetime or str, optional
            Only those of since ≤ time < until: seconds since 1970, or a date.
        text : str, optional
            Only those with this text in question or answer, in upper or lower case.
        """
        with self._journal as fold:
            start = None if before is None else fold.line(id_of(before)).seq - 1

        def iterate() -> Iterator[Decision]:
            with self._journal as fold:
                end = fold.seq if start is None else start
            lines = decision_lines(self.store, self._namespace, end)
            found = filtered(lines, peer=peer, read=read, since=since, until=until, text=text)
            for line in islice(found, last):
                with self._journal as fold:
                    decision = as_served(fold, line)
                yield decision

        return Decisions(iterate)

    def trust(
        self,
        question: Question | None = None,
        *,
        phi: ArrayLike | None = None,
        topic: Topic | None = None,
    ) -> TrustByPeer:
        """How far each peer can be trusted at a question. Only looks: no event, no line in the ledger."""
        topics, task = checked_topics(topic), question_text(question)
        direction = self._decider.direction(task, phi, topics)
        with self._journal as fold:
            return trust_at(fold.state, direction, fold.state.moment(self._clock()), topics)

    def table(self, topics: Sequence[str] | None = None) -> TrustTable:
        """How far each peer can be trusted whatever the task, and on these topics (default: all). Looks."""
        with self._journal as fold:
            state, moment = fold.state, fold.state.moment(self._clock())
            names = (() if state.topics is None else state.topics.names) if topics is None else topics
            nothing = np.zeros(self.rank)
            by_topic = {name: trust_at(state, nothing, moment, checked_topics(name)) for name in names}
            return TrustTable(state.clock, trust_overall(state), by_topic)

    def effective_votes(
        self,
        answers: GivenAnswers,
        question: Question | None = None,
        *,
        phi: ArrayLike | None = None,
        canon: Canon = "auto",
    ) -> dict[str, float]:
        """How many independent votes each answer's supporters are worth, by canonical answer. Only looks.

        Nine peers that err together may be worth two votes. Learned from how far the confidence in earlier
        agreements held; without a question, whatever the task.
        """
        task = question_text(question)
        given = prepare_answers(task, answers, canon, self.settings.text_features)
        direction = (
            np.zeros(self.rank) if task is None and phi is None else self._decider.direction(task, phi)
        )
        with self._journal as fold:
            state = fold.state
            moment, given = state.moment(self._clock()), given.in_pool(state.peers)
            reading = state.read(direction, moment)
            view = view_of(state, reading, direction, given, None, state.copying(moment))
            votes = votes_of_groups(state, view)
            canons = given.canons()
        by_group = dict(zip(view.groups.tolist(), (canons.get(peer) for peer in state.peers), strict=True))
        return {canon: float(votes[group]) for group, canon in sorted(by_group.items()) if canon is not None}

    def history(self, peer: str) -> History:
        """A peer's record: every event in which it was labelled or chosen, as it stands now, oldest first."""
        with self._journal as fold:
            if peer not in fold.known_peers():
                raise InputError(
                    f"peer {peer!r} is not in this memory; expected one of {sorted(fold.known_peers())}"
                )
        return self.histories([peer])[peer]

    def histories(
        self, peers: Sequence[str] | None = None, *, lines: int | None = None
    ) -> dict[str, History]:
        """The records of these peers, of the whole pool by default, in one pass over the ledger.

        With `lines`, only over so many lines at its end.
        """
        with self._journal as fold:
            end, revoked, pool = fold.seq, set(fold.revoked), fold.state.peers
            pool_changes = fold.pool
        start = 0 if lines is None else max(0, end - lines)
        read = self.store.records(self._namespace, after=start, until=end)
        past = [pool_changes.translated(line) for line in read]
        made = (line for line in past if line.kind == "decision" and not is_forgotten(line))
        return histories(made, events_of(past, revoked), pool if peers is None else peers)

    def labels(self, decision: str | Decision) -> Mapping[str, float]:
        """The labels that the event of a decision has now."""
        with self._journal as fold:
            return dict(fold.event_of(id_of(decision))[1].labels().c)

    def explain(self, decision: str | Decision, *, peer: str | None = None, top: int = 5) -> Explanation:
        """Name the past events that weighed most in a decision, exactly.

        Parameters
        ----------
        decision : str or Decision
            The decision, its id, or the ref of its event (then the event's last decision).
        peer : str, optional
            Whose score to take apart; the chosen peer's by default.
        top : int
            How many events to list.
        """
        with self._journal as fold:
            line, changes = fold.line(id_of(decision)), PoolChanges(fold.pool)
            made = as_served(fold, line)
        pool = made.scores
        if peer is not None and peer not in pool:
            raise InputError(f"peer {peer!r} was not in the pool {sorted(pool)} then")
        before = self.store.records(self._namespace, until=line.seq - 1)
        return replace(explain(line, before, self.settings, peer, top, changes), served=made.served)

    def advice(self) -> list[Advice]:
        """What there is to say about how the memory is used, with remedies; each is also logged once.

        That happens after 256 events, then after twice as many, and so on.
        """
        with self._journal as fold:
            return advice_for(fold, self.store, self._namespace, self._opening.encoder["name"])

    def drift(self) -> list[Drift]:
        """Peers whose recent record left their long one: since when, and how sure; the surest first.

        Looks at the newest 600 labelled events. A run of hard tasks or of one topic is no drift, and what
        moves many peers at once is taken for a change of the tasks.
        """
        with self._journal as fold:
            recent = recent_labels(fold, self.store, self._namespace)
        return find_drift(recent, self.store, self._namespace)

    def replayed(self) -> Fold:
        """The state that the ledger alone gives, from its first line; equal to the live one bit for bit."""
        with self._journal:
            return self._journal.replayed()

    # --- forget --------------------------------------------------------------------------

    def forget(
        self,
        decision: str | Decision | Iterable[str | Decision] | None = None,
        *,
        before: Moment | None = None,
        text: str | None = None,
    ) -> int:
        """Forget events for good: their texts, φ and labels, and their share of all that was learned.

        The memory is then as if they had been decided with nothing known of them, and never labelled: the
        clock, the ages of other events and all ids stay. Their bytes leave the file as well. What later
        decisions claimed stays as it was recorded; `refold` computes it again. Takes as long as a replay.
        Returns how many events were forgotten.

        Parameters
        ----------
        decision : str, Decision or several of them
            Any decision on the event, its id, or the event's ref.
        before : float, datetime or str
            Forget all events decided before this moment.
        text : str
            Forget all events in whose question or answers this text occurs, in upper or lower case.
        """
        return forget_events(self._journal, decision, before, text, self._clock())

    # --- move ----------------------------------------------------------------------------

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the whole store, with all its namespaces, into a new file; decisions go on meanwhile."""
        backup_store(self.store, Path(path))

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write this memory as JSON lines, compressed for ``.gz``; return how many lines. Nothing is lost."""
        with self._journal as fold:
            until = fold.seq
        return export_ledger(self.store, self._namespace, Path(path), until)

    @staticmethod
    def restore(
        file: str | os.PathLike[str],
        path: str | os.PathLike[str] | None = None,
        *,
        namespace: str = "default",
        encoder: str | Encoder | None = None,
    ) -> SigmaMem:
        """Make a memory from a file that `export` wrote: the same lines, the same state.

        Parameters
        ----------
        file
            What `export` wrote; one that was cut or changed is refused.
        path, namespace, encoder
            As for `SigmaMem`; an existing file gets one more namespace.
        """
        records = read_ledger(Path(file))
        store = open_store(path)
        try:
            restore_ledger(records, store, namespace)
            return SigmaMem._owning(store, namespace, encoder)
        except BaseException:
            store.close()
            raise

    def learn(
        self,
        stream: Stream,
        *,
        source: str = "default",
        progress: Callable[[int, int], None] | None = None,
    ) -> Learned:
        """Learn from a recorded stream: decide every event, then take its labels.

        Every event gets the ref ``stream name:event id``, so that learning again, or after an interruption,
        takes only what is not there yet. Peers that are new join the pool.

        Parameters
        ----------
        stream : Stream
            See `sigma_mem.streams.load_stream`.
        source : str
            Who labelled it.
        progress : callable, optional
            Told (done, total) now and then.
        """
        return learn_stream(self, stream, source, progress)

    def refold(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        settings: Settings | None = None,
        encoder: str | Embed | Encoder | None = None,
        keep_text: bool | None = None,
        namespace: str = "default",
    ) -> Refolded:
        """Make a new memory from this ledger: every decision is made again, and every label taken again.

        Tells how the decisions would have differed. This memory stays as it is.

        Parameters
        ----------
        path : str or path, optional
            A new file for the new memory; None keeps it in this process.
        settings : Settings, optional
            Of the new memory; those of this one by default.
        encoder : str or Encoder, optional
            To encode the questions again, which must have been kept; by default every φ stays.
        keep_text : bool, optional
            Whether the new memory keeps texts; as this one by default.
        namespace : str
            Of the new memory.
        """
        opening, chosen = refolded_opening(self._opening, self._encoder, settings, encoder, keep_text)
        with self._journal as fold:
            until = fold.seq
        task = RecordedTask()

        def fill(store: Store) -> RefoldReport:
            new = SigmaMem(
                store=store, namespace=namespace, encoder=chosen, reads=self._registry, clock=task.clock
            )
            new._decider.center = self._decider.center
            lines = self.store.records(self._namespace, until=until)
            return refolded(new, task, lines, encoder is not None)

        store, report = build_store(path, namespace, opening, self._clock(), fill)
        return Refolded(SigmaMem._owning(store, namespace, chosen), *report)

    def merge(
        self,
        other: SigmaMem,
        path: str | os.PathLike[str] | None = None,
        *,
        namespace: str = "default",
    ) -> SigmaMem:
        """Make a new memory from this one and another: as if one had seen the events of both, in time.

        Both stay as they are. They must have the same rank, settings and encoder. Events that both have,
        being copies of one memory, are taken once.

        Parameters
        ----------
        other : SigmaMem
        path, namespace
            Of the new memory, as for `refold`.
        """
        ledgers = [mem._ledger() for mem in (self, other)]
        opening = merged_opening(*ledgers)

        def fill(store: Store) -> None:
            append_merged(Journal(store, namespace, opening, self._registry, _NEVER), *ledgers)

        store, _ = build_store(path, namespace, opening, self._clock(), fill)
        return SigmaMem._owning(store, namespace, self._encoder)

    def _ledger(self) -> Ledger:
        with self._journal as fold:
            return Ledger(
                self.store,
                self._namespace,
                self._opening,
                fold.seq,
                fold.state.peers,
                frozenset(fold.departed),
                frozenset(fold.revoked),
                PoolChanges(fold.pool),
            )

    @staticmethod
    def _owning(store: Store, namespace: str, encoder: str | Encoder | None) -> SigmaMem:
        """A memory that closes its store."""
        mem = SigmaMem(store=store, namespace=namespace, encoder=encoder)
        mem._owns_store = True
        return mem

    # --- life ----------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Save derived state, so that the next start need not replay the whole ledger."""
        with self._journal:
            self._journal.snapshot()

    def close(self) -> None:
        """Write what is still queued and release the store; idempotent."""
        if self._closed or not self._owns_store:
            return
        self._closed = True
        try:
            if not self.store.readonly:
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

    def _made(self, decided: Decided) -> Decision:
        """The decision, on disk where all decisions are to be; gives advice now and then."""
        if self._durable:
            decided.ticket.wait()
        events, decision = decided.events, decided.decision
        if events >= FIRST_CHECK and events & (events - 1) == 0 and decision.event == decision.id:
            self._warn(self.advice())
        return decision

    def _warn(self, found: Iterable[Advice | None]) -> None:
        """Log what was not said before."""
        for advice in found:
            if advice is not None and advice.about not in self._warned:
                self._warned.add(advice.about)
                LOG.warning("memory %r: %s", self._namespace, advice)

    def _prepared(
        self, question: str | None, answers: GivenAnswers, canon: Canon, among: Sequence[str] | None
    ) -> Answers:
        """The answers that count, with their canons and text features."""
        if among is not None:
            allowed = checked_among(among, self.peers)
            answers = {peer: answer for peer, answer in answers.items() if peer in allowed}
        return prepare_answers(question, answers, canon, self.settings.text_features)


def _is_step(line: Record) -> bool:
    return line.kind == "decision" and "panel" in line.body["details"]
