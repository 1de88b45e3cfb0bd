"""The lines of a ledger: what each kind holds, how a peer is renamed in it, what is left when forgotten.

What a decision records of peers is in the order of its pool, so that names stand in one place. Numbers that
were claimed (p̂, what each read chose) are taken from the line, not computed again, so that live and replay
agree bit for bit. φ is float32, claims are float16 and scores float64, each as raw little-endian bytes.

A later version may add fields at the end of a body, with defaults.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeGuard, TypeVar

import msgspec
import numpy as np
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from sigma_mem.answers.features import FEATURES_VERSION
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.memory.ballots import VOTES

Names = Mapping[str, str]  # of peers: what each is called instead
NOT_ASKED, UNREADABLE = -2, -1  # groups of peers whose answers equal nobody's
_PHI, _SCORES, _CLAIMS, _FEATURES = np.dtype("<f4"), np.dtype("<f8"), np.dtype("<f2"), np.dtype("<i4")
_FEATURE_UNIT = 1e4  # text features have four decimals
_MOST = 10.0  # times what a call was expected to cost: more is an outlier, or a lie


def _renamed_keys(by_peer: dict[str, Any], names: Names) -> dict[str, Any]:
    return {names.get(peer, peer): value for peer, value in by_peer.items()} if by_peer else by_peer


def _own(value: Any) -> Any:
    """A copy of mappings and lists, which callers may change; the ledger's stay as they are."""
    if isinstance(value, Mapping):
        return {key: _own(inner) for key, inner in value.items()}
    return [_own(inner) for inner in value] if isinstance(value, list | tuple) else value


class Body(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a line holds, apart from its kind, id and event.

    ``of_peer`` names the fields that hold a peer or None, and ``by_peer`` those that map peers to something.
    """

    of_peer: ClassVar[tuple[str, ...]] = ()
    by_peer: ClassVar[tuple[str, ...]] = ()

    def renamed(self, names: Names) -> Self:
        """The same with other names of peers."""
        changed = {name: names.get(getattr(self, name), getattr(self, name)) for name in self.of_peer}
        return replace(self, **changed, **{x: _renamed_keys(getattr(self, x), names) for x in self.by_peer})

    def left(self) -> ForgottenLine | None:
        """What is left of the line of a forgotten event; None for a line that belongs to none."""
        return None

    def texts(self) -> Iterator[str]:
        """Every text that a caller or a peer wrote."""
        return iter(())

    def refuse_other_sizes(self) -> None:
        """ValueError if parts do not fit each other, as in an export that somebody changed."""


class Charge(NamedTuple):
    """What an event is charged for a call to a peer: the real cost, or what was expected."""

    amount: float
    base: float  # what it would cost by the price alone; 0 without one
    time: float
    tick: float
    expected: float
    budget: tuple[str, int] | None = None  # its name and period
    real: bool = False
    weight: float = 1.0  # of the source that reported the real cost

    @property
    def counted(self) -> float:
        """What is booked: if a source weighs little, little of the difference that it reports."""
        return (
            self.amount if self.weight == 1.0 else self.expected + self.weight * (self.amount - self.expected)
        )

    @property
    def ratio(self) -> float:
        """The real cost over the price, as far as one report can make it plausible."""
        return min(self.amount, _MOST * max(self.expected, self.base)) / self.base

    def reported(self, cost: float, weight: float | None) -> Charge:
        """The same with its real cost; that of a source that is not trusted is bounded, and weighs less."""
        if weight is None:
            return self._replace(amount=cost, real=True, weight=1.0)
        return self._replace(amount=min(cost, _MOST * self.base or math.inf), real=True, weight=weight)


class PacedDecision(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How a decision counts in a budget: p̂, its deviation and the cost of every candidate, by peer."""

    at: dict[str, tuple[float, float, float]]
    budget: str | None = None
    period: int = 0

    @classmethod
    def of(cls, pacing: Mapping[str, Any]) -> PacedDecision:
        """How a route within a budget records it."""
        at = {peer: tuple(values) for peer, values in pacing["at"].items()}
        return cls(at, pacing.get("budget"), pacing.get("period", 0))

    def renamed(self, names: Names) -> PacedDecision:
        """The same with other names of peers."""
        return replace(self, at=_renamed_keys(self.at, names))


class PanelPlace(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The state of a panel: the peer it asks next, the chance of a change, and the answer that was added."""

    next: str | None
    change: float
    added: tuple[str, str, str | None] | None = None  # peer, text, canon; None if no text is kept
    planned: int | None = None
    fair: tuple[str, ...] | None = None

    @classmethod
    def of(cls, noted: Mapping[str, Any]) -> PanelPlace:
        """The step that a decision's details describe."""
        fair = noted.get("fair")
        return cls(
            noted["next"],
            noted["change"],
            tuple(noted["added"]),
            noted.get("planned"),
            None if fair is None else tuple(fair),
        )

    def details(self) -> dict[str, Any]:
        """The step as a decision's details have it."""
        given = {name: value for name, value in asdict(self).items() if value is not None or name == "next"}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}

    def renamed(self, names: Names) -> PanelPlace:
        """The same with other names of peers."""
        peer, *answer = self.added or ("",)
        return replace(
            self,
            next=None if self.next is None else names.get(self.next, self.next),
            added=None if self.added is None else (names.get(peer, peer), *answer),
            fair=None if self.fair is None else tuple(names.get(each, each) for each in self.fair),
        )


class OpenLine(Body, tag=0, frozen=True):
    """What a memory is made of: its first line."""

    peers: tuple[str, ...]
    rank: int
    settings: Settings
    encoder: dict[str, str]  # name and version
    keep_text: bool  # whether texts are kept
    time: float = 0.0


class DecisionLine(Body, tag=1, frozen=True):
    """A decision.

    Attributes
    ----------
    now, tick, time : float
        The places of the memory and the event on the decay axis, and seconds since 1970.
    peers : tuple of str
        The pool, by the names of that time; everything by peer is in this order.
    peer : int, optional
        Place of the peer that was chosen.
    scores : bytes
        φᵀM_pφ, p̂ and effective sample size, float64 (3, P).
    labelled : tuple of int
        On how many events each peer was labelled; a single one if all are equal.
    groups, canons : tuple
        Which answers are equal, numbered in order: −1 for one that cannot be read, −2 for a peer that was not
        asked, () for a route. The canon of each group, () if no text is kept.
    features, described : bytes, tuple of int
        Text features in units of 10⁻⁴, int32 (answers, S), of the peers at these places; with their version.
    votes : bytes
        For a mixture of votes, what every answer weighs in each of them, float16 (votes, answers).
    claims, topic_claims, agreement : bytes
        What was claimed of every peer, (P, K), by every share of its topics, (P, B), and agreement labels,
        (P,), if these depend on which peers copy; float16, b"" if there are none.
    certain, certainty : int, bytes
        What was claimed of the answer of the peer at this place, and the mixture of the claims, float64.
    costs : dict
        What a call to each peer that is asked will cost, and what it would cost by its price alone.
    verdicts : dict
        The verdicts of judges: the score of every peer's answer, float64 (P,), NaN for none.
    written : tuple
        What every peer wrote, if that is neither `answer` nor its canon; () if no text is kept.
    """

    now: float
    tick: float
    time: float
    read: str
    peers: tuple[str, ...]
    peer: int | None
    phi: bytes
    scores: bytes
    labelled: tuple[int, ...]
    confidence: float
    propensity: float
    question: str | None = None
    answer: str | None = None
    groups: tuple[int, ...] = ()
    canons: tuple[str, ...] = ()
    features_version: int = 0
    described: tuple[int, ...] = ()
    features: bytes = b""
    votes: bytes = b""
    claims: bytes = b""
    agreement: bytes = b""
    certain: int = -1
    certainty: bytes = b""
    ref: str | None = None
    topics: tuple[str, ...] = ()
    topic_claims: bytes = b""
    costs: dict[str, tuple[float, float]] = {}
    pacing: PacedDecision | None = None
    panel: PanelPlace | None = None
    details: dict[str, Any] = {}
    verdicts: dict[str, bytes] = {}
    written: tuple[str | None, ...] = ()

    def refuse_other_sizes(self) -> None:
        """ValueError if something by peer has another number of peers."""
        n = len(self.peers)
        places = (0 if self.peer is None else self.peer, *self.described, self.certain)
        if (
            len(self.scores) != 24 * n
            or len(self.phi) % 4
            or len(self.groups) not in (0, n)
            or len(self.written) not in (0, n)
            or len(self.claims) % (2 * n)
            or len(self.topic_claims) % (2 * n)
            or len(self.agreement) not in (0, 2 * n)
            or len(self.votes) not in (0, 2 * len(VOTES) * (max(self.groups, default=-1) + 1))
            or len(self.labelled) not in (1, n)
            or len(self.certainty) % 8
            or any(len(scores) != 8 * n for scores in self.verdicts.values())
            or len(self.features) % (4 * max(1, len(self.described)))
            or (self.canons and max(self.groups, default=-1) >= len(self.canons))
            or max(places) >= n
            or min(places) < -1
        ):
            raise ValueError(f"what a decision records of its {n} peers has another size")

    @property
    def chosen(self) -> str | None:
        """The peer that was chosen."""
        return None if self.peer is None else self.peers[self.peer]

    @property
    def asks_on(self) -> bool:
        """Whether this is a step of a panel that continues: its answer is not the outcome."""
        return self.panel is not None and self.panel.next is not None

    def same_answers(self, other: DecisionLine) -> bool:
        """Whether the same peers gave answers that are equal in the same way."""
        return (self.peers, self.groups) == (other.peers, other.groups)

    def direction(self) -> FloatArray:
        """φ, as an array of its own."""
        return np.frombuffer(self.phi, _PHI).astype(np.float64)

    def read_of_peers(self) -> FloatArray:
        """Scores, p̂ and effective sample sizes, (3, P), to read."""
        return np.frombuffer(self.scores, _SCORES).reshape(3, -1)

    def vote_totals(self) -> NDArray[np.float16]:
        """What every answer weighs in each vote, (votes, answers), to read."""
        return np.frombuffer(self.votes, _CLAIMS).reshape(len(VOTES), -1)

    def feature_rows(self) -> FloatArray:
        """Text features of the answers that are described, (answers, S)."""
        raw = np.frombuffer(self.features, _FEATURES)
        return (raw / _FEATURE_UNIT).reshape(len(self.described), -1)

    def sureness(self) -> FloatArray:
        """What was claimed of the answer, then the mixture of the claims."""
        return np.frombuffer(self.certainty, _SCORES)

    def verdict_scores(self) -> dict[str, FloatArray]:
        """The verdicts of judges: the score of every peer's answer, NaN for none, to read."""
        return {judge: np.frombuffer(raw, _SCORES) for judge, raw in self.verdicts.items()}

    def canons_by_peer(self) -> dict[str, str | None]:
        """Canonical answers of the peers that were asked; numbers if no text is kept."""
        return {
            peer: None if group < 0 else self.canons[group] if self.canons else str(group)
            for peer, group in zip(self.peers, self.groups, strict=False)
            if group != NOT_ASKED
        }

    def answers_by_peer(self) -> dict[str, str]:
        """What peers wrote, as far as texts are kept."""
        kept = {
            peer: canon for peer, canon in self.canons_by_peer().items() if self.canons and canon is not None
        }
        kept |= {peer: text for peer, text in zip(self.peers, self.written, strict=False) if text is not None}
        return kept if self.answer is None or self.chosen is None else {**kept, self.chosen: self.answer}

    def field(self, name: str) -> Any:
        """A field of the `Decision`: arrays by the names of peers, and what else its caller may change."""
        match name:
            case "phi":
                return self.direction()
            case "scores" | "probs" | "effective":
                row = self.read_of_peers()[("scores", "probs", "effective").index(name)]
                return dict(zip(self.peers, row.tolist(), strict=True))
            case "canons":
                return self.canons_by_peer()
            case "features":  # none if another version of them was recorded
                known = self.described if self.features_version == FEATURES_VERSION else ()
                rows = self.feature_rows().tolist() if known else ()
                return {self.peers[i]: row for i, row in zip(known, rows, strict=True)}
            case "verdicts":
                given = self.verdict_scores().items()
                by_judge = {judge: zip(self.peers, said.tolist(), strict=True) for judge, said in given}
                return {judge: {peer: u for peer, u in said if u == u} for judge, said in by_judge.items()}
            case _:
                return self._details()

    def _details(self) -> dict[str, Any]:
        """The details, with the step of a panel and what each vote of a mixture chose."""
        details: dict[str, Any] = _own(self.details)
        if self.panel is not None:
            details["panel"] = self.panel.details()
        if self.votes:
            details["votes"] = self.chosen_by_vote()
        return details

    def chosen_by_vote(self) -> dict[str, str]:
        """For a mixture of votes, a peer that gave the answer that each of them alone would have chosen."""
        if not self.votes:
            return {}
        best = self.vote_totals().argmax(axis=1).tolist()
        return {vote: self.peers[self.groups.index(group)] for vote, group in zip(VOTES, best, strict=True)}

    def events_of(self, peer: str) -> int:
        """On how many events a peer was labelled."""
        place = self.peers.index(peer)
        return self.labelled[place if len(self.labelled) > 1 else 0]

    def renamed(self, names: Names) -> DecisionLine:
        """The same with other names of peers."""
        return replace(
            self,
            peers=tuple(names.get(peer, peer) for peer in self.peers),
            costs=_renamed_keys(self.costs, names),
            pacing=None if self.pacing is None else self.pacing.renamed(names),
            panel=None if self.panel is None else self.panel.renamed(names),
        )

    def without_texts(self) -> DecisionLine:
        """What is kept of it if no text is."""
        panel = None if self.panel is None else replace(self.panel, added=None)
        return replace(self, question=None, answer=None, canons=(), written=(), panel=panel)

    def left(self) -> ForgottenLine:
        """Its time, its place on the decay axis, and how it counts in a budget."""
        return ForgottenLine(self.time, self.tick, self.now, self.pacing)

    def texts(self) -> Iterator[str]:
        """Question, answers and canons, the answer that a panel took, topics and ref."""
        added = () if self.panel is None or self.panel.added is None else self.panel.added[1:]
        found = (self.question, self.answer, *self.canons, *self.written, *added, *self.topics, self.ref)
        return (text for text in found if text)


class FeedbackLine(Body, tag=2, frozen=True):
    """Labels of one source, at the event's place on the decay axis.

    What a source that is not trusted was worth at that time is kept with them: its weight, its reliability,
    its overlap with the sources before it, and whether a trusted one had labelled the event (``told``).
    ``own`` is the id of feedback that amends: its line has another one.
    """

    by_peer = ("labels",)

    labels: dict[str, float]
    source: str
    tick: float
    time: float
    amends: bool = False
    own: str | None = None
    weight: float | None = None
    reliability: float | None = None
    overlap: dict[str, float] = {}
    told: bool = False

    def left(self) -> ForgottenLine:
        """Its time, and the place of its event on the decay axis."""
        return ForgottenLine(self.time, self.tick)


class RefLine(Body, tag=3, frozen=True):
    """The caller's own name of an event: the line's id, so that a store finds it and keeps it unique."""

    def left(self) -> ForgottenLine:
        """Nothing but that there was one."""
        return ForgottenLine(0.0)


class ServedLine(Body, tag=4, frozen=True):
    """Which peer really answered the task of a decision; the last such line of a decision counts.

    ``expected`` has what its call was expected to cost, and what it would cost by its price alone. A peer
    that only gave one of the answers of a vote was called all the same; ``chosen``, the choice of a route,
    was not. A source that is not trusted has the weight that it had then; None is the program that holds the
    memory. ``answer`` is what was served, if texts are kept.
    """

    of_peer = ("peer", "chosen")

    decision: str
    peer: str
    time: float
    expected: tuple[float, float]
    chosen: str | None = None
    cost: float | None = None
    latency: float | None = None
    source: str | None = None
    weight: float | None = None
    answer: str | None = None

    def left(self) -> ForgottenLine:
        """When it was."""
        return ForgottenLine(self.time)

    def texts(self) -> Iterator[str]:
        """The answer."""
        return iter(() if self.answer is None else (self.answer,))


class PriceLine(Body, tag=5, frozen=True):
    """The price of a peer, from now on; the fields are those of `Price`."""

    of_peer = ("peer",)

    peer: str
    price: dict[str, float | None]
    time: float


class PeerLine(Body, tag=6, frozen=True):
    """A peer joins or leaves the pool; it returns only if asked explicitly.

    One that joins may start from a share of what is known of another, which it is `like`.
    """

    of_peer = ("peer", "like")

    peer: str
    joins: bool
    time: float
    returning: bool = False
    like: str | None = None
    share: float = 0.0

    @property
    def keep(self) -> float:
        """The share of the peer's record that stays."""
        return 0.0 if self.returning else 1.0


class ResetLine(Body, tag=7, frozen=True):
    """A peer was updated under its name: only a share of its record stays."""

    of_peer = ("peer",)

    peer: str
    keep: float
    time: float


class RenameLine(Body, tag=8, frozen=True):
    """A peer has another name from here on, or another peer takes its place with a share of its record."""

    of_peer = ("peer",)

    peer: str
    becomes: str
    keep: float
    time: float


class RevokeLine(Body, tag=9, frozen=True):
    """All reports of a source are taken back, or count again, by the line's kind."""

    of: str
    time: float


class ForgetLine(Body, tag=10, frozen=True):
    """Events were forgotten; their lines keep their places only."""

    events: tuple[str, ...]
    time: float


class ForgottenLine(Body, tag=11, frozen=True):
    """What is left of a forgotten line: when it was, its place on the decay axis, and what it cost."""

    time: float
    tick: float | None = None
    now: float | None = None
    pacing: PacedDecision | None = None
    charges: dict[str, Charge] = {}

    def renamed(self, names: Names) -> ForgottenLine:
        """The same with other names of peers."""
        return replace(
            self,
            pacing=None if self.pacing is None else self.pacing.renamed(names),
            charges=_renamed_keys(self.charges, names),
        )


B = TypeVar("B", bound=Body, covariant=True)


class Line(NamedTuple, Generic[B]):
    """One line of a ledger."""

    kind: str
    id: str  # unique within (namespace, kind)
    event: str  # the event it belongs to, "" if it belongs to none
    body: B
    seq: int = 0  # position in the ledger, given when it is appended

    @property
    def is_forgotten(self) -> bool:
        """Whether only the place of this line is left."""
        return type(self.body) is ForgottenLine


def is_decision(line: Line[Body]) -> TypeGuard[Line[DecisionLine]]:
    """Whether a line is a decision that was not forgotten."""
    return type(line.body) is DecisionLine


def is_feedback(line: Line[Body]) -> TypeGuard[Line[FeedbackLine]]:
    """Whether a line is feedback that was not forgotten."""
    return type(line.body) is FeedbackLine


def renamed(line: Line[B], names: Names) -> Line[B]:
    """A line in which peers have other names."""
    return line._replace(body=line.body.renamed(names))


# --- lines with the ids that they have ---------------------------------------------------


def open_line(opening: OpenLine, time: float) -> Line[OpenLine]:
    """The first line of a ledger."""
    return Line("open", "open", "", replace(opening, time=time))


def ref_line(ref: str, event: str) -> Line[RefLine]:
    """The caller's own name of an event."""
    return Line("ref", ref, event, RefLine())


def peer_line(
    peer: str,
    joins: bool,
    time: float,
    number: int,
    returning: bool = False,
    like: str | None = None,
    share: float = 0.0,
) -> Line[PeerLine]:
    """A peer joins or leaves the pool, as its change `number`."""
    body = PeerLine(peer, joins, time, returning, like, share)
    return Line("peer", f"{number}{'+' if joins else '-'}{peer}", "", body)


def reset_line(peer: str, keep: float, number: int, time: float) -> Line[ResetLine]:
    """A peer was updated under its name, as change `number` of the pool."""
    return Line("reset", f"{number} {peer}", "", ResetLine(peer, keep, time))


def rename_line(peer: str, becomes: str, keep: float, number: int, time: float) -> Line[RenameLine]:
    """A peer has another name or a successor, as change `number` of the pool."""
    return Line("rename", f"{number} {peer}", "", RenameLine(peer, becomes, keep, time))


def revoke_line(source: str, id: str, time: float, undo: bool = False) -> Line[RevokeLine]:
    """A source is revoked or, with `undo`, accepted again."""
    return Line("unrevoke" if undo else "revoke", id, "", RevokeLine(source, time))


# --- arrays ------------------------------------------------------------------------------


def single_precision(phi: FloatArray) -> FloatArray:
    """φ as a ledger keeps it; rounded before it is used, so that replay is exact."""
    return phi.astype(np.float32).astype(np.float64)


def phi_bytes(phi: FloatArray) -> bytes:
    """Raw float32 of a vector."""
    return phi.astype(_PHI).tobytes()


def score_bytes(values: Sequence[float] | Sequence[FloatArray] | FloatArray) -> bytes:
    """Raw float64 of numbers."""
    return np.array(values, _SCORES).tobytes()


def claim_bytes(values: NDArray[Any]) -> bytes:
    """Raw float16 of numbers."""
    return values.astype(_CLAIMS, copy=False).tobytes()


def claims_in(raw: bytes, n_peers: int) -> NDArray[np.float16]:
    """The numbers of `claim_bytes`, a row for each peer, to read."""
    return np.frombuffer(raw, _CLAIMS).reshape(n_peers, -1)


def feature_bytes(rows: Sequence[Sequence[float]]) -> bytes:
    """Text features in units of 10⁻⁴."""
    return np.rint(np.array(rows) * _FEATURE_UNIT).astype(_FEATURES).tobytes()
