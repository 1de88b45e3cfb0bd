"""What a memory consists of: its decayed sums, their clock, and what is done to all of them alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory.competence import Competence
from sigma_mem.memory.competition import Readability, WrongAnswers
from sigma_mem.memory.confidence import Confidence
from sigma_mem.memory.copies import Copies
from sigma_mem.memory.decayed import DecayedSum
from sigma_mem.memory.features import TextFeatures
from sigma_mem.memory.rates import RateReading, Rates, fast_horizon
from sigma_mem.memory.regression import Regression
from sigma_mem.memory.relation import Relation
from sigma_mem.memory.settings import Settings
from sigma_mem.memory.topics import Topics

_HARDLY = 1e-3  # ticks, beyond any rounding of where an anchor moves
_FAR_AHEAD = 30.0  # half-lives, after which nothing would be left of what was learned


class OfPeers(Protocol):
    """A part that holds something of every peer."""

    def take(self, order: Sequence[int]) -> Any:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""

    def scale(self, factors: FloatArray) -> None:
        """Keep a share of what is known of every peer, (P,)."""

    def merge(self, other: Any, now: float) -> None:
        """Add what another part of the same peers holds at `now`."""


class Packable(Protocol):
    """A part that a snapshot holds."""

    def pack(self) -> dict[str, FloatArray]:
        """Everything it holds, bit for bit."""

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from packed arrays."""


class Known(NamedTuple):
    """What a read needs that depends neither on φ nor on the time since the last label."""

    rates: RateReading
    fresh: Sequence[FloatArray]  # factors of M and N at the slowest rate, and at the fast one, (P,) each
    weights: FloatArray  # of the regression, (P, rank)
    moved: FloatArray | None  # by which agreement moves every peer's prior, (P,); None where none was seen
    believed: float  # how far it counts where peers agree


class StateParts:
    """The sums of a pool of peers at a clock; `SigmaState` reads and writes them."""

    def __init__(
        self, peers: Sequence[str], rank: int, settings: Settings | None = None, n_features: int = 0
    ) -> None:
        self.peers: tuple[str, ...] = _checked_peers(peers)
        if rank < 1:
            raise InputError(f"rank is {rank}; expected at least 1")
        self.rank = rank
        self.settings = settings or Settings()
        self._eta = self.settings.step
        self._strength = self.settings.local_strength(len(self.peers))
        self.clock = 0  # decided events
        self.now = 0.0  # where the memory stands on its decay axis
        self._begun = self.settings.decay != "time"
        self._ahead = math.inf  # the last clock reading, if it was doubted
        self._due = -math.inf  # before this no part's anchor moves
        self._known: Known | None = None  # until something is written
        rate = self.settings.rate
        rates = self.settings.horizon_rates
        several = len(rates) > 1
        fast = [rates[fast_horizon(len(rates))]] if several else []
        self.competence = Competence(len(self.peers), rank, rate, *fast)
        self.relation = Relation(len(self.peers), self.settings.rate_g)
        self.wrong_answers = WrongAnswers(rank, rate)
        self.readability = Readability(len(self.peers), rate)
        self.features = TextFeatures(n_features, rate)
        self.rates = Rates(len(self.peers), rates, self.settings.n_claims, self.settings.mixing_rate)
        self.regression = Regression(len(self.peers), rank, rate) if self.settings.regression else None
        self.confidence = Confidence(rate)
        # Without decay: were it forgotten, one event after a pause would outweigh all that came before.
        self.agreement = Competence(len(self.peers), rank, 0.0) if self.settings.agreement else None
        self.topics: Topics | None = None  # until an event with a topic is labelled
        self.copies = Copies(len(self.peers), rate) if self.settings.agreement else None
        self.agreed_features = TextFeatures(n_features, rate) if self.settings.agreement else None

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
        self._ahead = time if self._doubted(time) else math.inf
        self.clock += 1
        if not self._begun:
            self._begin(time)
        self._advance(tick if tick > self.now else self.now)
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

    def sync_clock(self, other: StateParts) -> None:
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

    @property
    def due(self) -> float:
        """A tick before which no anchor moves, and hardly less than the one at which the first does."""
        return min(decayed.moves_at for decayed in self._sums()) - _HARDLY

    def _advance(self, now: float) -> None:
        self.now = now
        if now >= self._due:
            sums = self._sums()
            for decayed in sums:
                decayed.advance(now)
            self._due = min(decayed.due for decayed in sums)
            self._known = None  # its factors are relative to anchors

    # --- peers ---------------------------------------------------------------------------

    def add_peer(self, peer: str) -> None:
        """Take a new peer into the pool, last in order, with nothing known of it."""
        self.relation.fold_window()
        self.set_peers((*self.peers, peer))

    def remove_peer(self, peer: str) -> None:
        """Forget a peer; what is known of the others stays."""
        if peer not in self.peers:
            raise InputError(f"peer {peer!r} is not in the pool {list(self.peers)}")
        if len(self.peers) == 1:
            raise InputError(f"peer {peer!r} is the last one; a memory needs at least one peer")
        self.relation.fold_window()
        self.set_peers([name for name in self.peers if name != peer])

    def set_peers(self, peers: Iterable[str]) -> None:
        """Make this the pool, in this order: forget who is not in it, know nothing yet of who is new."""
        names = _checked_peers(peers)
        order = [self.peers.index(name) if name in self.peers else -1 for name in names]
        for name, part in self._of_peers().items():
            setattr(self, name, part.take(order))
        self.peers, self._strength = names, self.settings.local_strength(len(names))
        self._known = None

    def rename_peer(self, peer: str, name: str) -> None:
        """Give a peer another name."""
        self.peers = _checked_peers(name if known == peer else known for known in self.peers)

    def scale_peers(self, shares: Sequence[float]) -> None:
        """Keep only a share of what is known of each peer: of M, N and what else belongs to it.

        What two peers have in common (G, copies) keeps the product of their shares; what belongs to the pool
        (K, text features, confidence, the level of agreement) stays.
        """
        factors = np.array(shares, dtype=np.float64)
        for part in self._of_peers().values():
            part.scale(factors)
        self._known = None

    # --- merge ---------------------------------------------------------------------------

    def merge(self, other: StateParts) -> None:
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
        self.wrong_answers.merge(other.wrong_answers, now)
        self.features.decayed.merge(other.features.decayed, now)
        if self.agreed_features is not None and other.agreed_features is not None:
            self.agreed_features.decayed.merge(other.agreed_features.decayed, now)
        self.confidence.decayed.merge(other.confidence.decayed, now)
        if self.topics is None and other.topics is not None:
            self.topics, self._due = self._new_topics(), -math.inf
        theirs = other._of_peers()
        for name, part in self._of_peers().items():
            if name in theirs:
                part.merge(theirs[name].take(order), now)
        self.clock = max(self.clock, other.clock)
        self._known = None

    # --- snapshot ------------------------------------------------------------------------

    def pack(self) -> dict[str, FloatArray]:
        """Everything but peers and settings, bit for bit, for a snapshot."""
        out = {"clock": np.array([float(self.clock), self.now, float(self._begun), self._ahead])}
        for name, part in self._packable().items():
            out.update({f"{name}.{key}": value for key, value in part.pack().items()})
        return out

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from what `pack` returned for a state of the same peers, rank and settings."""
        clock, self.now, begun, self._ahead = packed["clock"].tolist()
        self.clock, self._begun, self._due = int(clock), bool(begun), -math.inf
        self._known = None
        self.topics = self._new_topics() if "topics.names" in packed else None
        for name, part in self._packable().items():
            part.unpack({key.partition(".")[2]: x for key, x in packed.items() if key.startswith(name + ".")})

    def _of_peers(self) -> dict[str, OfPeers]:
        """What is known of every peer, by the names of attributes."""
        parts: dict[str, OfPeers | None] = {
            "competence": self.competence,
            "relation": self.relation,
            "readability": self.readability,
            "rates": self.rates,
            "regression": self.regression,
            "agreement": self.agreement,
            "copies": self.copies,
            "topics": self.topics,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def _packable(self) -> dict[str, Packable]:
        parts: dict[str, Packable] = {
            **self._other_sums(),
            **self._competences(),
            "relation": self.relation,
            "rates": self.rates,
        }
        some: dict[str, Packable | None] = {
            "topics": self.topics,
            "regression": self.regression,
        }
        return parts | {name: part for name, part in some.items() if part is not None}

    def _sums(self) -> list[DecayedSum]:
        """Everything that decays."""
        kept = [decayed for part in self._competences().values() for decayed in part.by_rate]
        regression = [] if self.regression is None else [self.regression.decayed]
        topics = [] if self.topics is None else self.topics.sums()
        return [*kept, *self._other_sums().values(), *regression, *topics]

    def _other_sums(self) -> dict[str, DecayedSum]:
        return {
            "relation": self.relation.decayed,
            "readability": self.readability.decayed,
            "features": self.features.decayed,
            "confidence": self.confidence.decayed,
            **({} if self.copies is None else {"copies": self.copies.decayed}),
            **({} if self.agreed_features is None else {"agreed_features": self.agreed_features.decayed}),
        }

    def _competences(self) -> dict[str, Competence]:
        parts = {"competence": self.competence, "wrong_answers": self.wrong_answers}
        return parts if self.agreement is None else {**parts, "agreement": self.agreement}

    def _new_topics(self) -> Topics:
        """Topics of which nothing is known, at this place of the decay axis."""
        topics = Topics(len(self.peers), self.rank, self.settings.rate, self.settings.topic_mixing_rate)
        for decayed in topics.sums():
            decayed.origin = self.competence.decayed.origin
            decayed.advance(self.now)
        return topics


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
