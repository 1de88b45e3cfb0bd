"""One memory: competence, evidence and relation of a pool of peers, text features, and the clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.agreement import centred_agreement, deviation
from sigma_mem.memory.competition import independent, prior_pairs, wrong_pairs_of
from sigma_mem.memory.decayed import added
from sigma_mem.memory.parts import Known, StateParts
from sigma_mem.memory.rates import bounded, fast_horizon, probability, rounded, shrunk_mean
from sigma_mem.memory.reading import Reading
from sigma_mem.memory.relation import centred
from sigma_mem.memory.symmetric import pair_products

_SLOWEST = -2  # of the rates at which labels are counted; the last one is the whole life
_WEAK = 2.5  # events of agreement that are worth one label
_BELIEVED = 50.0  # labelled events at which it counts half where peers agree: labels know better


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
    [0.95, 0.05]
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
        known, strength = self._known_now(), self._strength
        rates, fresh = known.rates, known.fresh
        if pairs is None:
            pairs = pair_products(phi)
        undecayed = self.competence.undecayed_scores(phi, pairs)
        score, effective = undecayed[0] * self.competence.decayed.factor(now)
        effective = np.abs(effective)  # what is taken back may leave a rounding error below 0 behind
        prior = rates.slowest
        if self.agreement is not None and known.moved is not None:
            agreed, compared = self.agreement.undecayed_scores(phi, pairs)[0]
            moved = deviation(agreed, np.abs(compared), known.moved, _WEAK * strength)
            prior = bounded(prior + known.believed * moved)
        labels = np.abs(undecayed[0, 1]) * fresh[0]
        near = kernel = shrunk_mean(undecayed[0, 0] * fresh[0], labels, prior, strength)
        apart = claims = leverage = None
        if self.regression is not None:
            # Term by term and not by BLAS: equal peers get equal bits.
            regressed = bounded(prior + np.add.reduce(known.weights * phi, axis=1))
            near = kernel + rates.of_regression * (regressed - kernel)
            apart = rates.of_regression * (1.0 - rates.of_regression) * np.square(regressed - kernel)
            leverage = partial(self.regression.leverage, phi, now)
            claims = [bounded(kernel), regressed]
        mean = near
        if len(rates.rates) > 1:
            by_horizon = near[:, None] + (rates.rates - rates.slowest).T
            at_fast = by_horizon[:, fast_horizon(len(rates.rates))]
            local = shrunk_mean(
                undecayed[1, 0] * fresh[1], np.abs(undecayed[1, 1]) * fresh[1], at_fast, strength
            )
            mean = near + rates.change + rates.of_local * (local - near)
            by_horizon = bounded(np.concatenate((by_horizon, local[:, None]), axis=1))
            away = np.add.reduce(rates.horizons * np.square(by_horizon - mean[:, None]), axis=1)
            apart = away if apart is None else apart + away
            claims = [*(claims or ()), by_horizon]
        mean = bounded(mean)
        reading = Reading(
            score=score * self._eta,
            effective=effective,
            prob=probability(mean),
            labels=labels,
            near=near,
            slowest=rates.slowest,
            claims=None if claims is None else rounded(*claims),
            of_regression=rates.of_regression,
            apart=np.zeros(len(near)) if apart is None else 0.25 * apart,
            leverage=leverage,
        )
        if not topics:
            return reading
        fresh_text = np.stack((undecayed[0, 0] * fresh[0], labels))
        return self._beside_topics(reading, fresh_text, phi, topics, mean, now)

    def _beside_topics(
        self,
        of_text: Reading,
        fresh_text: FloatArray,
        phi: FloatArray,
        topics: Sequence[str],
        mean: FloatArray,
        now: float,
    ) -> Reading:
        """What is read at φ, mixed with what is known of the topics."""
        known = self._new_topics() if self.topics is None else self.topics
        sums, near = np.stack((of_text.score / self._eta, of_text.effective)), of_text.near
        fresh = self.rates.horizons.factor(known.decayed, _SLOWEST)
        found = known.read(phi, topics, sums, fresh_text, near, mean - near, fresh, self._strength, now)
        return replace(
            of_text,
            score=self._eta * found.score,
            effective=found.effective,
            prob=probability(found.mean),
            apart=of_text.apart + 0.25 * found.apart,
            topics=found,
        )

    def _known_now(self) -> Known:
        """What does not depend on φ, nor on how long ago the last label was: computed once between writes."""
        if self._known is None:
            self._known = self._knowledge()
        return self._known

    def _knowledge(self) -> Known:
        s = self.settings
        moved = None
        if self.agreement is not None and not self.agreement.empty:
            agreed, compared = self.agreement.trace(self.now)
            moved = shrunk_mean(agreed, np.abs(compared), 0.0, _WEAK * s.strength)
        none = np.zeros(len(self.peers))
        rates = self.rates.read(
            none if moved is None else moved, s.strength, 2.0 * s.prior - 1.0, s.prior_labels
        )
        fast = fast_horizon(len(rates.rates))
        labels = self.rates.horizons
        fresh = [labels.factor(self.competence.decayed, _SLOWEST)]
        if len(rates.rates) > 1:
            fresh.append(labels.factor(self.competence.by_rate[1], fast))
        weights = none[:, None]
        if self.regression is not None:
            weights = self.regression.weights(rates.slowest, labels.factor(self.regression.decayed, _SLOWEST))
        believed = _BELIEVED / (_BELIEVED + self.rates.labelled_events())
        return Known(rates, fresh, weights, moved, believed)

    def overall(self) -> tuple[FloatArray, FloatArray]:
        """Every peer's rate of being right, whatever the task, and how many labels it rests on now."""
        rates = self._known_now().rates
        mean = rates.slowest + rates.change + rates.of_local * rates.recent
        return probability(bounded(mean)), self.competence.trace(self.now)[1]

    def horizon_weights(self) -> FloatArray:
        """Weight in p̂ of every horizon and of the local claim, (P, H + 1)."""
        return self._known_now().rates.horizons

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
        fresh = self.rates.events.factor(self.wrong_answers.decayed).item()
        return self.wrong_answers.alternatives(phi, fresh, prior_pairs(len(self.peers)), pairs)

    @property
    def labelled(self) -> float:
        """Decayed number of labelled events."""
        return self.rates.labelled_events()

    @property
    def readable(self) -> FloatArray:
        """ρ, every peer's rate of readable answers, (P,)."""
        return self.readability.rates(self.rates.horizons.factor(self.readability.decayed, _SLOWEST))

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
        claims : array (P, K)
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
            worth = sign if weight is None else sum(seen.tolist()) / n
            self.rates.write(label, seen, tick, worth)
            if claims is not None:
                self.rates.score(claims, c, seen, tick)
            if self.regression is not None:
                self.regression.write(phi[None], label[None], seen[None], (tick,))
        self._known = None
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
                same, pairs = independent(same, pairs)
                self.wrong_answers.write_pairs(phi, worth * same, worth * pairs, tick)

    def write_agreement(
        self, phi: FloatArray, a: FloatArray, tick: float, sign: float = 1.0, centre: float | None = None
    ) -> None:
        """Write an event's agreement labels, NaN where there is none; sign −1 takes them back.

        `centre` is their mean if answers of peers that have left the pool count in it.
        """
        if self.agreement is None:
            return
        there = a == a  # NaN differs from itself
        if there.any():
            self.agreement.write(phi, sign * centred_agreement(a, centre), sign * there, tick)
        self._known = None

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
