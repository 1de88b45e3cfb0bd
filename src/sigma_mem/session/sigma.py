"""SigmaMem: the object that users hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Literal, overload

from numpy.typing import ArrayLike

from sigma_mem.answers.canon import Canon
from sigma_mem.answers.chat import Question, question_text
from sigma_mem.answers.features import check_in_pool, prepare_answers
from sigma_mem.decide import Read
from sigma_mem.decide.panel import CHANGE
from sigma_mem.encode import Encoder
from sigma_mem.encode.custom import Embed
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Decision, Feedback, FloatArray
from sigma_mem.ledger.costs import Budget, Price, Spending, price_line
from sigma_mem.ledger.decision import decision_in
from sigma_mem.ledger.event import events_of
from sigma_mem.ledger.lines import is_decision
from sigma_mem.ledger.pool import PoolChanges
from sigma_mem.ledger.records import pages_back
from sigma_mem.memory import Settings
from sigma_mem.memory.topics import checked_topics
from sigma_mem.session.checks import (
    Topic,
    checked_count,
    checked_flag,
    checked_judges,
    checked_kind,
    checked_name,
    checked_names,
    checked_number,
    checked_seconds,
    checked_share,
    checked_verdicts,
    id_of,
    named_read,
)
from sigma_mem.session.drift import Drift, find_drift, recent_labels
from sigma_mem.session.explain import Explanation, explain
from sigma_mem.session.feedback import append_feedback, append_revocation
from sigma_mem.session.forget import forget_events
from sigma_mem.session.handle import Handle
from sigma_mem.session.history import (
    Decisions,
    History,
    Moment,
    decision_filter,
    decision_lines,
    histories,
    verdict_on,
)
from sigma_mem.session.judgement import Judge, JudgingCenter
from sigma_mem.session.limits import limits_given
from sigma_mem.session.panel import Panel, PanelLimits, Step, exploring_share
from sigma_mem.session.peers import (
    append_departure,
    append_join,
    append_rename,
    append_served,
    as_served,
    checked_among,
    known_peers,
)
from sigma_mem.session.task import TaskRequest
from sigma_mem.session.trust import Source, TrustByPeer, list_sources, trust_at, trust_overall

GivenAnswers = Mapping[str, str | Answer | None]
GivenVerdicts = Mapping[str, Mapping[str, float | None]]


class SigmaMem(Handle):
    """An online reliability memory: who can be trusted, and when.

    Parameters
    ----------
    peers : sequence of str, optional
        Names of the models or agents. For an existing memory in any order, or left out.
    path : str or path, optional
        A file to keep the memory in; None keeps it in this process.
    sync : bool
        Whether the pool of an existing memory is matched to `peers`: missing ones are added, the others
        removed.
    rank : int, optional
        For a memory without an encoder: the dimension of every φ that is handed in.
    encoder : str, callable or Encoder, optional
        What turns a question into φ: "static" (default), "minilm", "hashed", or your own; see docs/encoders.
    settings : Settings, optional
        Decay, step sizes and prior, recorded with the memory.
    namespace : str
        Several memories may live in one store.
    center : Center, optional
        A frozen model that judges answers in `decide`; see `sigma_mem.center`.
    judges : sequence of Judge
        Judges behind endpoints that `vote` and `decide` ask; see `sigma_mem.judges`.
    readonly : bool
        Only read the memory in a file, and follow it while another process writes it.
    store : Store, optional
        Instead of `path`.
    durable : {"feedback", "all"}
        Feedback is acknowledged once it is on disk. A decision is written behind, within
        milliseconds, unless "all".
    keep_text : bool, optional
        Whether questions and answers are kept in the ledger (explanations quote them), as by default. Without
        them the ledger keeps numbers only: φ, which answers were equal, and the text features of each. The
        choice is recorded with a new memory, and holds whenever that is opened.
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
            reads=self._reads,
            seed=seed,
            clock=self.clock,
        )

    # --- decide --------------------------------------------------------------------------

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
        note: str | None = None,
    ) -> Decision:
        """Choose a peer before anyone answers.

        Parameters
        ----------
        question : str or list of messages, optional
            The task, or a chat that ends with it, of which the user's texts count. It may be left out if
            `phi` or `topic` is given.
        phi : array (rank,), optional
            The competence direction, instead of encoding the question.
        read : str
            Which route: "calibrated-route", or the paper's "m-route".
        explore : bool
            Thompson sampling, for callers that will label only the chosen peer. The others are tried as
            well, and the decision reports its propensity.
        topic : str or sequence of str, optional
            What you know of the task's kind: its field, tool, language or tenant. Give a topic, a question or
            both. A topic that was not used before is created.
        among : sequence of str, optional
            The candidates: only these can be chosen, and the propensity is over them alone.
        max_cost : float, optional
            Leave out peers whose call is expected to cost more.
        max_latency : float, optional
            Leave out peers whose call is expected to take longer, in seconds.
        value : float, optional
            What a right answer is worth, in the unit of the prices: the largest p̂·value − cost is chosen.
        min_prob : float, optional
            Choose the cheapest peer with at least this p̂; if none has, the best one, which `details`
            reports.
        budget : Budget, optional
            Choose so that spending follows a budget over many events.
        after : str or Decision, optional
            An earlier decision on the same task: both are one event.
        ref : str, optional
            A name of your own for the event (such as a trace id), which `feedback`, `served`, `explain` and
            `after` take instead of an id, also after a restart. The same ref again is the same event.
        note : str, optional
            A short text to keep with the decision, such as why there is one candidate only; `explain`
            repeats it.
        """
        chosen = named_read(self._reads.routes, read)
        if explore is not False:
            checked_flag("explore", explore)
        if note is not None:
            checked_kind("note", note, str, "a short text")
        limits = limits_given(among, max_cost, max_latency, value, min_prob, budget)
        task = TaskRequest(question_text(question), phi, topic, after, ref)
        return self._made(self.decider.route(task, chosen, explore=explore, limits=limits, note=note))

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
        verdicts: GivenVerdicts | None = None,
        judges: Sequence[Judge] | None = None,
    ) -> Decision:
        """Choose among answers: equal ones vote together, weighted by what the memory knows of their peers.

        If no answer can be read the vote abstains: `peer` and `answer` are None.

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
            How answers are compared: "auto", "number", "choice", "text", "json", "code" (a literal) or
            "program", as in `sigma_mem.answers.canon`; or a function from the text of an answer to its
            canonical form, None if it cannot be read.
        among : sequence of str, optional
            Only the answers of these peers count; those of others are left out.
        min_confidence : float, optional
            The share of given answers that should be right, from 0 to 1. Abstain, with `peer` and `answer`
            None, if decisions at least as sure as this one have a smaller mean confidence.
        verdicts : mapping, optional
            How judges score the answers: judge → peer → score, on any scale on which more is better. It is
            evidence: what a judge's score is worth here is learned from labels.
        judges : sequence of Judge, optional
            Judges to ask for more, such as `sigma_mem.judges.EndpointJudge`; those that the memory was opened
            with by default. Each is asked if its score may change the choice, at a gain above its price.
        """
        chosen = named_read(self._reads.votes, read)
        task = TaskRequest(question_text(question), phi, topic, after, ref)
        return self._chosen(task, chosen, answers, canon, among, min_confidence, verdicts, judges)

    def decide(
        self,
        question: Question | None,
        answers: GivenAnswers,
        *,
        phi: ArrayLike | None = None,
        read: str = "adaptive",
        canon: Canon = "auto",
        topic: Topic | None = None,
        among: Sequence[str] | None = None,
        after: str | Decision | None = None,
        ref: str | None = None,
        min_confidence: float | None = None,
        verdicts: GivenVerdicts | None = None,
        judges: Sequence[Judge] | None = None,
    ) -> Decision:
        """Choose among answers by several votes at once: the adaptive read.

        Four votes use the answers: that of the best peer alone, that of independent peers, that of
        experts, and that of peers that err together. They are mixed by how likely each made what turned out
        right. With a center, its utilities U are the verdict of the judge "center", and the details keep U,
        normalized utilities z and the yes+no mass.

        Parameters
        ----------
        question, answers, phi, canon, topic, among, after, ref, min_confidence, verdicts, judges
            As for `vote`.
        read : str
            "adaptive", or a single read over answers; "select" is the steered center's judgement, combined
            with the relation G.
        """
        mixed = isinstance(read, str) and read == "adaptive"
        one = None if mixed else named_read(self._reads.over_answers, read)
        task = TaskRequest(question_text(question), phi, topic, after, ref)
        return self._chosen(task, one, answers, canon, among, min_confidence, verdicts, judges)

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
        change: float = CHANGE,
        confidence: float | None = None,
        calls: int | None = None,
    ) -> Panel:
        """Ask peers one after the other, until the rest would hardly change the answer.

        `panel.next` is the peer to ask, `panel.add(peer, answer)` takes its answer and returns whether that
        is enough, `panel.decision` is the outcome. All of it is one event, and every step is in the ledger.
        After a restart the same `ref`, or `after` with any step, continues where the panel stood. In a memory
        that keeps no texts it begins again with nobody asked.

        Parameters
        ----------
        question, phi, topic, canon, among, after, ref
            As for `route` and `vote`.
        explore : bool
            Whether only peers that were asked will be labelled. A panel asks on if a task looks hard, so that
            peers asked later seem worse than they are. So only labels of peers that are asked whatever the
            others answer count. The second of these is sometimes drawn, and ever fewer panels ask every peer.
        change : float
            Stop once the chance that the peers not asked would change the answer is at most this.
        confidence : float, optional
            Stop as well once the answer is at least this sure.
        calls : int, optional
            Ask at most this many.
        """
        checked_flag("explore", explore)
        everyone = explore and self._rng.random() < exploring_share(self.state.labelled)
        limits = PanelLimits(change, confidence, calls, among, explore, everyone)
        task = TaskRequest(question_text(question), phi, topic, after, ref)
        route, within = self._reads["calibrated-route"], limits_given(among)
        first = self._made(self.decider.route(task, route, limits=within))

        def decide(answers: Mapping[str, Answer], step: Step) -> Decision:
            given = prepare_answers(task.question, answers, canon, self.settings.text_features)
            same = TaskRequest(task.question, after=first.event, ref=ref)
            return self._made(self.decider.choose(same, None, given, step=step))

        panel = Panel(first, limits, canon, decide, self._rng)
        if first.id != first.event:
            lines = [line for line in self.journal.ledger.of_event(first.event) if is_decision(line)]
            with self.journal as fold:
                steps = [decision_in(fold.pool.translated(x)) for x in lines if x.body.panel is not None]
            panel.resume(steps)
        return panel

    def _chosen(
        self,
        task: TaskRequest,
        read: Read | None,
        answers: GivenAnswers,
        canon: Canon,
        among: Sequence[str] | None,
        min_confidence: float | None,
        verdicts: GivenVerdicts | None,
        judges: Sequence[Judge] | None,
    ) -> Decision:
        """Choose among the answers that count, by a read or, if it is None, by the mixture of votes."""
        checked_kind("answers", answers, Mapping, "a mapping from peers to answers")
        peers = self.peers
        if among is not None:
            allowed = checked_among(among, peers)
            answers = {peer: answer for peer, answer in answers.items() if peer in allowed}
        check_in_pool(answers or (), peers)  # before texts are compared, which may take long
        given = prepare_answers(task.question, answers, canon, self.settings.text_features)
        if verdicts is not None:
            given = given._replace(verdicts=checked_verdicts(verdicts, peers))
        share = checked_share("min_confidence", min_confidence)
        checked_judges(judges)
        judged: Mapping[str, Any] = {}
        if asked := self.judges if judges is None else judges:
            given, judged = self.decider.consult(task, given, asked)
        return self._made(self.decider.choose(task, read, given, judged=judged, min_confidence=share))

    # --- teach ---------------------------------------------------------------------------

    def feedback(
        self,
        decision: str | Decision,
        labels: Mapping[str, object] | None = None,
        *,
        scores: Mapping[str, object] | None = None,
        source: str = "default",
        id: str | None = None,
        amend: bool = False,
        weight: float = 1.0,
        wait: bool = True,
    ) -> Feedback:
        """Record which peers were right: some or all of them, now or late. Returns once it is on disk.

        Feedback is idempotent: the same labels again change nothing. Another label from the same source for
        the same peer is an error, unless `amend` is true. The result is then as if it had been the first.

        Parameters
        ----------
        decision : str or Decision
            Any decision on the event, its id, or the ref of the event.
        labels : mapping
            Peer → bool, or c ∈ [−1, 1]. A peer left out is unlabelled: missing is not wrong. The integer 1 is
            right. The integer 0 is refused, since it could mean wrong (False) or undecided (0.0).
        scores : mapping
            Peer → s ∈ [0, 1], where 0 is wrong and 1 is right: the label is c = 2s − 1.
        source : str
            The name of the person or program that gives these labels. Sources that are not trusted weigh less
            (`Settings.trusted`); `revoke` takes back all that a source gave. A peer cannot label itself.
        id : str, optional
            Id of this feedback, for senders that retry.
        amend : bool
            Replace the labels that this source gave these peers.
        weight : float
            The share of its source's weight that this label has, above 0. For a trusted source it must be 1.
        wait : bool
            Whether to return only once it is on disk. Callers that send many pass False, and call
            ``store.flush()`` after the last.
        """
        checked_flag("amend", amend)
        checked_flag("wait", wait)
        if not checked_share("weight", weight):
            raise InputError(f"weight is {weight!r}; expected more than 0, and at most 1")
        said, time = id_of(decision), self.clock()
        return append_feedback(self.journal, said, labels, scores, source, id, amend, time, wait, weight)

    def served(
        self,
        decision: str | Decision,
        peer: str | None = None,
        *,
        cost: float | None = None,
        latency: float | None = None,
        answer: str | None = None,
        source: str | None = None,
        wait: bool = True,
    ) -> Decision:
        """Record which peer really answered, if it was not the chosen one, and what that cost.

        Adds a line to the ledger. The decision then has `served`, and its propensity is 0 if that is not
        the peer it chose, since no draw of this memory chose it. Feedback continues as usual. If this is
        recorded again, the last record counts. Returns the decision as it now stands, once it is on disk.

        Parameters
        ----------
        decision : str or Decision
            The decision, its id, or the ref of its event (then the event's last decision).
        peer : str, optional
            The peer that answered; the chosen one by default. It is charged instead of the one that a route
            chose. Of a vote all that answered are charged: report what each cost, the one that served last.
        cost : float, optional
            What the call really cost, instead of what was expected.
        latency : float, optional
            How many seconds it took.
        answer : str, optional
            What it answered, for people who label it later; kept only if the memory keeps texts.
        source : str, optional
            The source of this report; by default the program that holds the memory. A source that is not
            trusted cannot replace the report of a trusted one. Its costs are bounded, and weigh as its labels
            do.
        wait : bool
            Whether to return only once it is on disk; ``store.flush()`` waits for all that is not.
        """
        if peer is not None:
            checked_name("peer", peer)
        checked_flag("wait", wait)
        checked_kind("answer", answer, str, "a text")
        said, kept = id_of(decision), answer if self.keep_text else None
        return append_served(self.journal, said, peer, cost, latency, source, self.clock(), wait, kept)

    def revoke(self, source: str, *, undo: bool = False) -> int:
        """Take back all labels, costs and other reports of a source; return how many lines that were.

        The memory is then as if that source had never reported anything. The source is refused until `undo`.
        Decisions made meanwhile stay, and so do the p̂ they claimed and the weights that other sources had.

        Parameters
        ----------
        source : str
        undo : bool
            Take the revocation back: all feedback of the source counts again.
        """
        checked_flag("undo", undo)
        return append_revocation(self.journal, checked_name("source", source), undo, self.clock())

    def forget(
        self,
        decision: str | Decision | Sequence[str | Decision] | None = None,
        *,
        before: Moment | None = None,
        text: str | None = None,
    ) -> int:
        """Forget events permanently: their texts, φ and labels, and their share of all that was learned.

        The memory is then as if they had been decided with nothing known of them, and never labelled: the
        clock, the ages of other events and all ids stay. Their bytes leave the file as well. What later
        decisions claimed stays as it was recorded; `admin.refold` computes it again. Takes as long as a
        replay. Returns how many events were forgotten.

        Parameters
        ----------
        decision : str, Decision or several of them
            Any decision on the event, its id, or the event's ref.
        before : float, datetime or str
            Forget all events decided before this moment.
        text : str
            Forget all events in whose question or answers this text occurs, in upper or lower case.
        """
        checked_kind("decision", decision, (Decision, Sequence), "a decision, its id, or a list of them")
        checked_kind("text", text, str, "text")
        return forget_events(self.journal, decision, before, text, self.clock())

    # --- the pool, and what calls cost ---------------------------------------------------

    def add_peer(
        self, peer: str, *, returning: bool = False, like: str | None = None, worth: float = 20.0
    ) -> None:
        """Take a peer into the pool, last in order, with nothing known of it or with another's record.

        Parameters
        ----------
        peer : str
        returning : bool
            Whether it was removed before, so that nobody starts afresh under a name by accident.
        like : str, optional
            A peer of the pool from whose record it starts: the same model at another effort, or its
            predecessor. Labels on earlier events of that peer count for both, whenever they come. Which
            peers err together is not taken over.
        worth : float
            How many labels that record counts for at most; labels of its own soon outweigh it.
        """
        checked_flag("returning", returning)
        checked_kind("like", like, str, "the name of a peer")
        append_join(self.journal, checked_name("peer", peer), returning, like, worth, self.clock())

    def remove_peer(self, peer: str) -> None:
        """Take a peer out of the pool, and forget what is known of it; see `add_peer` for its return."""
        append_departure(self.journal, checked_name("peer", peer), self.clock())

    def rename_peer(self, peer: str, name: str | None = None, *, keep: float = 1.0) -> None:
        """Give a peer another name, or keep only a share of its record, or both.

        Feedback may still use the old name, which no other peer can have. Labels of earlier events count
        with the share that is kept, whenever they come.

        Parameters
        ----------
        peer : str
        name : str, optional
            The new name, for a successor in its place; left out for a model that was updated under its name.
        keep : float
            The share of the record that counts from here on, from 0 (start afresh) to 1 (all of it).
        """
        checked_name("peer", peer)
        checked_kind("name", name, str, "the peer's new name")
        append_rename(self.journal, peer, name, keep, self.clock())

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
        """Set what a call to a peer costs from now on, in any one unit of money, and how long it takes.

        Parameters
        ----------
        peer : str
        per_call, per_input_token, per_output_token : float
            The call costs their sum; the tokens of a question are estimated from its length.
        output_tokens : float
            How long an answer is expected to be, until `served` has reported real costs.
        latency : float, optional
            Seconds.
        """
        price = Price(per_call, per_input_token, per_output_token, output_tokens, latency)
        with self.journal.writing() as fold:
            if checked_name("peer", peer) not in fold.state.peers:
                raise InputError(f"peer is {peer!r}; expected one of {list(fold.state.peers)}")
            if fold.costs.prices.get(peer) == price:
                return price
            line = price_line(peer, price, fold.costs.price_lines, self.clock())
            ticket = self.journal.append(line)
        ticket.wait()
        return price

    def spent(self, *, since: float | None = None, until: float | None = None) -> Spending:
        """What was spent: in all, by peer, and by day (UTC); and the prices that peers have now.

        Parameters
        ----------
        since, until : float, optional
            Seconds since 1970: only the days from the one to the other, both included.
        """
        checked_seconds("since", since)
        checked_seconds("until", until)
        with self.journal as fold:
            return fold.costs.spending(since, until, fold.state.peers)

    # --- read: no event, no line in the ledger -------------------------------------------

    def trust(
        self,
        question: Question | None = None,
        *,
        phi: ArrayLike | None = None,
        topic: Topic | None = None,
    ) -> TrustByPeer:
        """How far each peer can be trusted at a question, on a topic or, without either, whatever the task.

        Without either, the result has the trust on every topic as well. Only reads: no event, no line in the
        ledger. The parameters are those of `route`.
        """
        topics, task = checked_topics(topic), question_text(question)
        if task is None and phi is None and not topics:
            with self.journal as fold:
                return trust_overall(fold, self.clock())
        direction = self.decider.direction(task, phi, topics)
        with self.journal as fold:
            return trust_at(fold, direction, fold.state.moment(self.clock()), topics)

    def encode(self, question: Question) -> FloatArray:
        """φ of a question, as decisions keep it: what `phi=` takes."""
        return self.decider.encode(question_text(question) or "")

    def decision(self, id: str | Decision) -> Decision:
        """An earlier decision, with the labels that its event has now; for a ref, its event's last one."""
        with self.journal as fold:
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
        topic: str | None = None,
        label: Literal["right", "wrong", "none"] | None = None,
        below: float | None = None,
    ) -> Decisions:
        """Earlier decisions, newest first, read from the ledger while they are iterated.

        Parameters
        ----------
        last : int, optional
            At most this many.
        before : str or Decision, optional
            Only decisions older than this one: the last on the page before.
        peer, read : str, optional
            Only those that chose this peer, by any of its names, or were made by this read.
        since, until : float, datetime or str, optional
            Only those of since ≤ time < until: seconds since 1970, or a date.
        text : str, optional
            Only those with this text in question or answer, in upper or lower case.
        topic : str, optional
            Only those on this topic.
        label : {"right", "wrong", "none"}, optional
            Only those whose answer is labelled so now, or not at all: of the peer that served, or was chosen.
        below : float, optional
            Only those with less confidence than this.
        """
        checked_count("last", last)
        checked_number("below", below, 0.0, 1.0, "a probability, up to 1")
        if label is not None and not (isinstance(label, str) and label in ("right", "wrong", "none")):
            raise InputError(f"label is {' '.join(f'{label!r:.80}'.split())}; expected right, wrong or none")
        fits = decision_filter(
            peer=peer, read=read, since=since, until=until, text=text, topic=topic, below=below
        )
        with self.journal as fold:
            start = None if before is None else fold.line(id_of(before)).seq - 1

        def iterate() -> Iterator[Decision]:
            with self.journal as fold:
                end, pool = fold.seq if start is None else start, PoolChanges(fold.pool)
            for line in decision_lines(self.journal.ledger, end):
                if fits(line, pool):
                    with self.journal as fold:
                        decision = as_served(fold, line)
                    if label is None or verdict_on(decision) == label:
                        yield decision

        return Decisions(lambda: islice(iterate(), last))

    def explain(self, decision: str | Decision, *, peer: str | None = None, top: int = 5) -> Explanation:
        """Name the past events that weighed most in a decision, exactly.

        Parameters
        ----------
        decision : str or Decision
            The decision, its id, or the ref of its event (then the event's last decision).
        peer : str, optional
            Whose score to take apart, by any of its names; the chosen peer's by default.
        top : int
            How many events to list.
        """
        checked_kind("peer", peer, str, "the name of a peer")
        checked_kind("top", top, int, "a whole number, 0 or more")
        checked_count("top", top)
        with self.journal as fold:
            line, changes = fold.line(id_of(decision)), PoolChanges(fold.pool)
            made = as_served(fold, line)
        name = None if peer is None else changes.name_then(peer, line.seq, made.scores)
        if peer is not None and name is None:
            raise InputError(f"peer {peer!r} was not in the pool {sorted(made.scores)} at that time")
        before = pages_back(self.journal.ledger.lines, line.seq - 1)
        return replace(explain(line, before, self.settings, name, top, changes), served=made.served)

    @overload
    def history(self, peer: str, *, lines: int | None = None) -> History: ...

    @overload
    def history(
        self, peer: list[str] | tuple[str, ...] | None = None, *, lines: int | None = None
    ) -> dict[str, History]: ...

    def history(
        self, peer: str | list[str] | tuple[str, ...] | None = None, *, lines: int | None = None
    ) -> History | dict[str, History]:
        """A peer's record: every event in which it was labelled or chosen, as it stands now, oldest first.

        Of several peers, or of the whole pool if none is named, the records by peer, in one pass.

        Parameters
        ----------
        peer : str or sequence of str, optional
            By the name that a peer has or had.
        lines : int, optional
            Read only this many lines at the ledger's end.
        """
        checked_count("lines", lines)
        with self.journal as fold:
            end, revoked, pool = fold.seq, set(fold.revoked), PoolChanges(fold.pool)
            if peer is None:
                names = list(fold.state.peers)
            else:
                names = known_peers(fold, [peer] if isinstance(peer, str) else checked_names("peers", peer))
        start = 0 if lines is None else max(0, end - lines)
        past = [pool.translated(line) for line in self.journal.ledger.lines(after=start, until=end)]
        made = (line for line in past if is_decision(line))
        found = histories(made, events_of(past, revoked), names)
        return found[names[0]] if isinstance(peer, str) else found

    def drift(self) -> list[Drift]:
        """Peers whose recent record left their long one: since when, and how sure; the surest first.

        Uses the newest 600 labels of every peer. A run of hard tasks or of one topic is not drift, and
        what moves many peers at once counts as a change of the tasks.
        """
        with self.journal as fold:
            recent = recent_labels(fold, self.store, self._namespace)
        return find_drift(recent, self.store, self._namespace)

    def sources(self) -> list[Source]:
        """Every source that gave feedback or is trusted, by name: how often, and what that is worth now."""
        with self.journal as fold:
            return list_sources(fold, self.store.sources(self._namespace))
