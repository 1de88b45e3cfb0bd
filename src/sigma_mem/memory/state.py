"""One memory: competence, evidence and relation of a pool of peers, text features, and the clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory import horizons as horizons_
from sigma_mem.memory.agreement import deviation
from sigma_mem.memory.calibration import pool_mean, probability, shrunk_mean, wilson
from sigma_mem.memory.competence import Competence
from sigma_mem.memory.competition import Readability, WrongAnswers, independent, prior_pairs, wrong_pairs_of
from sigma_mem.memory.confidence import Confidence
from sigma_mem.memory.copies import Copies
from sigma_mem.memory.decayed import DecayedSum
from sigma_mem.memory.features import TextFeatures
from sigma_mem.memory.horizons import LEAST, Horizons, Mixing, bounded, fast_horizon
from sigma_mem.memory.relation import Relation, centred
from sigma_mem.memory.settings import Settings
from sigma_mem.memory.topics import TopicReading, Topics

_FAR_AHEAD = 30.0  # half-lives, after which nothing would be left of what was learned


class Reading(NamedTuple):
    """What the memory says of every peer at one φ; arrays of shape (P,).

    Attributes
    ----------
    score : φᵀM_pφ, the paper's historical reliability (eq:direct_m_score)
    effective : φᵀN_pφ/η, how many labelled events stand behind it
    prob : calibrated competence p̂
    pseudo : weight of the prior in p̂, in observations
    near, overall, local : mean label at φ, at every horizon whatever the φ, (P, H), and at φ lately:
        what p̂ is made of
    topics : what topics changed of score, effective and p̂; None where none was given
    """

    score: FloatArray
    effective: FloatArray
    prob: FloatArray
    pseudo: float
    near: FloatArray
    overall: FloatArray
    local: FloatArray
    topics: TopicReading | None = None

    def recorded(self) -> NDArray[np.float16]:
        """What is claimed, as a ledger keeps it, (P, H + 2)."""
        return horizons_.rounded(self.near, self.overall, self.local)

    def interval(self, z: float = 1.96) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of p̂'s interval (Wilson, on effective + pseudo observations)."""
        return wilson(self.prob, self.effective + self.pseudo, z)


class _Overall(NamedTuple):
    """What the memory says of every peer whatever the φ."""

    now: float
    by_horizon: FloatArray  # mean label, (P, H)
    change: FloatArray  # Σ_g u_g·(over_g − over_slow), (P,); 0 with one horizon
    recent: FloatArray  # over_fast − over_slow, (P,)
    agreed: FloatArray | None  # mean agreement, (P,); None where none was seen


class SigmaState:
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

    def __init__(
        self, peers: Sequence[str], rank: int, settings: Settings | None = None, n_features: int = 0
    ) -> None:
        self.peers: tuple[str, ...] = _checked_peers(peers)
        if rank < 1:
            raise InputError(f"rank is {rank}; expected at least 1")
        self.rank = rank
        self.settings = settings or Settings()
        self._eta = self.settings.step
        self.clock = 0  # decided events
        self.now = 0.0  # where the memory stands on its decay axis
        self._begun = self.settings.decay != "time"
        self._ahead = math.inf  # the last clock reading, if it was doubted
        self._due = -math.inf  # before this no part's anchor moves
        self._overall_known: _Overall | None = None  # until something is written
        rate = self.settings.rate
        rates = self.settings.horizon_rates
        several = len(rates) > 1
        fast = [rates[fast_horizon(len(rates))]] if several else []
        self.competence = Competence(len(self.peers), rank, rate, *fast)
        self.relation = Relation(len(self.peers), self.settings.rate_g)
        self.wrong_answers = WrongAnswers(rank, rate)
        self.readability = Readability(len(self.peers), rate)
        self.features = TextFeatures(n_features, rate)
        self.horizons = Horizons(len(self.peers), rates)
        self.mixing = Mixing(len(self.peers), len(rates) + 1, self.settings.mixing_rate) if several else None
        self.confidence = Confidence(rate)
        self.agreement = Competence(len(self.peers), rank, rate) if self.settings.agreement else None
        self.topics: Topics | None = None  # until an event with a topic is labelled
        looks_for_copies = self.settings.agreement and self.settings.revision > 1
        self.copies = Copies(len(self.peers), rate) if looks_for_copies else None

    # --- clock ---------------------------------------------------------------------------

    def next_tick(self, time: float = 0.0) -> float:
        """The place that the next event will have on the decay axis.

        With decay by event it is the clock after the event, so that at clock T the event t (from 0)
        has weight γ^(T−1−t).
        """
        if self.settings.decay == "time":
            return self.now if self._doubted(time) else time
        return self.now + 1.0 if self.settings.decay == "event" else self.now

    def begin_event(self, time: float = 0.0) -> float:
        """Count one decided event; return its tick."""
        tick = self.next_tick(time)
        self._ahead = time if self._doubted(time) else math.inf
        self.clock += 1
        if not self._begun:
            self._begin(time)
        self._advance(max(self.now, tick))
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
            self._advance(label_tick)
        return label_tick

    def sync_clock(self, other: SigmaState) -> None:
        """Stand where `other` stands on the same decay axis."""
        self.clock = other.clock
        if self.now != other.now:
            if not self._begun:
                self._begin(other.competence.decayed.origin)
            self.now = other.now  # anchors move when something is written, so that looking changes nothing

    def _begin(self, time: float) -> None:
        """Count ages from here, the first event, and not from 1970."""
        self.now = time
        for decayed in self._sums():
            decayed.origin = time
        self._begun = True  # last: an interrupt may come in between

    def _advance(self, now: float) -> None:
        self.now = now
        if now >= self._due:
            sums = self._sums()
            for decayed in sums:
                decayed.advance(now)
            self._due = min(decayed.due for decayed in sums)

    # --- read ----------------------------------------------------------------------------

    def read(self, phi: FloatArray, at: float | None = None, topics: Sequence[str] = ()) -> Reading:
        """Scores, effective sample sizes and calibrated competence of every peer at φ.

        Parameters
        ----------
        phi : array (rank,), unit; 0 where only the topics are known
        at : float, optional
            The `moment` of the read; where the memory stands, by default.
        topics : sequence of str
            What is known of the task's kind; see `Topics`.
        """
        now = self.now if at is None else at
        overall = self._overall(now)
        strength = self.settings.local_strength(len(self.peers))
        sums = self.competence.undecayed_scores(phi)  # where the strength of a prior can grow instead
        score, effective = sums[0]
        np.abs(effective, effective)  # what is taken back may leave a rounding error below 0 behind
        prior = overall.by_horizon[:, -1]
        if self.agreement is not None and overall.agreed is not None:
            near = deviation(*self.agreement.score(phi, now), overall.agreed, strength)
            prior = horizons_.with_deviation(prior, near, self.horizons.labelled_events(now))
        factor = self.competence.decayed.factor(now)
        near = shrunk_mean(score, effective, prior, strength / max(factor, LEAST))
        local = mean = near
        if self.mixing is not None:
            total, labels = sums[1]
            fast = max(self.competence.by_rate[1].factor(now), LEAST)
            local = shrunk_mean(total, labels, near + overall.recent, strength / fast)
            mean = near + overall.change
            if self.mixing.local:
                mean += self.mixing.local * (local - near)
            bounded(mean)
        score *= factor * self._eta
        effective *= factor
        reading = Reading(score, effective, probability(mean), strength, near, overall.by_horizon, local)
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

    def _new_topics(self) -> Topics:
        """Topics of which nothing is known, at this place of the decay axis."""
        topics = Topics(len(self.peers), self.rank, self.settings.rate, self.settings.topic_mixing_rate)
        for decayed in topics.sums():
            decayed.origin = self.competence.decayed.origin
            decayed.advance(self.now)
        return topics

    def _overall(self, now: float) -> _Overall:
        """What does not depend on φ; computed once between two writes."""
        known = self._overall_known
        if known is None or known.now != now:
            known = self._overall_known = self._overall_at(now)
        return known

    def _overall_at(self, now: float) -> _Overall:
        s, none_known = self.settings, 2.0 * self.settings.prior - 1.0
        agreed: FloatArray | None = None
        if self.agreement is None:
            overall = self.horizons.means_by_pool(none_known, s.prior_labels, s.strength, now)
        elif self.agreement.empty:
            overall = self.horizons.means_by_agreement(none_known, None, s.strength, now)
        else:
            agreements, asked = self.agreement.trace(now)
            pool = pool_mean(agreements, asked, s.prior, s.prior_labels).item()
            agreed = shrunk_mean(agreements, asked, pool, s.strength)
            overall = self.horizons.means_by_agreement(pool, agreed - pool, s.strength, now)
        overall.flags.writeable = False  # readings hand it out, and it is read again
        beyond = overall - overall[:, -1:]
        recent = change = beyond[:, -1]
        if self.mixing is not None:  # term by term, so that equal peers get equal bits
            change = np.add.reduce(self.mixing.weights[:-1] * beyond, axis=1)
            recent = beyond[:, fast_horizon(beyond.shape[1])]
        return _Overall(now, overall, change, recent, agreed)

    def overall(self) -> tuple[FloatArray, FloatArray]:
        """Every peer's decayed rate of being right, whatever the task, and how many labels it rests on."""
        overall = self._overall(self.now)
        mean = overall.by_horizon[:, -1] + overall.change
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

    def alternatives(self, phi: FloatArray) -> float:
        """K − 1, the effective number of wrong answers that compete at φ."""
        prior = prior_pairs(len(self.peers), self.settings.revision)
        return self.wrong_answers.alternatives(phi, self.now, prior)

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
        return self.features.log_odds(features, readable, self.now)

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
        there = a == a  # NaN differs from itself
        if self.agreement is not None and there.any():
            self.agreement.write(phi, np.where(there, sign * a, 0.0), sign * there, tick)
            self._overall_known = None

    def write_copies(self, groups: NDArray[np.intp], tick: float, sign: float = 1.0) -> None:
        """Write which answers of an event were equal; sign −1 takes them back. See `Copies.write`."""
        if self.copies is not None:
            self.copies.write(groups, tick, sign)

    # --- peers ---------------------------------------------------------------------------

    def add_peer(self, peer: str) -> None:
        """Take a new peer into the pool, last in order, with nothing known of it."""
        self.set_peers((*self.peers, peer))

    def remove_peer(self, peer: str) -> None:
        """Forget a peer; what is known of the others stays."""
        if peer not in self.peers:
            raise InputError(f"peer {peer!r} is not in the pool {list(self.peers)}")
        if len(self.peers) == 1:
            raise InputError(f"peer {peer!r} is the last one; a memory needs at least one peer")
        self.set_peers([name for name in self.peers if name != peer])

    def set_peers(self, peers: Iterable[str]) -> None:
        """Make this the pool, in this order: forget who is not in it, know nothing yet of who is new."""
        names = _checked_peers(peers)
        order = [self.peers.index(name) if name in self.peers else -1 for name in names]
        self.competence = self.competence.take(order)
        self.relation = self.relation.take(order)
        self.readability = self.readability.take(order)
        self.horizons = self.horizons.take(order)
        if self.mixing is not None:
            self.mixing = self.mixing.take(order)
        if self.agreement is not None:
            self.agreement = self.agreement.take(order)
        if self.copies is not None:
            self.copies = self.copies.take(order)
        if self.topics is not None:
            self.topics = self.topics.take(order)
        self.peers = names
        self._overall_known = None

    def rename_peer(self, peer: str, name: str) -> None:
        """Give a peer another name."""
        self.peers = _checked_peers(name if known == peer else known for known in self.peers)

    def scale_peers(self, shares: Sequence[float]) -> None:
        """Keep only a share of what is known of each peer: of M, N and what else belongs to it.

        What two peers have in common (G, copies) keeps the product of their shares; what belongs to the pool
        (K, text features, confidence, the level of agreement) stays.
        """
        factors = np.array(shares, dtype=np.float64)
        self.competence.scale(factors)
        self.relation.scale(factors)
        self.readability.decayed.arrays["counts"] *= factors
        self.horizons.scale(factors)
        if self.mixing is not None:
            self.mixing.scale(factors)
        if self.topics is not None:
            self.topics.scale(factors)
        if self.agreement is not None:
            self.agreement.scale(factors)
        if self.copies is not None:
            self.copies.decayed.arrays["pairs"] *= np.outer(factors, factors)
        self._overall_known = None

    def blank(self) -> SigmaState:
        """A state of the same kind that stands at the same place, with nothing in it."""
        out = SigmaState(self.peers, self.rank, self.settings, self.features.n_features)
        out.sync_clock(self)
        return out

    # --- merge ---------------------------------------------------------------------------

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
        self.set_peers(dict.fromkeys((*self.peers, *other.peers)))
        order = [other.peers.index(p) if p in other.peers else -1 for p in self.peers]
        if other._begun and not self._begun:
            self._begin(other.competence.decayed.origin)
        now = max(self.now, other.now)
        self._advance(now)
        self.competence.merge(other.competence.take(order), now)
        self.wrong_answers.merge(other.wrong_answers, now)
        self.relation.merge(other.relation.take(order), now)
        self.readability.decayed.merge(other.readability.take(order).decayed, now)
        self.features.decayed.merge(other.features.decayed, now)
        self.confidence.decayed.merge(other.confidence.decayed, now)
        self.horizons.merge(other.horizons.take(order), now)
        if self.mixing is not None and other.mixing is not None:
            self.mixing.merge(other.mixing.take(order), now)
        if self.agreement is not None and other.agreement is not None:
            self.agreement.merge(other.agreement.take(order), now)
        if self.copies is not None and other.copies is not None:
            self.copies.decayed.merge(other.copies.take(order).decayed, now)
        if other.topics is not None:
            if self.topics is None:
                self.topics, self._due = self._new_topics(), -math.inf
            self.topics.merge(other.topics.take(order), now)
        self.clock = max(self.clock, other.clock)
        self._overall_known = None

    # --- snapshot ------------------------------------------------------------------------

    def pack(self) -> dict[str, FloatArray]:
        """Everything but peers and settings, bit for bit, for a snapshot."""
        out = {"clock": np.array([float(self.clock), self.now, float(self._begun), self._ahead])}
        for name, part in self._packable().items():
            out.update({f"{name}.{key}": value for key, value in part.pack().items()})
        return out

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from what `pack` returned for a state of the same peers, rank and settings."""
        clock, self.now, begun, *ahead = packed["clock"].tolist()
        self._ahead = ahead[0] if ahead else math.inf  # version 0.1 doubts no clock
        self.clock, self._begun, self._due = int(clock), bool(begun), -math.inf
        self._overall_known = None
        self.topics = self._new_topics() if "topics.names" in packed else None
        for name, part in self._packable().items():
            part.unpack({key.partition(".")[2]: x for key, x in packed.items() if key.startswith(name + ".")})

    def _packable(self) -> dict[str, Competence | DecayedSum | Mixing | Relation | Topics]:
        parts: dict[str, Competence | DecayedSum | Mixing | Relation | Topics] = {
            **self._other_sums(),
            **self._competences(),
            "relation": self.relation,
        }
        if self.topics is not None:
            parts["topics"] = self.topics
        return parts if self.mixing is None else {**parts, "mixing": self.mixing}

    def _sums(self) -> list[DecayedSum]:
        """Everything that decays."""
        kept = [decayed for part in self._competences().values() for decayed in part.by_rate]
        mixing = [] if self.mixing is None else [self.mixing.decayed]
        topics = [] if self.topics is None else self.topics.sums()
        return [*kept, *self._other_sums().values(), *mixing, *topics]

    def _other_sums(self) -> dict[str, DecayedSum]:
        return {
            "relation": self.relation.decayed,
            "readability": self.readability.decayed,
            "features": self.features.decayed,
            "confidence": self.confidence.decayed,
            **self.horizons.decayed(),
            **({} if self.copies is None else {"copies": self.copies.decayed}),
        }

    def _competences(self) -> dict[str, Competence]:
        parts = {"competence": self.competence, "wrong_answers": self.wrong_answers}
        return parts if self.agreement is None else {**parts, "agreement": self.agreement}


def _taken_apart(c: FloatArray, departed: Sequence[float]) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Labels with 0 for the missing, 1 where there is a label, q, and how many labels there are."""
    total = np.add.reduce(c)
    if total == total and len(c) > 1 and not departed:  # no NaN: everyone is labelled, as most often
        return c, _ones(len(c)), c - total / len(c), len(c)
    there = c == c  # NaN differs from itself
    n = int(np.count_nonzero(there)) + len(departed)
    return np.where(there, c, 0.0), there.astype(np.float64), centred(c, departed), n


@lru_cache
def _ones(n: int) -> FloatArray:
    ones = np.ones(n)
    ones.flags.writeable = False
    return ones


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
