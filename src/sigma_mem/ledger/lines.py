"""The lines of a ledger: what each kind holds, how a peer is renamed in it, what is left when forgotten.

What a decision says of peers is in the order of its pool, so that names stand in one place. Numbers that were
claimed (p̂, what each read chose) are taken from the line, not computed again, so that live and replay agree
bit for bit. φ is float32, claims are float16 and scores float64, each as raw little-endian bytes.

A later version may add fields at the end of a body, with defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeGuard, TypeVar

import msgspec
import numpy as np
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings

Names = Mapping[str, str]  # of peers: what each is called instead
NOT_ASKED, UNREADABLE = -2, -1  # groups of peers whose answers equal nobody's
_PHI, _SCORES, _CLAIMS, _FEATURES = np.dtype("<f4"), np.dtype("<f8"), np.dtype("<f2"), np.dtype("<i4")
_FEATURE_UNIT = 1e4  # text features have four decimals


def _renamed_keys(by_peer: dict[str, Any], names: Names) -> dict[str, Any]:
    return {names.get(peer, peer): value for peer, value in by_peer.items()} if by_peer else by_peer


class Body(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a line says, apart from its kind, id and event.

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
        """ValueError where parts do not fit each other, as in an export that somebody changed."""


class Charge(NamedTuple):
    """What an event is charged for a call to a peer: the real cost, or what was expected."""

    amount: float
    base: float  # what the price alone said; 0 without one
    time: float
    tick: float
    expected: float
    budget: tuple[str, int] | None = None  # its name and period
    real: bool = False


class PacedDecision(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How a decision counts in a budget: p̂, its deviation and the cost of every candidate, by peer."""

    at: dict[str, tuple[float, float, float]]
    budget: str | None = None
    period: int = 0

    def renamed(self, names: Names) -> PacedDecision:
        """The same with other names of peers."""
        return replace(self, at=_renamed_keys(self.at, names))


class PanelPlace(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Where a panel stood: whom it asks next, the chance of a change, and the answer that was added."""

    next: str | None
    change: float
    added: tuple[str, str, str | None] | None = None  # peer, text, canon; None where no text is kept
    planned: int | None = None
    fair: tuple[str, ...] | None = None

    @classmethod
    def of(cls, noted: Mapping[str, Any], keep_text: bool) -> PanelPlace:
        """The step that a decision's details describe."""
        fair, added = noted.get("fair"), noted.get("added") if keep_text else None
        return cls(
            noted["next"],
            noted["change"],
            None if added is None else tuple(added),
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
        Where the memory and the event stood on the decay axis, and seconds since 1970.
    peers : tuple of str
        The pool, by the names of that time; everything by peer is in this order.
    peer : int, optional
        Place of the peer that was chosen.
    scores : bytes
        φᵀM_pφ, p̂ and effective sample size, float64 (3, P).
    labelled : tuple of int
        On how many events each peer was labelled; a single one where all are equal.
    groups, canons : tuple
        Which answers are equal, numbered in order: −1 for one that cannot be read, −2 for a peer that was not
        asked, () for a route. The canon of each group, () where no text is kept.
    features, described : bytes, tuple of int
        Text features in units of 10⁻⁴, int32 (answers, S), of the peers at these places; with their version.
    reads : dict
        For an adaptive decision, the place of the peer that every read chose.
    claims, topic_claims, agreement : bytes
        What was claimed of every peer, (P, K), by every share of its topics, (P, B), and agreement labels,
        (P,), where these depend on who copies whom; float16, b"" where there are none.
    certain, certainty : int, bytes
        What was claimed of the answer of the peer at this place: of every temperature, and their mixture,
        float64.
    costs : dict
        What a call to each peer that is asked will cost, and what its price alone says.
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
    reads: dict[str, int] = {}
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

    def refuse_other_sizes(self) -> None:
        """ValueError where something by peer is not of as many peers as there are."""
        n = len(self.peers)
        places = (0 if self.peer is None else self.peer, *self.described, *self.reads.values(), self.certain)
        if (
            len(self.scores) != 24 * n
            or len(self.phi) % 4
            or len(self.groups) not in (0, n)
            or len(self.claims) % (2 * n)
            or len(self.topic_claims) % (2 * n)
            or len(self.agreement) not in (0, 2 * n)
            or len(self.labelled) not in (1, n)
            or len(self.certainty) % 8
            or len(self.features) % (4 * max(1, len(self.described)))
            or (self.canons and max(self.groups, default=-1) >= len(self.canons))
            or max(places) >= n
            or min(places) < -1
        ):
            raise ValueError(f"what a decision says of its {n} peers has another size")

    @property
    def chosen(self) -> str | None:
        """The peer that was chosen."""
        return None if self.peer is None else self.peers[self.peer]

    @property
    def asks_on(self) -> bool:
        """Whether this is a step of a panel that goes on: its answer is not the outcome."""
        return self.panel is not None and self.panel.next is not None

    def direction(self) -> FloatArray:
        """φ, as an array of its own."""
        return np.frombuffer(self.phi, _PHI).astype(np.float64)

    def read_of_peers(self) -> FloatArray:
        """Scores, p̂ and effective sample sizes, (3, P), to read."""
        return np.frombuffer(self.scores, _SCORES).reshape(3, -1)

    def feature_rows(self) -> FloatArray:
        """Text features of the answers that are described, (answers, S)."""
        raw = np.frombuffer(self.features, _FEATURES)
        return (raw / _FEATURE_UNIT).reshape(len(self.described), -1)

    def sureness(self) -> FloatArray:
        """What was claimed of the answer: of every temperature, then their mixture."""
        return np.frombuffer(self.certainty, _SCORES)

    def canons_by_peer(self) -> dict[str, str | None]:
        """Canonical answers of the peers that were asked; numbers where no text is kept."""
        return {
            peer: None if group < 0 else self.canons[group] if self.canons else str(group)
            for peer, group in zip(self.peers, self.groups, strict=False)
            if group != NOT_ASKED
        }

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

    def left(self) -> ForgottenLine:
        """When it was, where on the decay axis, and how it counts in a budget."""
        return ForgottenLine(self.time, self.tick, self.now, self.pacing)

    def texts(self) -> Iterator[str]:
        """Question, answer and canons, the answer that a panel took, topics and ref."""
        added = () if self.panel is None or self.panel.added is None else self.panel.added[1:]
        found = (self.question, self.answer, *self.canons, *added, *self.topics, self.ref)
        return (text for text in found if text)


class FeedbackLine(Body, tag=2, frozen=True):
    """Labels of one source, at the event's place on the decay axis.

    What a source that is not trusted was worth then is kept with them: its weight, its reliability, and its
    overlap with the sources before it. ``own`` is the id of feedback that amends: its line has another one.
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

    def left(self) -> ForgottenLine:
        """When it came, and where its event is on the decay axis."""
        return ForgottenLine(self.time, self.tick)


class RefLine(Body, tag=3, frozen=True):
    """The caller's own name of an event: the line's id, so that a store finds it and keeps it unique."""

    def left(self) -> ForgottenLine:
        """Nothing but that there was one."""
        return ForgottenLine(0.0)


class ServedLine(Body, tag=4, frozen=True):
    """Who really answered the task of a decision; the last such line of a decision counts.

    ``expected`` has what its call was expected to cost, and what its price alone says. A peer that only gave
    one of the answers of a vote was called all the same; ``chosen``, the choice of a route, was not.
    """

    of_peer = ("peer", "chosen")

    decision: str
    peer: str
    time: float
    expected: tuple[float, float]
    chosen: str | None = None
    cost: float | None = None
    latency: float | None = None

    def left(self) -> ForgottenLine:
        """When it was."""
        return ForgottenLine(self.time)


class PriceLine(Body, tag=5, frozen=True):
    """The price of a peer, from now on; the fields are those of `Price`."""

    of_peer = ("peer",)

    peer: str
    price: dict[str, float | None]
    time: float


class PeerLine(Body, tag=6, frozen=True):
    """A peer joins or leaves the pool; it returns only by this explicit word."""

    of_peer = ("peer",)

    peer: str
    joins: bool
    time: float
    returning: bool = False

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
    """Everything that a source ever said is taken back, or counts again; the line's kind says which."""

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
    event: str  # the event it belongs to, "" where it belongs to none
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


def served_line(
    decision: Line[DecisionLine],
    peer: str,
    number: int,
    time: float,
    expected: tuple[float, float],
    cost: float | None,
    latency: float | None,
) -> Line[ServedLine]:
    """Who really answered the task of a decision."""
    chosen = None if decision.body.groups else decision.body.chosen
    body = ServedLine(decision.id, peer, time, expected, chosen, cost, latency)
    return Line("served", f"{decision.event}/{number}", decision.event, body)


def peer_line(peer: str, joins: bool, time: float, number: int, returning: bool = False) -> Line[PeerLine]:
    """A peer joins or leaves the pool, as its change `number`."""
    return Line("peer", f"{number}{'+' if joins else '-'}{peer}", "", PeerLine(peer, joins, time, returning))


def reset_line(peer: str, keep: float, number: int, time: float) -> Line[ResetLine]:
    """A peer was updated under its name, as change `number` of the pool."""
    return Line("reset", f"{number} {peer}", "", ResetLine(peer, keep, time))


def rename_line(peer: str, becomes: str, keep: float, number: int, time: float) -> Line[RenameLine]:
    """A peer has another name or a successor, as change `number` of the pool."""
    return Line("rename", f"{number} {peer}", "", RenameLine(peer, becomes, keep, time))


def revoke_line(source: str, id: str, time: float, undo: bool = False) -> Line[RevokeLine]:
    """A source is revoked or, with `undo`, heard again."""
    return Line("unrevoke" if undo else "revoke", id, "", RevokeLine(source, time))


def forget_line(events: Sequence[str], time: float) -> Line[ForgetLine]:
    """These events were forgotten."""
    return Line("forget", f"{events[0]}+{len(events) - 1}", "", ForgetLine(tuple(events), time))


# --- arrays ------------------------------------------------------------------------------


def single_precision(phi: FloatArray) -> FloatArray:
    """φ as a ledger keeps it; rounded before it is used, so that replay is exact."""
    return phi.astype(np.float32).astype(np.float64)


def phi_bytes(phi: FloatArray) -> bytes:
    """Raw float32 of a vector."""
    return phi.astype(_PHI).tobytes()


def score_bytes(values: Sequence[float]) -> bytes:
    """Raw float64 of numbers."""
    return np.array(values, _SCORES).tobytes()


def claim_bytes(values: NDArray[Any] | None) -> bytes:
    """Raw float16 of numbers; b"" for none."""
    return b"" if values is None else values.astype(_CLAIMS, copy=False).tobytes()


def claims_in(raw: bytes, n_peers: int) -> NDArray[np.float16]:
    """The numbers of `claim_bytes`, a row for each peer, to read."""
    return np.frombuffer(raw, _CLAIMS).reshape(n_peers, -1)


def feature_bytes(rows: Sequence[Sequence[float]]) -> bytes:
    """Text features in units of 10⁻⁴."""
    return np.rint(np.array(rows) * _FEATURE_UNIT).astype(_FEATURES).tobytes() if rows else b""
