"""Methods that decide: whom to ask, and which answer to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numpy.typing import ArrayLike

from sigma_mem.answers.canon import Canon
from sigma_mem.answers.chat import Question, question_text
from sigma_mem.answers.features import Answers, prepare_answers
from sigma_mem.decide.panel import CHANGE
from sigma_mem.events import Answer, Decision, FloatArray
from sigma_mem.ledger.costs import Budget
from sigma_mem.ledger.decision import decision_in
from sigma_mem.ledger.lines import is_decision
from sigma_mem.session.deciding import TaskRequest, checked_share, named_read
from sigma_mem.session.limits import limits_given
from sigma_mem.session.methods.held import HeldMemory
from sigma_mem.session.panel import Panel, PanelLimits, Step, exploring_share
from sigma_mem.session.served import checked_among
from sigma_mem.session.topics import Topic

GivenAnswers = Mapping[str, str | Answer | None]


class DecidingMethods(HeldMemory):
    """Choose a peer, or among answers."""

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
        limits = limits_given(among, max_cost, max_latency, value, min_prob, budget)
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

        `panel.next` is the peer to ask, `panel.add(peer, answer)` takes its answer and says whether that is
        enough, `panel.decision` is the outcome. All of it is one event, and every step is in the ledger.
        After a restart the same `ref`, or `after` with any step, goes on where the panel stood; in a memory
        that keeps no texts it begins again with nobody asked.

        Parameters
        ----------
        question, phi, topic, explore, canon, among, after, ref
            As for `route` and `vote`, but `explore` says that only those who were asked will be labelled. A
            panel asks on where a task looks hard, so that those asked later seem worse than they are: only
            labels of peers that are asked whatever the others say count, of which the second is sometimes
            drawn, and ever fewer panels ask everyone.
        change : float
            Stop once the chance that the peers not asked would change the answer is at most this.
        confidence : float, optional
            Stop as well once the answer is at least this sure.
        calls : int, optional
            Ask at most so many.
        """
        everyone = explore and self._rng.random() < exploring_share(self.state.labelled)
        limits = PanelLimits(change, confidence, calls, among, explore, everyone)
        task = TaskRequest(question_text(question), phi, topic, after, ref)
        route, within = self._registry["calibrated-route"], limits_given(among)
        first = self._made(self._decider.decide(task, route, limits=within))

        def decide(answers: Mapping[str, Answer], step: Step) -> Decision:
            given = prepare_answers(task.question, answers, canon, self.settings.text_features)
            same = TaskRequest(task.question, after=first.event, ref=ref)
            return self._made(self._decider.decide(same, None, given, step=step))

        panel = Panel(first, limits, canon, decide, self._rng)
        if first.id != first.event:
            lines = [line for line in self._journal.ledger.of_event(first.event) if is_decision(line)]
            with self._journal as fold:
                steps = [decision_in(fold.pool.translated(x)) for x in lines if x.body.panel is not None]
            panel.resume(steps)
        return panel

    def _prepared(
        self, question: str | None, answers: GivenAnswers, canon: Canon, among: Sequence[str] | None
    ) -> Answers:
        """The answers that count, with their canons and text features."""
        if among is not None:
            allowed = checked_among(among, self.peers)
            answers = {peer: answer for peer, answer in answers.items() if peer in allowed}
        return prepare_answers(question, answers, canon, self.settings.text_features)
