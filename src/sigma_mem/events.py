"""What happens to a memory: events, decisions about them, and feedback that comes later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Answer:
    """One peer's answer: its text and its canonical form (None if none could be read)."""

    text: str
    canon: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """One recorded task of a stream: question, answers and, for after the decision, correctness.

    ``correct`` maps a peer to c ∈ [−1, 1] (recorded booleans become ±1). ``topics`` are what a caller would
    know of the task's kind; a recorded stream has none until they are taken from its domains. ``costs`` and
    ``latency`` map a peer to what its call cost, in any unit of money, and to the seconds it took, if that
    was recorded.
    """

    id: str
    question: str
    answers: Mapping[str, Answer]
    correct: Mapping[str, float]
    domain: str = ""
    dataset: str = ""
    reference: str | None = None
    topics: tuple[str, ...] = ()
    costs: Mapping[str, float] = field(default_factory=dict)
    latency: Mapping[str, float] = field(default_factory=dict)


class DecisionRecord(Protocol):
    """What a ledger keeps of a decision."""

    def field(self, name: str) -> Any:
        """What a field of the decision holds that is made only when it is looked at."""


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """What one read of the memory returned. Carries φ, so feedback never encodes again.

    Attributes
    ----------
    id, event : str
        Of this decision, and of the event it belongs to (the id of the event's first decision).
    read : str
        Which read chose: ``"calibrated-route"``, ``"calibrated-vote"``, ``"m-route"``, ``"select"`` …
    peer, answer : str | None
        The trusted peer and its answer (None for a route, made before anyone answers); both None if the
        decision abstains.
    scores, probs, effective : mapping by peer
        φᵀM_pφ, calibrated competence p̂ and the effective sample size behind it.
    confidence : float
        Probability that the choice is right, calibrated by earlier decisions if there are answers.
    propensity : float
        Probability with which this peer was chosen, of those it was chosen among (1 unless the read
        explores); 0 if the caller took another one (`served`).
    tick : float
        The place of the event on the memory's decay axis.
    canons : mapping by peer
        Canonical answers that were voted on.
    features : mapping by peer
        Text features of each answer (`sigma_mem.answers.features`).
    details : mapping
        What a read wants kept: the center's utilities U, z, yes+no mass; cost terms …
    ref : str, optional
        The caller's own name of the event.
    served : str, optional
        The peer that really answered, if the caller reported it.
    topics : tuple of str
        What the caller knew of the task's kind, sorted.
    cost : float, optional
        What the calls of the event are expected to cost, or really cost, if `served` reported it; None
        without prices.
    labels : mapping by peer
        The labels c that the event has, as far as they were known when the decision was read from the ledger.
    verdicts : mapping
        The verdicts of judges: judge → peer → score; `details` has the log-odds that this was worth.
    answers : mapping by peer
        What peers wrote, as far as the ledger keeps texts; empty until the decision is read from there.
    """

    id: str
    event: str
    read: str
    phi: FloatArray
    peer: str | None
    answer: str | None
    scores: Mapping[str, float]
    probs: Mapping[str, float]
    effective: Mapping[str, float]
    confidence: float
    propensity: float
    tick: float
    time: float
    question: str | None = None
    canons: Mapping[str, str | None] = field(default_factory=dict)
    features: Mapping[str, Sequence[float]] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    ref: str | None = None
    served: str | None = None
    topics: tuple[str, ...] = ()
    cost: float | None = None
    labels: Mapping[str, float] = field(default_factory=dict)
    verdicts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, record: DecisionRecord, **known: Any) -> Decision:
        """A decision of which these fields are known; the others are made from its record when looked at."""
        made = object.__new__(cls)
        made.__dict__.update(known, _record=record)
        return made

    def __getattr__(self, name: str) -> Any:
        if name not in MADE_LATER or "_record" not in self.__dict__:
            raise AttributeError(f"a Decision has no {name!r}")
        value = self.__dict__[name] = self._record.field(name)
        return value

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, φ as a list."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return {
            name: value.tolist()
            if isinstance(value, np.ndarray)
            else dict(value)
            if isinstance(value, Mapping)
            else value
            for name, value in values.items()
        }

    def __eq__(self, other: object) -> bool:
        """Whether all of it is equal, φ to the bit; `answers` aside, which only the ledger adds."""
        if not isinstance(other, Decision):
            return NotImplemented
        return self.id == other.id and self.to_dict() | {"answers": {}} == other.to_dict() | {"answers": {}}

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        """One line: which peer was chosen, by which read, and how sure."""
        answer = "" if self.answer is None else f" says {shortened(self.answer)!r}"
        chosen = "nobody" if self.peer is None else f"{self.peer}{answer}"
        return f"<Decision {self.id}: {chosen}, {self.confidence:.0%} sure, by {self.read}>"


MADE_LATER = frozenset(("phi", "scores", "probs", "effective", "canons", "features", "details", "verdicts"))


def shortened(text: str | None, width: int = 48) -> str:
    """A text on one line of at most `width` characters."""
    flat = " ".join((text or "").split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


@dataclass(frozen=True, slots=True)
class Feedback:
    """Correctness of some or all peers of an event, from one source; c ∈ [−1, 1]."""

    id: str
    event: str
    labels: Mapping[str, float]
    source: str
    time: float
    amends: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a judge on the answers to one question.

    Attributes
    ----------
    scores : mapping
        Peer → score; a peer that the judge did not score is left out.
    cost, seconds : float
        What the requests cost, and how long it took.
    failures : tuple of str
        Why scores are missing.
    """

    scores: Mapping[str, float]
    cost: float = 0.0
    seconds: float = 0.0
    failures: tuple[str, ...] = ()
