"""The lines of a ledger: what each kind holds, how it is built and how it is read back.

Numbers that a decision claimed (p̂, text features, what each read chose) are taken from its line, not computed
again, so that live and replay agree bit for bit.
"""

import math
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_mem.answers.features import FEATURES_VERSION
from sigma_mem.errors import StoreCorruptError
from sigma_mem.events import Decision, Feedback, FloatArray
from sigma_mem.memory import Settings
from sigma_mem.memory.combination import Standing
from sigma_mem.store.base import Record

_NONE: Mapping[str, Any] = {}
_ONLY_IN_LINES = (
    "now", "signs", "claims", "agreement", "confidence_claims", "topic_claims", "costs", "pacing", "evidence",
)  # fmt: skip
_OF_FEEDBACK = ("id", "labels", "source", "time", "amends")
_NO_FEATURES = (FEATURES_VERSION, _NONE)
_PHI, _HALF = np.dtype("<f8"), np.dtype("<f2")


@dataclass(frozen=True, slots=True)
class Opening:
    """What a memory is made of: its first line."""

    peers: tuple[str, ...]
    rank: int
    settings: Settings
    encoder: Mapping[str, str]  # name and version
    keep_text: bool | None = None  # whether texts are kept; None in a memory of before, where callers say so


def open_record(opening: Opening, time: float) -> Record:
    """The first line of a ledger."""
    body = {
        "peers": list(opening.peers),
        "rank": opening.rank,
        "settings": asdict(opening.settings),
        "encoder": dict(opening.encoder),
        "time": time,
    }
    if opening.keep_text is not None:
        body["keep_text"] = opening.keep_text
    return Record("open", "open", "", body)


def opening_from(record: Record) -> Opening:
    """What the first line says."""
    body = record.body
    settings = Settings.from_record(body["settings"])
    return Opening(tuple(body["peers"]), body["rank"], settings, body["encoder"], body.get("keep_text"))


def decision_record(
    decision: Decision,
    now: float,
    keep_text: bool = True,
    claims: NDArray[np.float16] | None = None,
    confidence_claims: Sequence[Any] = (),
    agreement: FloatArray | None = None,
    topic_claims: NDArray[np.float16] | None = None,
    costs: Mapping[str, Sequence[float]] = _NONE,
    pacing: Mapping[str, Any] | None = None,
    evidence: Sequence[Sequence[float]] = (),
) -> Record:
    """A decision made when the memory stood at `now` on its decay axis.

    What was claimed of every peer, (P, H + 2), is kept as float16, in the order of the scores;
    what was claimed of the answer as its peer, the claims of every temperature, and their mixture. So are
    agreement labels, (P,), where they depend on who copies whom; others follow from the canons. What every
    share of the topics claimed, (P, B), is kept as what horizons claimed is. `costs` has what a call to each
    peer that is asked will cost, and what its price alone says; `pacing` is for a budget. `evidence` is what
    p̂ of every peer rests on beside the effective sample size, (P,) each: on how many events it was labelled,
    the decayed number of its labels, and in how many events, near φ and anywhere, its answer was compared.

    Without text, canons are replaced by the numbers of the groups they form; text features stay. The line
    shares no mapping with the decision, which its caller may change.
    """
    body = {
        "now": now,
        "tick": decision.tick,
        "time": decision.time,
        "read": decision.read,
        "peer": decision.peer,
        "answer": decision.answer if keep_text else None,
        "scores": dict(decision.scores),
        "probs": dict(decision.probs),
        "effective": dict(decision.effective),
        "confidence": decision.confidence,
        "propensity": decision.propensity,
        "question": decision.question if keep_text else None,
        "canons": _NONE
        if not decision.canons
        else dict(decision.canons)
        if keep_text
        else _numbered(decision.canons),
        "features": [FEATURES_VERSION, {peer: list(x) for peer, x in decision.features.items()}]
        if decision.features
        else _NO_FEATURES,
        "reads": dict(decision.reads) if decision.reads else _NONE,
        "details": _kept_details(decision.details, keep_text) if decision.details else _NONE,
    }
    if claims is not None:
        body["claims"] = _halves(claims)
    if agreement is not None:
        body["agreement"] = _halves(agreement)
    if confidence_claims:
        body["confidence_claims"] = list(confidence_claims)
    if decision.ref is not None:
        body["ref"] = decision.ref
    if decision.topics:
        body["topics"] = list(decision.topics)
    if topic_claims is not None:
        body["topic_claims"] = _halves(topic_claims)
    if costs:
        body["costs"] = _own(costs)
    if pacing is not None:
        body["pacing"] = pacing
    if evidence:
        body["evidence"] = [_once(values) for values in evidence]
    return Record("decision", decision.id, decision.event, body, phi_to_bytes(decision.phi))


def _halves(values: NDArray[Any]) -> str:
    """Numbers as base64 of float16, which `halves_in` reads."""
    return b2a_base64(values.astype(_HALF, copy=False).tobytes(), newline=False).decode()


def halves_in(text: str) -> NDArray[np.float16]:
    """The numbers of `_halves`, in one row, to read."""
    return np.frombuffer(a2b_base64(text), _HALF)


def _kept_details(details: Mapping[str, Any], keep_text: bool) -> dict[str, Any]:
    """Details as a line keeps them: without text, no answer that a panel took."""
    if keep_text or "panel" not in details:
        return {key: _own(value) for key, value in details.items()}
    panel = {key: value for key, value in details["panel"].items() if key != "added"}
    return {key: _own(value) for key, value in {**details, "panel": panel}.items()}


def _numbered(canons: Mapping[str, str | None]) -> dict[str, str | None]:
    numbers: dict[str, str] = {}
    return {
        peer: None if canon is None else numbers.setdefault(canon, str(len(numbers)))
        for peer, canon in canons.items()
    }


def decision_from(record: Record) -> Decision:
    """The decision that a line holds."""
    body = {key: _own(value) for key, value in record.body.items() if key not in _ONLY_IN_LINES}
    body["features"] = _own(recorded_features(record))
    body["topics"] = tuple(body.get("topics", ()))
    if "lean" in body["details"]:  # the name in version 0.1
        details = dict(body["details"])
        body["details"] = {**details, "text_log_odds": details.pop("lean")}
    if "costs" in record.body:
        body["cost"] = math.fsum(amount for amount, _ in record.body["costs"].values())
    return Decision(id=record.id, event=record.event, phi=phi_from_bytes(record.phi), **body)


def _once(values: Sequence[float]) -> Sequence[float]:
    """Values of peers; a single one where all are equal, as they are where peers are labelled together."""
    return values[:1] if len(values) > 1 and values.count(values[0]) == len(values) else values


def recorded_evidence(record: Record, peer: str) -> tuple[float, float, float, float] | None:
    """What p̂ of a peer rested on, as a decision's line says; None in a line of before version 0.2.0."""
    if "evidence" not in record.body:
        return None
    place = list(record.body["scores"]).index(peer)
    events, labels, near, anywhere = (x[0] if len(x) == 1 else x[place] for x in record.body["evidence"])
    return events, labels, near, anywhere


def _own(value: Any) -> Any:
    """A copy of mappings and lists, which whoever gets it may change; the ledger's stay as they are."""
    if isinstance(value, Mapping):
        return {key: _own(inner) for key, inner in value.items()}
    return [_own(inner) for inner in value] if isinstance(value, list | tuple) else value


def decided_at(record: Record) -> float:
    """Where the memory stood on its decay axis when it made this decision."""
    return float(record.body["now"])


def is_forgotten(record: Record) -> bool:
    """Whether only the place of this line is left."""
    return "forgotten" in record.body


def asks_on(record: Record) -> bool:
    """Whether a line is a step of a panel that goes on: its answer is not the outcome."""
    return bool(record.body["details"].get("panel", {}).get("next"))


def forget_record(events: Sequence[str], time: float) -> Record:
    """These events were forgotten; their lines keep their places only."""
    return Record("forget", f"{events[0]}+{len(events) - 1}", "", {"events": list(events), "time": time})


def recorded_features(record: Record) -> Mapping[str, Sequence[float]]:
    """Text features of a decision's answers; none where another version of the features was recorded."""
    body = record.body
    version, features = body.get("features") or body.get("signs") or (FEATURES_VERSION, {})
    return features if version == FEATURES_VERSION else {}


def feedback_record(feedback: Feedback, line: str, tick: float, standing: Standing | None = None) -> Record:
    """Labels from one source; `line` is the id of the ledger's line, `tick` the event's place.

    What the source was worth then is kept with them; a trusted one weighs 1, and nothing is kept.
    """
    body: dict[str, Any] = {
        "labels": dict(feedback.labels),
        "source": feedback.source,
        "amends": feedback.amends,
        "tick": tick,
        "time": feedback.time,
    }
    if line != feedback.id:  # an amendment
        body["id"] = feedback.id
    if standing is not None:
        body["weight"] = standing.weight
        if standing.reliability is not None:
            body["reliability"] = standing.reliability
        if standing.overlap:
            body["overlap"] = dict(standing.overlap)
    return Record("feedback", line, feedback.event, body)


def feedback_from(record: Record) -> Feedback:
    """The feedback that a line holds."""
    body: dict[str, Any] = {key: _own(value) for key, value in record.body.items() if key in _OF_FEEDBACK}
    return Feedback(**{"id": record.id, "event": record.event, **body})


def ref_record(ref: str, event: str) -> Record:
    """The caller's own name of an event; its id is the name, so that a store finds it and keeps it unique."""
    return Record("ref", ref, event, {})


def served_record(
    decision: Record,
    peer: str,
    number: int,
    time: float,
    expected: Sequence[float],
    cost: float | None,
    latency: float | None,
) -> Record:
    """Who really answered the task of a decision; the last such line of a decision counts.

    `expected` has what its call was expected to cost, and what its price alone says. A peer that only gave
    one of the answers of a vote was called all the same; the choice of a route was not.
    """
    body = {"decision": decision.id, "peer": peer, "time": time, "expected": list(expected)}
    if not decision.body["canons"]:
        body["chosen"] = decision.body["peer"]
    if cost is not None:
        body["cost"] = cost
    if latency is not None:
        body["latency"] = latency
    return Record("served", f"{decision.event}/{number}", decision.event, body)


def peer_record(peer: str, joins: bool, time: float, number: int, returning: bool = False) -> Record:
    """A peer joins or leaves the pool, as its change `number`; it returns only by this explicit word."""
    body = {"peer": peer, "joins": joins, "time": time, **({"returning": True} if returning else {})}
    return Record("peer", f"{number}{'+' if joins else '-'}{peer}", "", body)


def reset_record(peer: str, keep: float, number: int, time: float) -> Record:
    """A peer was updated under its name: only a share of its record stays."""
    return Record("reset", f"{number} {peer}", "", {"peer": peer, "keep": keep, "time": time})


def rename_record(peer: str, becomes: str, keep: float, number: int, time: float) -> Record:
    """A peer has another name from here on, or another peer takes its place with a share of its record."""
    body = {"peer": peer, "becomes": becomes, "keep": keep, "time": time}
    return Record("rename", f"{number} {peer}", "", body)


def revoke_record(source: str, id: str, time: float) -> Record:
    """Everything that a source ever said is taken back."""
    return Record("revoke", id, "", {"source": source, "time": time})


def unrevoke_record(source: str, id: str, time: float) -> Record:
    """Everything that a revoked source ever said counts again."""
    return Record("unrevoke", id, "", {"source": source, "time": time})


def single_precision(phi: FloatArray) -> FloatArray:
    """φ as a ledger keeps it in half the bytes; rounded before it is used, so that replay is exact."""
    return phi.astype(np.float32).astype(np.float64)


def phi_to_bytes(phi: FloatArray) -> bytes:
    """Raw little-endian float64 of a vector, as `Record.phi` holds it."""
    return phi.astype(_PHI, copy=False).tobytes()


def phi_from_bytes(raw: bytes) -> FloatArray:
    """The vector of `phi_to_bytes`, as an array of its own."""
    return phi_in(raw).astype(np.float64)


def phi_in(raw: bytes) -> FloatArray:
    """The same without a copy, to read."""
    if len(raw) % 8:
        raise StoreCorruptError(f"got a φ of {len(raw)} bytes, expected a multiple of 8; restore the file")
    return np.frombuffer(raw, _PHI)
