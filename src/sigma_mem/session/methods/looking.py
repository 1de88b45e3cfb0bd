"""Methods that only look: no event, no line in the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

from sigma_mem.answers.canon import Canon
from sigma_mem.answers.chat import Question, question_text
from sigma_mem.answers.features import prepare_answers
from sigma_mem.errors import InputError
from sigma_mem.events import Decision
from sigma_mem.ledger.event import events_of
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.lines import is_decision
from sigma_mem.ledger.pool import PoolChanges
from sigma_mem.memory.topics import checked_topics
from sigma_mem.session.arguments import checked_count
from sigma_mem.session.decisions import Decisions, Moment, decision_filter, decision_lines
from sigma_mem.session.drift import Drift, find_drift, recent_labels
from sigma_mem.session.explain import Explanation, explain, pages_before
from sigma_mem.session.history import History, histories
from sigma_mem.session.looking import TrustByPeer, TrustTable, trust_at, trust_overall
from sigma_mem.session.methods.deciding import GivenAnswers
from sigma_mem.session.methods.held import HeldMemory
from sigma_mem.session.names import id_of
from sigma_mem.session.peers import known_peers
from sigma_mem.session.served import as_served
from sigma_mem.session.topics import Topic
from sigma_mem.session.viewing import view_of
from sigma_mem.session.votes import votes_of_groups


class LookingMethods(HeldMemory):
    """Look at decisions, trust, records and what explains them."""

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
            Only those that chose this peer, by any of its names, or were made by this read.
        since, until : float, datetime or str, optional
            Only those of since ≤ time < until: seconds since 1970, or a date.
        text : str, optional
            Only those with this text in question or answer, in upper or lower case.
        """
        checked_count("last", last)
        fits = decision_filter(peer=peer, read=read, since=since, until=until, text=text)
        with self._journal as fold:
            start = None if before is None else fold.line(id_of(before)).seq - 1

        def iterate() -> Iterator[Decision]:
            with self._journal as fold:
                end, pool = fold.seq if start is None else start, PoolChanges(fold.pool)
            lines = decision_lines(self._journal.ledger, end)
            for line in islice((line for line in lines if fits(line, pool)), last):
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
            return trust_at(fold, direction, fold.state.moment(self._clock()), topics)

    def table(self, topics: Topic | None = None) -> TrustTable:
        """How far each peer can be trusted whatever the task, and on these topics (default: all). Looks."""
        with self._journal as fold:
            state, moment = fold.state, fold.state.moment(self._clock())
            known = () if state.topics is None else state.topics.names
            names = known if topics is None else [topics] if isinstance(topics, str) else topics
            nothing = np.zeros(self.rank)
            by_topic = {name: trust_at(fold, nothing, moment, checked_topics(name)) for name in names}
            return TrustTable(state.clock, trust_overall(fold), by_topic)

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
        (found,) = self.histories([peer]).values()
        return found

    def histories(
        self, peers: Sequence[str] | None = None, *, lines: int | None = None
    ) -> dict[str, History]:
        """The records of these peers, of the whole pool by default, in one pass over the ledger.

        With `lines`, only over so many lines at its end. A peer may be named as it was called before.
        """
        checked_count("lines", lines)
        with self._journal as fold:
            end, revoked, pool = fold.seq, set(fold.revoked), PoolChanges(fold.pool)
            names = fold.state.peers if peers is None else known_peers(fold, peers)
        start = 0 if lines is None else max(0, end - lines)
        past = [pool.translated(line) for line in self._journal.ledger.lines(after=start, until=end)]
        made = (line for line in past if is_decision(line))
        return histories(made, events_of(past, revoked), names)

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
            Whose score to take apart, by any of its names; the chosen peer's by default.
        top : int
            How many events to list.
        """
        checked_count("top", top)
        with self._journal as fold:
            line, changes = fold.line(id_of(decision)), PoolChanges(fold.pool)
            made = as_served(fold, line)
        name = None if peer is None else changes.name_then(peer, line.seq, made.scores)
        if peer is not None and name is None:
            raise InputError(f"peer {peer!r} was not in the pool {sorted(made.scores)} then")
        before = pages_before(self._journal.ledger, line.seq)
        return replace(explain(line, before, self.settings, name, top, changes), served=made.served)

    def drift(self) -> list[Drift]:
        """Peers whose recent record left their long one: since when, and how sure; the surest first.

        Looks at the newest 600 labels of every peer. A run of hard tasks or of one topic is no drift, and
        what moves many peers at once is taken for a change of the tasks.
        """
        with self._journal as fold:
            recent = recent_labels(fold, self.store, self._namespace)
        return find_drift(recent, self.store, self._namespace)

    def replayed(self) -> Fold:
        """The state that the ledger alone gives, from its first line; equal to the live one bit for bit."""
        with self._journal:
            return self._journal.replayed()
