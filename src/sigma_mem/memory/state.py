"""One memory: what is known of a pool of peers at a clock, with two verbs, read and write."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory.agreement import centred_agreement, deviation
from sigma_mem.memory.ballots import (
    Ballots,
    ballot_sums,
    joint_weights,
    label_ballots,
    labelled_answers,
    n_answers,
    opinion_likelihood,
    pair_ballots,
)
from sigma_mem.memory.competition import (
    coincidence,
    competition_sums,
    independent,
    prior_pairs,
    readable_rate,
    readable_rows,
    wrong_pairs,
)
from sigma_mem.memory.confidence import (
    calibrated,
    confidence_sums,
    decision_rows,
    mixed_claim,
    of_set,
    sure_rows,
)
from sigma_mem.memory.copies import copies_sums, copying, freedom, pair_evidence, third_answers
from sigma_mem.memory.features import feature_rows, feature_sum, feature_units, feature_weights, text_log_odds
from sigma_mem.memory.kernel import add_events, fold_window, kernel, matrices, pair_products, scores
from sigma_mem.memory.rates import (
    ClaimWeights,
    Effective,
    RateReading,
    bounded,
    claim_rows,
    claim_weights,
    effective_events,
    effective_labels,
    fast_horizon,
    label_rows,
    probability,
    rate_sums,
    read_rates,
    shrunk_mean,
    unshrunk,
)
from sigma_mem.memory.reading import Reading
from sigma_mem.memory.regression import (
    direction_rows,
    direction_sum,
    leverage,
    sharpened,
    solved,
    stretch,
    with_sharpened,
)
from sigma_mem.memory.relation import centred, relation_matrix, relation_rows, relation_sum
from sigma_mem.memory.settings import Settings
from sigma_mem.memory.sums import PEERS, Sum, Sums
from sigma_mem.memory.topics import Topics, topic_sums
from sigma_mem.memory.verdicts import Scores, Verdicts, verdict_sums

_SLOWEST = -2  # of the rates at which labels are counted; the last one is the whole life
_WEAK = 2.5  # events of agreement that are worth one label
_BELIEVED = 50.0  # labelled events at which it counts half when peers agree: labels know better
_FAR_AHEAD = 30.0  # half-lives, after which nothing would be left of what was learned
_LEAST_FACTOR = 1e-200  # of a decay that is divided by


class FromLabels(NamedTuple):
    """What labels alone say: the same from one label to the next, whatever is decided meanwhile."""

    labels: Effective  # of every peer
    weights: ClaimWeights
    events: float  # effective number of labelled events of the pool
    fresh: float  # factor that makes sums of the pool those of so many events


class Known(NamedTuple):
    """What a read needs that does not depend on φ: the same until the next label or agreement."""

    rates: RateReading
    fresh: FloatArray  # factors of sums at every horizon that make them those of as many labels, (H + 1, P)
    labels: FloatArray  # of every peer, whatever their age, (P,)
    weights: FloatArray | None  # of the regression, (P, rank)
    moved: FloatArray | None  # by which agreement moves every peer's prior, (P,); None if none was seen
    believed: float  # how far it counts when peers agree


class SigmaState:
    """M_p, N_p and G of a pool of peers at a clock, and all else that is learned.

    M and N are kept without the factor η; a read applies it.

    Parameters
    ----------
    peers : sequence of str
        Names, distinct; ties go to the peer listed first.
    rank : int
        Dimension of φ.
    settings : Settings
    n_features : int
        Text features that every answer has; 0 if texts are not used.

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

    def __init__(
        self, peers: Sequence[str], rank: int, settings: Settings | None = None, n_features: int = 0
    ) -> None:
        self.peers: tuple[str, ...] = _checked_peers(peers)
        if rank < 1:
            raise InputError(f"rank is {rank}; expected at least 1")
        self.rank, self.n_features = rank, n_features
        self.settings = settings or Settings()
        self.clock = 0  # decided events
        self.now = 0.0  # where the memory stands on its decay axis
        self._begun = self.settings.decay != "time"
        self._ahead = math.inf  # the last clock reading, if it was doubted
        self.sums = Sums(len(self.peers), declared_sums(self.settings, rank, n_features))
        self.topics = Topics()
        self.verdicts = Verdicts()
        self._start_over()

    def _start_over(self) -> None:
        """Nothing is known yet that follows from the sums."""
        s = self.settings
        self._rate, self._eta, self._strength = s.rate, s.step, s.local_strength(len(self.peers))
        self._n_claims, self._fast = s.n_claims, fast_horizon(len(s.horizon_rates))
        self._known: Known | None = None
        self._labelled: FromLabels | None = None  # until the next label
        self._solved = np.zeros((2, len(self.peers), self.rank))
        self._unsolved = np.ones(len(self.peers), dtype=np.bool_)  # peers whose labels changed since

    # --- clock ---------------------------------------------------------------------------

    def next_tick(self, time: float = 0.0) -> float:
        """The place that the next event will have on the decay axis.

        With decay by event it is the clock after the event, so that at clock T the event t (from 0)
        has weight γ^(T−1−t).
        """
        decay = self.settings.decay
        if decay == "event":
            return self.now + 1.0
        return time if decay == "time" and not self._doubted(time) else self.now

    def begin_event(self, time: float = 0.0) -> float:
        """Count one decided event; return its tick."""
        tick = self.next_tick(time)
        if self.settings.half_life is not None:
            self._ahead = time if self._doubted(time) else math.inf
        self.clock += 1
        if not self._begun:
            self.now, self._begun = time, True
        self.now = max(tick, self.now)
        return tick

    def moment(self, time: float) -> float:
        """Where a read at this time stands on the decay axis: after a pause, behind the pause."""
        return max(self.now, time) if self.settings.decay == "time" and self._begun else self.now

    def _doubted(self, time: float) -> bool:
        """Whether a clock reading is so far ahead that it counts only once a second one confirms it."""
        half_life = self.settings.half_life
        if half_life is None or not self._begun:
            return False
        return time > self.now + _FAR_AHEAD * half_life and time < self._ahead

    def next_label_tick(self, tick: float) -> float:
        """Tick of the first label of an event decided at `tick`: with decay by labelled event, a new one."""
        return self.now + 1.0 if self.settings.decay == "labelled" else tick

    def begin_labels(self, tick: float) -> float:
        """Move the decay axis on for an event that gets its first label; return its `next_label_tick`."""
        label_tick = self.next_label_tick(tick)
        if self.settings.decay == "labelled":
            self.now = label_tick
        return label_tick

    def sync_clock(self, other: SigmaState) -> None:
        """Stand where `other` stands on the same decay axis."""
        self.clock, self.now, self._begun = other.clock, other.now, other._begun

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
        phi : array (rank,), unit; 0 if only the topics are known
        at : float, optional
            The `moment` of the read; the memory's own tick by default.
        topics : sequence of str
            What is known of the task's kind; see `Topics`.
        pairs : array, optional
            `pair_products` of φ, for callers that read several memories at one φ.
        """
        now = self.now if at is None else at
        known = self._known or self._knowledge()
        rates, strength, fresh = known.rates, self._strength, known.fresh[_SLOWEST]
        found = scores(self.sums, "competence", phi, pair_products(phi) if pairs is None else pairs)
        decayed = self.sums.factor(self._rate, now)[:-1]
        score, seen = found[0], np.abs(found[1])  # what is taken back may leave a rounding error below 0
        prior = rates.slowest
        if known.moved is not None:
            moved = deviation(found[-2], np.abs(found[-1]), known.moved, _WEAK * strength)
            prior = bounded(prior + known.believed * moved)
        total, labels = score * fresh, seen * fresh
        near = estimate = shrunk_mean(total, labels, prior, strength)
        claims, certainty, stretched = np.empty((self._n_claims, len(near))), None, None
        alone, weights = near[None], rates.estimators.T[:1]
        if known.weights is not None:
            # Term by term and not by BLAS: equal peers get equal bits.
            regressed = bounded(prior + np.add.reduce(known.weights * phi, axis=1))
            alone, weights = np.stack((estimate, regressed, sharpened(regressed))), rates.estimators.T
            near = np.add.reduce(weights * alone)
            certainty, stretched = partial(self._leverage, phi, now), partial(stretch, regressed, weights)
            claims[0], claims[1] = estimate, regressed
        mean, recent = near, labels
        horizons, place = len(rates.rates), self._fast
        if horizons > 1:
            by_horizon = np.add(near, rates.away, out=claims[-1 - horizons : -1])
            fast = known.fresh[place]
            recent = np.abs(found[3]) * fast
            claims[-1] = local = shrunk_mean(found[2] * fast, recent, by_horizon[place], strength)
            mean = near + rates.change + rates.of_local * (local - near)
        claims = bounded(claims)

        def away() -> tuple[FloatArray, FloatArray]:
            apart = np.add.reduce(weights * np.square(alone - near))
            if horizons > 1:
                apart = apart + np.add.reduce(rates.horizons.T * np.square(claims[-1 - horizons :] - mean))
            return weights[0] * unshrunk(total, labels, estimate), 0.25 * apart

        reading = Reading(
            score=score * decayed * self._eta,
            effective=seen * decayed,
            prob=probability(bounded(mean)),
            labels=labels,
            recent=recent,
            of_local=rates.of_local,
            doubt=rates.doubt,
            near=near,
            slowest=rates.slowest,
            claims=claims.T.astype(np.float16) if len(claims) else None,  # scored as the ledger keeps them
            of_regression=1.0 - weights[0],
            away=away,
            leverage=certainty,
            stretch=stretched,
        )
        if not topics:
            return reading
        of_topics = self.topics.read(
            self.sums,
            phi,
            topics,
            np.stack((score, seen)),
            near,
            bounded(mean) - near,
            known.fresh[[_SLOWEST, place]],
            decayed,
            known.labels,
            strength,
        )

        def away_by_topics() -> tuple[FloatArray, FloatArray]:
            pull, apart = away()
            return of_topics.pull + of_topics.weights[0] * pull, apart + 0.25 * of_topics.apart

        return replace(
            reading,
            score=self._eta * of_topics.score,
            effective=of_topics.effective,
            prob=probability(of_topics.mean),
            away=away_by_topics,
            topics=of_topics,
        )

    def _knowledge(self) -> Known:
        sums, s, moved, weights = self.sums, self.settings, None, None
        if s.agreement and sums["agreement"][1].any():
            agreed, compared = sums["agreement"]
            moved = shrunk_mean(agreed, np.abs(compared), 0.0, _WEAK * s.strength)
        labels, weighed, events, _ = self._by_labels()
        free = self._freedom
        prior = np.zeros(len(self.peers)) if moved is None else free * moved
        rates = read_rates(labels, weighed, prior, s)
        if s.regression:
            if self._unsolved.any():
                fresh, changed = labels.fresh[_SLOWEST], np.flatnonzero(self._unsolved).tolist()
                solved(sums["directions"], fresh, self._evidence, changed, self._solved)
                self._unsolved[:] = False
            weights = self._solved[0] - rates.slowest[:, None] * self._solved[1]
        believed = free * _BELIEVED / (_BELIEVED + events)
        self._known = Known(rates, labels.fresh, labels.labels[-1], weights, moved, believed)
        return self._known

    def _by_labels(self) -> FromLabels:
        """What labels alone say, computed once after each."""
        if self._labelled is None:
            labels = effective_labels(self.sums)
            weights, events = claim_weights(self.sums, labels), effective_events(self.sums)
            self._labelled = FromLabels(labels, weights, *events)
        return self._labelled

    def _evidence(self, peer: int) -> FloatArray:
        return matrices(self.sums, "competence", (1, peer), self.rank)

    def _leverage(self, phi: FloatArray, now: float) -> FloatArray:
        """φᵀ(N_p + λI)⁻¹φ of every peer, (P,), by what is known now."""
        factors = self.sums.factor(self._rate, now)[:-1]
        return leverage(phi, factors, self.sums["directions"][1], self._evidence)

    def overall(self) -> tuple[FloatArray, FloatArray]:
        """Every peer's rate of being right, whatever the task, and how many labels it rests on now."""
        rates = (self._known or self._knowledge()).rates
        mean = rates.slowest + rates.change + rates.of_local * rates.away[self._fast]
        return probability(bounded(mean)), self.label_sums()[1]

    def label_sums(self) -> FloatArray:
        """Decayed sums of labels and of 1, tr M_p/η and tr N_p/η, (2, P), as of now."""
        sums = self.sums["labels"].reshape(3, -1, len(self.peers))[:2, _SLOWEST]
        out: FloatArray = sums * self.sums.factor(self._rate, self.now)[:-1]
        return out

    def horizon_weights(self) -> FloatArray:
        """Weight in p̂ of every horizon and of the local claim, (P, H + 1)."""
        return (self._known or self._knowledge()).rates.horizons

    def copying(self, at: float | None = None) -> FloatArray | None:
        """How far every pair of peers answers as one, (P, P), from 0 to 1; None if nobody copies."""
        if not self.settings.agreement:
            return None
        factor = self.sums.factor(self._rate, self.now if at is None else at).item(-1)
        same, compared = self.sums["copies"]
        d = copying(same, compared, self._freedom, max(factor, _LEAST_FACTOR))
        return d if d.any() else None

    @property
    def _freedom(self) -> float:
        """How far peers that agree chose to, from 0 to 1."""
        return freedom(*self.sums["thirds"].tolist()) if self.settings.agreement else 1.0

    def readout(self, phi: FloatArray) -> FloatArray:
        """M_pφ of every peer (eq:sigma_readout), shape (P, rank)."""
        return self.M @ phi

    @property
    def M(self) -> FloatArray:
        """Competence (eq:sigma_mem_update), (P, rank, rank)."""
        return self._matrices(0)

    @property
    def N(self) -> FloatArray:
        """Evidence, (P, rank, rank)."""
        return self._matrices(1)

    def _matrices(self, place: int) -> FloatArray:
        decayed = self.sums.factor(self._rate, self.now)[:-1]
        found: FloatArray = matrices(self.sums, "competence", place, self.rank)
        found *= (self._eta * decayed)[:, None, None]
        return found

    @property
    def G(self) -> FloatArray:
        """Relation, (P, P)."""
        factor = self.sums.factor(self.settings.rate_g, self.now).item(-1)
        return relation_matrix(self.sums["relation"], self.settings.eta_g * factor)

    def alternatives(self, phi: FloatArray, pairs: FloatArray | None = None) -> float:
        """K − 1, the effective number of wrong answers that compete at φ; `pairs` as for `read`."""
        found = scores(self.sums, "pairs", phi, pair_products(phi) if pairs is None else pairs)
        (same, near), (all_same, all_pairs) = (
            (self._by_labels().fresh * x).tolist() for x in (found, self.sums["all_pairs"])
        )
        return 1.0 / float(coincidence(same, near, all_same, all_pairs, prior_pairs(len(self.peers))))

    def ballots(self, at: float | None = None) -> Ballots:
        """What a mixture of votes needs to know of the pool, as of a `moment`."""
        sums, (labels, _, _, fresh) = self.sums, self._by_labels()
        answered = self.sums.factor(self._rate, self.now if at is None else at).item(-1)
        joint = joint_weights(
            answered * sums["ballots.pairs"],
            answered * sums["ballots.events"].item(),
            fresh * sums["ballots.right"],
            fresh * sums["ballots.labelled"].item(),
        )
        rate = probability(labels.mean[_SLOWEST])
        return Ballots(rate, labels.labels[_SLOWEST], joint, fresh * sums["ballots.likelihood"])

    @property
    def labelled(self) -> float:
        """Effective number of labelled events, as of the last one."""
        return (self._labelled or self._by_labels()).events

    @property
    def decayed_events(self) -> float:
        """Decayed number of labelled events, as of now."""
        return self.sums["events"].item(0) * self.sums.factor(self._rate, self.now).item(-1)

    @property
    def readable(self) -> FloatArray:
        """ρ, every peer's rate of readable answers, (P,)."""
        known = self._known or self._knowledge()
        readable, asked = self.sums["readable"] * known.fresh[_SLOWEST]
        return readable_rate(readable, asked)

    def topic_labels(self, topic: str) -> FloatArray:
        """Decayed number of labels of every peer on events with this topic, (P,)."""
        out: FloatArray = self.topics.labels(self.sums, topic) * self.sums.factor(self._rate, self.now)[:-1]
        return out

    def text_log_odds(self, features: Sequence[Sequence[float]], peers: Sequence[int]) -> FloatArray:
        """Log-odds that its text adds to the answer of each of these peers, (P,)."""
        out, (labelled, agreed) = np.zeros(len(self.peers)), self._feature_sums()
        if peers and (labelled[-1, 0] or (agreed is not None and agreed[-1, 0])):
            out[list(peers)] = text_log_odds(np.array(features), feature_weights(labelled, agreed))
        return out

    def verdict_log_odds(
        self, given: Scores, groups: NDArray[np.intp], phi: FloatArray, at: float
    ) -> dict[str, FloatArray]:
        """Log-odds that every judge adds to each peer's answer, (P,); see `Verdicts`."""
        return self.verdicts.log_odds(self.sums, given, groups, phi, at)

    def text_effects(self) -> FloatArray:
        """What every text feature adds when it is one standard deviation up, in units of c."""
        found = self._feature_sums()
        return feature_weights(*found) * feature_units(*found)

    def _feature_sums(self) -> tuple[FloatArray, FloatArray | None]:
        factor = self.sums.factor(self._rate, self.now).item(-1)
        agreed = self.sums["agreed_features"] * factor if self.settings.agreement else None
        return self.sums["features"] * factor, agreed

    def mixed_claim(self, claims: FloatArray) -> float:
        """Everything that is claimed of an answer, (8,), as one claim, as a ledger keeps it."""
        return mixed_claim(claims, self._by_labels().fresh * self.sums["sure.likelihood"])

    def calibrated(self, claim: float) -> float:
        """A claim of being right, corrected by how such claims turned out."""
        return calibrated(claim, self._by_labels().fresh * self.sums["sure.bins"])

    def confidence_of_set(self, confidence: float) -> float:
        """Mean confidence of the decisions that are at least as sure as this one."""
        factor = self.sums.factor(self._rate, self.now).item(-1)
        return of_set(confidence, self.sums["sure.decisions"] * factor)

    def by_peer(self, values: FloatArray) -> dict[str, float]:
        """Values in the order of the pool, as a mapping by name."""
        return dict(zip(self.peers, values.tolist(), strict=True))

    # --- write: one event, or a leading axis of several ----------------------------------

    def write(
        self,
        phi: FloatArray,
        c: FloatArray,
        tick: ArrayLike,
        *,
        weight: FloatArray | None = None,
        sign: ArrayLike = 1.0,
        groups: NDArray[np.intp] | None = None,
        claims: NDArray[np.float16] | None = None,
        topics: Sequence[str] | Sequence[Sequence[str]] = (),
        topic_claims: NDArray[np.float16] | None = None,
        opinions: FloatArray | None = None,
    ) -> None:
        """Write the labels of an event or, along a first axis of everything, of several.

        Parameters
        ----------
        phi : array (rank,), unit
        c : array (≥ P,)
            Labels in [−1, 1], NaN if there is none; of the pool, then of peers that have left it: they
            count in the mean of q and in K.
        tick : float
            The event's place on the decay axis.
        weight : array (P,)
            How much evidence each label is, in [0, 1]; None for 1.
        sign : float
            −1 takes back what was written.
        groups : int array, of as many as c
            Answer groups; −1 if an answer could not be read, −2 if none was asked for. None
            if nobody was asked.
        claims : array (P, K)
            What was claimed at the decision, as recorded; NaN for a peer it knew nothing of.
        topics, topic_claims : sequence of str, and array (P, B)
            The event's topics, and what every share of them claimed at the decision, as recorded.
        opinions : array (opinions, as many as c)
            Of the answer that each peer gave, as recorded; 0 for one without a readable answer. None if the
            decision mixed no votes.
        """
        if phi.ndim == 1:
            phi, c, topics = phi[None], c[None], (topics,)  # type: ignore[assignment]
            weight = None if weight is None else weight[None]
            groups = None if groups is None else groups[None]
            claims = None if claims is None else claims[None]
            topic_claims = None if topic_claims is None else topic_claims[None]
            opinions = None if opinions is None else opinions[None]
        n, ticks, signs = len(self.peers), _by_event(tick, len(phi)), _by_event(sign, len(phi))
        there = c == c  # NaN differs from itself
        q, own = centred(c)[:, :n], there[:, :n]
        seen = own * signs[:, None]
        worth = signs * np.logical_or.reduce(there, axis=1)
        if weight is not None:
            seen, q = seen * weight, q * np.sqrt(weight)
            worth = np.add.reduce(seen, axis=1) / np.maximum(np.add.reduce(there, axis=1), 1)
        label = np.where(own, c[:, :n], 0.0) * seen
        sums = self.sums
        peers = np.logical_or.reduce(seen, axis=0)
        w = sums.weights(ticks, peers)
        rates = sums["labels"].shape[0] // 3
        sums.add("labels", label_rows(label, seen, rates), w)
        sums.add("events", worth[:, None], w)
        sums.add("relation", relation_rows(q, signs), w)
        if claims is not None:
            scored = with_sharpened(claims) if self.settings.regression else claims
            sums.add("claims", claim_rows(scored, c[:, :n], seen), w)
        if self.settings.regression:
            sums.add("directions", direction_rows(phi, label, seen), w)
        self._add_competence(phi, label, seen, w)
        if any(topics):
            self._add_topics(phi, topics, label, seen, c[:, :n], topic_claims, w)
        if groups is not None:
            sums.add("readable", readable_rows(seen, groups[:, :n]), w)
            answers = labelled_answers(c, groups)
            sums.add("ballots.right", worth[:, None] * label_ballots(answers)[:, :n], w)
            sums.add("ballots.labelled", (worth * answers.counts)[:, None], w)
            if opinions is not None:
                likely = opinion_likelihood(answers, opinions)
                sums.add("ballots.likelihood", worth[:, None] * likely, w)
            same, pairs = independent(*wrong_pairs(c, groups))
            both = worth[:, None] * np.array((same, pairs)).T
            sums.add("all_pairs", both, w)
            some = pairs > 0.0
            if some.any():
                weighted = both * sums.weight_of("all_pairs", w)
                add_events(sums, "pairs", phi[some], weighted[some])
        self._known = self._labelled = None
        self._unsolved |= peers

    def _add_competence(self, phi: FloatArray, label: FloatArray, seen: FloatArray, w: FloatArray) -> None:
        """Add c·φφᵀ to M_p and φφᵀ to N_p at every rate at which they are kept (eq:sigma_mem_update)."""
        rows = len(self.sums["competence"])
        kept = rows - 2 if self.settings.agreement else rows
        coefficients = np.zeros((len(phi), rows, len(self.peers)))
        coefficients[:, 0:kept:2] = label[:, None]
        coefficients[:, 1:kept:2] = seen[:, None]
        coefficients *= self.sums.weight_of("competence", w)[..., 0]
        add_events(self.sums, "competence", phi, coefficients)

    def _add_topics(
        self,
        phi: FloatArray,
        topics: Sequence[Sequence[str]],
        label: FloatArray,
        seen: FloatArray,
        c: FloatArray,
        claims: NDArray[np.float16] | None,
        w: FloatArray,
    ) -> None:
        rates = [self.sums.weight_of(name, w)[:, 0, 0] for name in ("topics.pairs", "topics.recent")]
        factors = np.stack(rates, axis=1)
        for event, names in enumerate(topics):
            if names:
                both = np.stack((label[event], seen[event]))
                self.topics.write(self.sums, phi[event], names, both, factors[event])
        if claims is not None:
            self.sums.add("topics.claims", claim_rows(claims, c, seen), w)

    def write_agreement(self, phi: FloatArray, a: FloatArray, tick: ArrayLike, sign: ArrayLike = 1.0) -> None:
        """Write agreement labels, (≥ P,), NaN if there is none; of peers that have left last."""
        if not self.settings.agreement:
            return
        if phi.ndim == 1:
            phi, a = phi[None], a[None]
        n, signs = len(self.peers), _by_event(sign, len(phi))[:, None]
        there = a[:, :n] == a[:, :n]  # NaN differs from itself
        if not there.any():
            return
        both = np.stack((centred_agreement(a)[:, :n] * signs, there * signs), axis=1)
        self.sums["agreement"][...] += np.add.reduce(both)
        coefficients = np.zeros((len(phi), len(self.sums["competence"]), n))
        coefficients[:, -2:] = both  # nothing is forgotten of it, so that all weigh the same
        add_events(self.sums, "competence", phi, coefficients)
        self._known = None

    def write_answers(self, groups: NDArray[np.intp], tick: ArrayLike, sign: ArrayLike = 1.0) -> None:
        """Write which answers were equal, (≥ P,): of the pool, then of peers that have left it."""
        n, rows = len(self.peers), np.atleast_2d(groups)
        signs, w = _by_event(sign, len(rows)), self._pool_weights(tick, len(rows))
        self.sums.add("ballots.pairs", signs[:, None, None] * pair_ballots(rows)[:, :n, :n], w)
        self.sums.add("ballots.events", signs[:, None] * (n_answers(rows)[:, None] > 1), w)
        if self.settings.agreement:
            self.sums.add("thirds", signs[:, None] * third_answers(rows), w)
            self.sums.add("copies", signs[:, None, None, None] * pair_evidence(rows)[..., :n, :n], w)
        self._known = None

    def write_texts(
        self, features: FloatArray, residual: FloatArray, tick: ArrayLike, weight: ArrayLike = 1.0
    ) -> None:
        """Write how answers, (answers, S), are written; c − (2p̂ − 1) is NaN if there is no label."""
        self._add_texts("features", features, residual, tick, weight)

    def write_agreed_texts(
        self, features: FloatArray, a: FloatArray, tick: ArrayLike, sign: ArrayLike = 1.0
    ) -> None:
        """Write how answers that others agree with are written, (answers, S); NaN if there is none."""
        if self.settings.agreement:
            self._add_texts("agreed_features", features, a, tick, sign)

    def _add_texts(
        self, name: str, features: FloatArray, residual: FloatArray, tick: ArrayLike, weight: ArrayLike
    ) -> None:
        if features.ndim == 2:
            features, residual = features[None], residual[None]
        rows = feature_rows(features, residual, _by_event(weight, len(features)))
        self.sums.add(name, rows, self._pool_weights(tick, len(rows)))

    def write_verdicts(
        self,
        given: Scores,
        groups: NDArray[np.intp],
        phi: FloatArray,
        residual: FloatArray,
        tick: float,
        weight: float,
        peers: Sequence[str],
    ) -> None:
        """Write what the labels of an event's peers, (answers,), imply about its judges; see `Verdicts`."""
        places = np.array([self.peers.index(p) if p in self.peers else -1 for p in peers], dtype=np.intp)
        self.verdicts.write(self.sums, given, groups, phi, residual, tick, places, weight)

    def write_sureness(
        self, claims: FloatArray, right: ArrayLike, tick: ArrayLike, weight: ArrayLike = 1.0
    ) -> None:
        """Score recorded claims, (9,), the mixture last, by how right the answer was, from 0 to 1."""
        rows = np.atleast_2d(claims)
        y, weights = _by_event(right, len(rows)), _by_event(weight, len(rows))
        likelihood, bins = sure_rows(rows[:, :-1], rows[:, -1], y, weights)
        w = self._pool_weights(tick, len(rows))
        self.sums.add("sure.likelihood", likelihood, w)
        self.sums.add("sure.bins", bins, w)

    def count_decisions(self, confidence: ArrayLike, tick: ArrayLike) -> None:
        """Count how sure decisions are; no label is needed."""
        sure = np.array(confidence, dtype=np.float64, ndmin=1)
        self.sums.add("sure.decisions", decision_rows(sure), self._pool_weights(tick, len(sure)))

    def _pool_weights(self, tick: ArrayLike, n_events: int) -> FloatArray:
        """Weights of what events contribute to sums of the pool."""
        return self.sums.weights(_by_event(tick, n_events))

    # --- peers, merge, snapshot ----------------------------------------------------------

    def add_peer(self, peer: str) -> None:
        """Take a new peer into the pool, last in order, with nothing known of it."""
        self.set_peers((*self.peers, peer))

    def labels_of(self, peer: str) -> float:
        """How many labels there are of a peer, whatever their age."""
        return (self._known or self._knowledge()).labels.item(self.peers.index(peer))

    def remove_peer(self, peer: str) -> None:
        """Forget a peer; what is known of the others stays."""
        if peer not in self.peers:
            raise InputError(f"peer {peer!r} is not in the pool {list(self.peers)}")
        if len(self.peers) == 1:
            raise InputError(f"peer {peer!r} is the last one; a memory needs at least one peer")
        self.set_peers([name for name in self.peers if name != peer])

    def set_peers(self, peers: Iterable[str]) -> None:
        """Make this the pool, in this order: forget peers that are not in it, know nothing of new ones."""
        names = _checked_peers(peers)
        self.sums = self.sums.take([self.peers.index(name) if name in self.peers else -1 for name in names])
        self.peers = names
        self._start_over()

    def rename_peer(self, peer: str, name: str) -> None:
        """Give a peer another name."""
        self.peers = _checked_peers(name if known == peer else known for known in self.peers)

    def mix_peers(self, shares: FloatArray) -> None:
        """Keep only a share of what is known of each peer, or give shares of it to others.

        Row p of `shares`, (P, P), has what p gets of M, N and what else belongs to each peer. What two peers
        have in common (G, copies) keeps the product of their own shares; what belongs to the pool (K, text
        features, confidence, the level of agreement) stays.
        """
        self.sums.mix(shares)
        self._start_over()

    def blank(self) -> SigmaState:
        """A state of the same kind that stands at the same place, with nothing in it."""
        out = SigmaState(self.peers, self.rank, self.settings, self.n_features)
        out.sync_clock(self)
        return out

    def merge(self, other: SigmaState) -> None:
        """Add what `other` learned from events that this memory did not see.

        Both must have the same rank and settings; peers are matched by name and missing ones are
        added. Ticks are taken to be of one decay axis: the result equals one memory that saw
        the events of both, at the later of the two times.
        """
        if (self.rank, self.settings) != (other.rank, other.settings):
            raise InputError(
                f"cannot merge a memory of rank {other.rank} and {other.settings} into one of rank "
                f"{self.rank} and {self.settings}; expected equal rank and settings"
            )
        if not set(other.peers) <= set(self.peers):
            self.set_peers(dict.fromkeys((*self.peers, *other.peers)))
        order = [other.peers.index(p) if p in other.peers else -1 for p in self.peers]
        theirs = self.topics.adopt(other.topics, other.sums.take(order))
        theirs = self.verdicts.adopt(other.verdicts, self.sums, theirs)
        for sums in (self.sums, theirs):
            fold_window(sums, "competence")
            fold_window(sums, "pairs")
        self.sums.merge(theirs)
        self.clock, self.now = max(self.clock, other.clock), max(self.now, other.now)
        self._begun = self._begun or other._begun
        self._start_over()

    def pack(self) -> dict[str, FloatArray]:
        """Everything but peers and settings, bit for bit, for a snapshot."""
        clock = np.array([float(self.clock), self.now, float(self._begun), self._ahead])
        return {"clock": clock, **self.sums.pack(), **self.topics.pack(), **self.verdicts.pack()}

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from what `pack` returned for a state of the same peers, rank and settings."""
        clock, self.now, begun, self._ahead = packed["clock"].tolist()
        self.clock, self._begun = int(clock), bool(begun)
        self.sums.unpack(packed)
        self.topics.unpack(packed)
        self.verdicts.unpack(packed)
        self._start_over()


def declared_sums(settings: Settings, rank: int, n_features: int) -> dict[str, Sum]:
    """Everything that a memory learns.

    The rows of "competence" are M and N at the slowest rate, the same at the fast one if there are several
    horizons, and agreement, which is not forgotten, in an M and N of its own.
    """
    slow, horizons = settings.rate, settings.horizon_rates
    kept, fast = [slow, slow], horizons[fast_horizon(len(horizons))]
    if len(horizons) > 1:
        kept += [fast, fast]
    if settings.agreement:
        kept += [0.0, 0.0]
    declared = {
        **kernel("competence", (len(kept), PEERS), tuple(kept), rank),
        **rate_sums(settings),
        **ballot_sums(slow),
        **competition_sums(rank, slow),
        **confidence_sums(slow),
        **topic_sums(rank, slow, fast, settings.topic_mixing_rate),
        **verdict_sums(rank, slow, fast),
        "relation": relation_sum(settings.rate_g),
        "features": feature_sum(n_features, slow),
    }
    if settings.regression:
        declared["directions"] = direction_sum(rank, slow)
    if settings.agreement:
        declared["agreement"] = Sum((2, PEERS), 0.0)
        declared["agreed_features"] = feature_sum(n_features, slow)
        declared |= copies_sums(slow)
    return declared


def _by_event(value: ArrayLike, n_events: int) -> FloatArray:
    """A number for every event; one that is given holds for all."""
    out = np.array(value, dtype=np.float64, ndmin=1)
    return out if len(out) == n_events else np.repeat(out, n_events)


def _checked_peers(peers: Iterable[str]) -> tuple[str, ...]:
    if isinstance(peers, str):
        raise InputError(f"peers are {peers!r}, one text; expected a list of names, such as [{peers!r}]")
    names = tuple(peers)
    if not names:
        raise InputError("no peers; expected at least one name")
    if any(not isinstance(name, str) or not name for name in names):
        raise InputError(f"peers are {list(names)!r}; expected non-empty strings")
    if any("\ud800" <= character <= "\udfff" for character in "".join(names)):
        raise InputError(f"peers are {list(names)!r}; expected names that are valid Unicode")
    if len(set(names)) != len(names):
        raise InputError(f"peers are {list(names)}; expected distinct names")
    return names
