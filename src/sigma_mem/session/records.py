"""What the lines of a memory's ledger say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sigma_mem.answers.features import FEATURES_VERSION as VERSION
from sigma_mem.events import Decision, Feedback
from sigma_mem.memory import Settings
from sigma_mem.store.base import Record
from sigma_mem.store.codec import phi_from_bytes, phi_to_bytes

__all__ = [
    "decision_from",
    "decision_record",
    "feedback_from",
    "feedback_record",
    "open_record",
    "peer_record",
    "revoke_record",
    "signs_from",
]


def open_record(
    peers: tuple[str, ...], rank: int, settings: Settings, encoder: Mapping[str, str], time: float
) -> Record:
    """The first line: what the memory is made of."""
    body = {
        "peers": list(peers),
        "rank": rank,
        "settings": asdict(settings),
        "encoder": dict(encoder),
        "time": time,
    }
    return Record("open", "open", "", body)


def decision_record(decision: Decision, now: float, keep_text: bool = True) -> Record:
    """A decision made when the memory stood at `now` on its decay axis.

    Without text, answers are kept only as the numbers of the groups they fell into, and their signs.
    """
    body = {
        "now": now,
        "tick": decision.tick,
        "time": decision.time,
        "read": decision.read,
        "peer": decision.peer,
        "answer": decision.answer if keep_text else None,
        "scores": decision.scores,
        "probs": decision.probs,
        "effective": decision.effective,
        "confidence": decision.confidence,
        "propensity": decision.propensity,
        "question": decision.question if keep_text else None,
        "canons": decision.canons if keep_text else _numbered(decision.canons),
        "signs": [VERSION, decision.signs],
        "reads": decision.reads,
        "details": decision.details,
    }
    return Record("decision", decision.id, decision.event, body, phi_to_bytes(decision.phi))


def _numbered(canons: Mapping[str, str | None]) -> dict[str, str | None]:
    numbers: dict[str, str] = {}
    return {
        peer: None if canon is None else numbers.setdefault(canon, str(len(numbers)))
        for peer, canon in canons.items()
    }


def decision_from(record: Record) -> Decision:
    """The decision that a line holds."""
    body = {key: value for key, value in record.body.items() if key != "now"}
    body["signs"] = signs_from(record)
    return Decision(id=record.id, event=record.event, phi=phi_from_bytes(record.phi), **body)


def signs_from(record: Record) -> Mapping[str, Sequence[float]]:
    """Signs of a decision's answers; none where another version of the package saw others, or none."""
    version, signs = record.body.get("signs", (VERSION, {}))
    return signs if version == VERSION else {}


def feedback_record(feedback: Feedback, line: str, tick: float) -> Record:
    """Labels from one source; `line` is the id of the ledger's line, `tick` the event's place."""
    body = {
        "id": feedback.id,
        "labels": feedback.labels,
        "source": feedback.source,
        "amends": feedback.amends,
        "tick": tick,
        "time": feedback.time,
    }
    return Record("feedback", line, feedback.event, body)


def feedback_from(record: Record) -> Feedback:
    """The feedback that a line holds."""
    body: dict[str, Any] = {key: value for key, value in record.body.items() if key != "tick"}
    return Feedback(event=record.event, **body)


def peer_record(peer: str, joins: bool, time: float) -> Record:
    """A peer joins or leaves the pool; a name is used once."""
    return Record("peer", f"{'+' if joins else '-'}{peer}", "", {"peer": peer, "joins": joins, "time": time})


def revoke_record(source: str, time: float) -> Record:
    """All that a source ever said is taken back."""
    return Record("revoke", source, "", {"source": source, "time": time})
