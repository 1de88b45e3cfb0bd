"""One memory: competence, evidence and relation of a pool of peers, text features, and the clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.agreement import deviation
from sigma_mem.memory.calibration import probability, shrunk_mean
from sigma_mem.memory.competition import independent, prior_pairs, wrong_pairs_of
from sigma_mem.memory.decayed import added
from sigma_mem.memory.horizons import bounded, with_deviation
from sigma_mem.memory.mixing import fast_horizon
from sigma_mem.memory.parts import StateParts
from sigma_mem.memory.reading import OverallReading, Reading, SeenLately
from sigma_mem.memory.relation import centred
from sigma_mem.memory.symmetric import pair_products

_FAR_AHEAD = 30.0  # half-lives, after which nothing would be left of what was learned


class SigmaState(StateParts):
    """M_p, N_p and G of a pool of peers at a clock, with two verbs: read and write.

    Parameters
    ----------
    peers : sequence of str
        Names, distinct; ties go to the peer listed first.
    rank : int
        Dimension of φ.
    settings : Settings
    n_features : int
        Text features that every answer has; 0 where texts are not looked at.

    Examples
    --------
    >>> state = SigmaState(["ann", "bob"], rank=2)
    >>> phi = np.array([1.0, 0.0])
    >>> for _ in range(20):
    ...     tick = state.begin_event()
    ...     state.write(phi, np.array([1.0, -1.0]), tick)
    >>> state.read(phi).prob.round(2).tolist()
    [0.94, 0.06]
    """

    # --- read ----------------------------------------------------------------------------

    def read(
        self,
        phi: FloatArray,
        at: float | None = None,
        topics: Sequence[str] = (),
        pairs: FloatArray | None = None,
    ) -> Reading:
        """Scores, effective sample sizes and calibrated competence of every peer at φ.

        Parameters
        ----------
        phi : array (rank,), unit; 0 where only the topics are known
        at : float, optional
            The `moment` of the read; where the memory stands, by default.
        topics : sequence of str
            What is known of the task's kind; see `Topics`.
        pairs : array, optional
            `pair_products` of φ, for who reads several memories at one φ.
        """
        now = self.now if at is None else at
        overall = self._overall(now)
        strength = self._strength
        if pairs is None:
            pairs = pair_products(phi)
        undecayed = self.competence.undecayed_scores(phi, pairs)
        sums = undecayed[0] * self.competence.decayed.factor(now)
        score = sums[0]
        effective = np.abs(sums[1])  # what is taken back may leave a rounding error below 0 behind
        prior = overall.slowest
        compared: tuple[FloatArray, FloatArray] | None = None
        if self.agreement is not None and overall.agreed is not None and overall.compared is not None:
            agreements, asked = self.agreement.score(phi, now, pairs)
            compared = asked, overall.compared
            near = deviation(agreements, asked, overall.agreed, strength)
            prior = with_deviation(prior, near, self.horizons.labelled_events(now))
        near = shrunk_mean(score, effective, prior, strength)
        mean, lately = near, None
        if self.mixing is not None:
            fast = self.competence.by_rate[1]
            lately = SeenLately(undecayed[1], overall.recent, fast.grown(strength, now))
            mean = near + overall.change
            if self.mixing.local:
                mean += self.mixing.local * (lately.mean(near) - near)
            mean = bounded(mean)
        prob, by_horizon, score = probability(mean), overall.means.T, score * self._eta
        reading = Reading(score, effective, prob, strength, near, by_horizon, lately, None, compared)
        return self._beside_topics(reading, phi, topics, mean - near, now) if topics else reading

    def _beside_topics(
        self, of_text: Reading, phi: FloatArray, topics: Sequence[str], change: FloatArray, now: float
    ) -> Reading:
        """What is read at φ, mixed with what is known of the topics; horizons change both alike."""
        known = self._new_topics() if self.topics is None else self.topics
        sums = np.stack((of_text.score / self._eta, of_text.effective))
        found = known.read(phi, topics, sums, of_text.near, change, of_text.pseudo, now)
        score, prob = self._eta * found.score, probability(found.mean)
        return of_text._replace(score=score, effective=found.effective, prob=prob, topics=found)

    def _overall(self, now: float) -> OverallReading:
        """What does not depend on φ; computed once between two writes."""
        known = self._overall_known
        if known is None or known.now != now:
            known = self._overall_known = self._overall_at(now)
        return known

    def _overall_at(self, now: float) -> OverallReading:
        s, none_known = self.settings, 2.0 * self.settings.prior - 1.0
        agreed: FloatArray | None = None
        asked: FloatArray | None = None
        if self.agreement is None:
            overall = self.horizons.means_by_pool(none_known, s.prior_labels, s.strength, now)
        elif self.agreement.empty:
            overall = self.horizons.means_by_agreement(none_known, None, s.strength, now)
        else:
            agreements, asked = self.agreement.trace(now)
            pool = shrunk_mean(sum(agreements.tolist()), sum(asked.tolist()), none_known, s.prior_labels)
            agreed = shrunk_mean(agreements, asked, pool, s.strength)
            overall = self.horizons.means_by_agreement(pool, agreed - pool, s.strength, now)
        overall.setflags(write=False)  # readings hand it out, and it is read again
        slowest = overall[-1]
        if self.mixing is None:
            change = recent = np.zeros(len(self.peers))
        else:  # term by term, so that equal peers get equal bits
            change = np.add.reduce(self.mixing.of_means * overall)
            recent = overall[fast_horizon(len(overall))] - slowest
        return OverallReading(now, overall, slowest, change, recent, agreed, asked)

    def overall(self) -> tuple[FloatArray, FloatArray]:
        """Every peer's decayed rate of being right, whatever the task, and how many labels it rests on."""
        overall = self._overall(self.now)
        mean = overall.slowest + overall.change
        if self.mixing is not None:
            mean += self.mixing.local * overall.recent
        return probability(mean), self.competence.trace(self.now)[1]

    def agreement_evidence(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Decayed number of events, near φ and anywhere, in which a peer's answer was compared, each (P,)."""
        if self.agreement is None:
            return np.zeros(len(self.peers)), np.zeros(len(self.peers))
        return self.agreement.score(phi, self.now)[1], self.agreement.trace(self.now)[1]

    def copying(self, at: float | None = None) -> FloatArray | None:
        """How far every pair of peers answers as one, (P, P), from 0 to 1; None where nobody copies."""
        return None if self.copies is None else self.copies.degrees(self.now if at is None else at)

    def readout(self, phi: FloatArray) -> FloatArray:
        """M_pφ of every peer (eq:sigma_readout), shape (P, rank)."""
        return self.settings.step * self.competence.readout(phi, self.now)

    @property
    def M(self) -> FloatArray:
        """Competence, (P, rank, rank)."""
        return self.settings.step * self.competence.matrices(self.now)[0]

    @property
    def N(self) -> FloatArray:
        """Evidence, (P, rank, rank)."""
        return self.settings.step * self.competence.matrices(self.now)[1]

    @property
    def G(self) -> FloatArray:
        """Relation, (P, P)."""
        return self.relation.matrix(self.now, self.settings.eta_g)

    def alternatives(self, phi: FloatArray, pairs: FloatArray | None = None) -> float:
        """K − 1, the effective number of wrong answers that compete at φ; `pairs` as for `read`."""
        prior = prior_pairs(len(self.peers), self.settings.revision)
        return self.wrong_answers.alternatives(phi, self.now, prior, pairs)

    @property
    def labelled(self) -> float | None:
        """Decayed number of labelled events; None in a memory of version 0.1, whose votes do not ask."""
        return None if self.settings.revision == 1 else self.horizons.labelled_events(self.now)

    @property
    def readable(self) -> FloatArray:
        """ρ, every peer's rate of readable answers, (P,)."""
        return self.readability.rates(self.now)

    def text_log_odds(self, features: FloatArray, readable: NDArray[np.bool_]) -> FloatArray:
        """Log-odds by which the text of each answer speaks for it, beside the others, (answers,)."""
        return self.features.log_odds(features, readable, self.now, self.agreed_features)

    def text_effects(self) -> FloatArray:
        """What every text feature says where it is one standard deviation up, in units of c."""
        return self.features.effects(self.now, self.agreed_features)

    def by_peer(self, values: FloatArray) -> dict[str, float]:
        """Values in the order of the pool, as a mapping by name."""
        return dict(zip(self.peers, values.tolist(), strict=True))

    # --- write ---------------------------------------------------------------------------

    def write(
        self,
        phi: FloatArray,
        c: FloatArray,
        tick: float,
        *,
        weight: FloatArray | None = None,
        sign: float = 1.0,
        groups: NDArray[np.intp] | None = None,
        agreement: FloatArray | None = None,
        claims: NDArray[np.float16] | None = None,
        departed: Sequence[float] = (),
        departed_groups: Sequence[int] = (),
        topics: Sequence[str] = (),
        topic_claims: NDArray[np.float16] | None = None,
    ) -> None:
        """Write the labels of the event at `tick`, on time or late; sign −1 takes them back.

        Parameters
        ----------
        phi : array (rank,), unit
        c : array (P,)
            All labels the event has now, in [−1, 1]; NaN where there is none.
        weight : array (P,)
            How much evidence each label is, in [0, 1]; None for 1.
        groups : int array (P,)
            Answer groups; −1 where an answer could not be read, −2 where none was asked for.
            None where nobody was asked.
        agreement : array (P,)
            Agreement labels of the event, NaN where there is none; None for none at all.
        claims : array (P, H + 2)
            What was claimed at the decision, as recorded; NaN for a peer it knew nothing of.
        departed, departed_groups : sequence
            Labels and answer groups of peers that have left the pool: they count in the mean of q and in K.
        topics, topic_claims : sequence of str, and array (P, B)
            The event's topics, and what every share of them claimed at the decision, as recorded.
        """
        if self.now >= self._due:
            self._advance(self.now)
        label, seen, q, n = _taken_apart(c, departed)
        if weight is not None:
            label, seen, q = weight * label, weight * seen, np.sqrt(weight) * q
        if sign < 0.0:
            label, seen = -label, -seen
        self.relation.write(q, tick, sign)
        self.competence.write(phi, label, seen, tick)
        if n:
            self.horizons.write(label, seen, agreement, n, tick)
            if claims is not None and self.mixing is not None:
                self.mixing.write(claims, c, seen, tick, self.now)
        self._overall_known = None
        if topics:
            if self.topics is None:
                self.topics, self._due = self._new_topics(), -math.inf
            self.topics.write(phi, topics, label, seen, tick)
            if topic_claims is not None:
                self.topics.score_claims(topic_claims, c, seen, tick)
        if groups is not None:
            self.readability.write(seen, groups, tick)
            if departed:
                c, groups = np.append(c, departed), np.append(groups, departed_groups)
            same, pairs = wrong_pairs_of(c, groups)
            if pairs:
                if self.settings.revision > 1:
                    same, pairs = independent(same, pairs)
                worth = sign if weight is None else sum(seen.tolist()) / n
                self.wrong_answers.write_pairs(phi, worth * same, worth * pairs, tick)

    def write_agreement(self, phi: FloatArray, a: FloatArray, tick: float, sign: float = 1.0) -> None:
        """Write an event's agreement labels, NaN where there is none; sign −1 takes them back."""
        if self.agreement is None:
            return
        there = [x == x for x in a.tolist()]  # NaN differs from itself
        if all(there):
            self.agreement.write(phi, sign * a, sign * _ones(len(a)), tick)
        elif any(there):
            self.agreement.write(phi, np.where(there, sign * a, 0.0), sign * np.array(there), tick)
        self._overall_known = None

    def write_agreed_texts(self, features: FloatArray, a: FloatArray, tick: float, sign: float = 1.0) -> None:
        """Write how answers that others agree with are written, (answers, S); sign −1 takes it back."""
        if self.agreed_features is not None:
            self.agreed_features.write(features, a, tick, sign)

    def write_copies(self, groups: NDArray[np.intp], tick: float, sign: float = 1.0) -> None:
        """Write which answers of an event were equal; sign −1 takes them back. See `Copies.write`."""
        if self.copies is not None:
            self.copies.write(groups, tick, sign)

    def blank(self) -> SigmaState:
        """A state of the same kind that stands at the same place, with nothing in it."""
        out = SigmaState(self.peers, self.rank, self.settings, self.features.n_features)
        out.sync_clock(self)
        return out


def _taken_apart(c: FloatArray, departed: Sequence[float]) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Labels with 0 for the missing, 1 where there is a label, q, and how many labels there are."""
    values = c.tolist()
    total = added(values)
    if total == total and len(c) > 1 and not departed:  # no NaN: everyone is labelled, as most often
        return c, _ones(len(c)), c - total / len(c), len(c)
    there = [1.0 if x == x else 0.0 for x in values]  # NaN differs from itself
    label = np.array([x if x == x else 0.0 for x in values])
    return label, np.array(there), centred(c, departed), there.count(1.0) + len(departed)


@lru_cache
def _ones(n: int) -> FloatArray:
    ones = np.ones(n)
    ones.flags.writeable = False
    return ones
