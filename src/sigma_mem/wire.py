"""Values of a memory as JSON and back: one place for the service, which writes them, and its clients.

Dataclasses are written field by field, φ as base64 of little-endian float64. A class that is more than its
fields has a `Form`: what is sent instead, and how the value is made from that again.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date
from typing import Any, Generic, TypeVar, get_origin

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Decision, FloatArray
from sigma_mem.memory import Settings
from sigma_mem.session import Budget, Decisions, Explanation, History, HistoryEntry, PeerTrust, TrustByPeer
from sigma_mem.session.panel import Panel

T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Form(Generic[T, S]):
    """How values of a class are sent: as which type, and the way there and back."""

    sent: Any
    write: Callable[[T], S]
    read: Callable[[S], T]


@dataclass(frozen=True, slots=True)
class SentTrust:
    """Trust by peer and, if it is trust whatever the task, by topic and peer."""

    events: int
    votes: float | None
    peers: dict[str, PeerTrust]
    topics: dict[str, dict[str, PeerTrust]]


@dataclass(frozen=True, slots=True)
class SentHistory:
    """A peer's record."""

    peer: str
    entries: list[HistoryEntry]


@dataclass(frozen=True, slots=True)
class SentPanel:
    """The state of a panel; `panel` names it, by the id of its event."""

    panel: str
    next: str | None
    change: float
    answers: Mapping[str, Answer]
    decision: Decision


def sent_panel(panel: Panel) -> SentPanel:
    """The state of a panel."""
    return SentPanel(panel.decision.event, panel.next, panel.change, panel.answers, panel.decision)


def _trust(sent: SentTrust) -> TrustByPeer:
    topics = {topic: TrustByPeer(peers, sent.events) for topic, peers in sent.topics.items()}
    return TrustByPeer(sent.peers, sent.events, topics, sent.votes)


def _sent_trust(found: TrustByPeer) -> SentTrust:
    topics = {topic: dict(there) for topic, there in found.topics.items()}
    return SentTrust(found.events, found.votes, dict(found), topics)


FORMS: Mapping[type, Form[Any, Any]] = {
    np.ndarray: Form(str, lambda phi: _phi_text(phi), lambda text: _phi(text)),
    TrustByPeer: Form(SentTrust, _sent_trust, _trust),
    Decisions: Form(list[Decision], list, lambda found: Decisions(lambda: iter(found))),
    History: Form(
        SentHistory, lambda h: SentHistory(h.peer, list(h)), lambda sent: History(sent.peer, sent.entries)
    ),
}


# --- results -----------------------------------------------------------------------------


def as_json(value: Any) -> bytes:
    """A value as JSON; NaN and infinity, which JSON does not have, become null."""
    try:
        return msgspec.json.encode(value, enc_hook=_written)
    except UnicodeEncodeError:  # lone surrogates, which UTF-8 does not have
        plain = finite(msgspec.to_builtins(value, enc_hook=_written))
        return json.dumps(plain, allow_nan=False, separators=(",", ":")).encode()


def to_plain(value: Any) -> Any:
    """A value made of what JSON has."""
    return msgspec.to_builtins(value, enc_hook=_written, str_keys=True)


def from_plain(value: Any, kind: type[T]) -> T:
    """A value of this type from what JSON had."""
    return msgspec.convert(value, kind, dec_hook=_read)


def json_schemas(kinds: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The schema of every type, and the definitions that they refer to, as OpenAPI has them."""
    sent = [_sent_kind(kind) for kind in kinds]
    found, definitions = msgspec.json.schema_components(
        sent, schema_hook=_schema, ref_template="#/components/schemas/{name}"
    )
    return list(found), definitions


def described_explanation(explanation: Explanation) -> dict[str, Any]:
    """An explanation: its fields, and the same in words."""
    return {
        **{part.name: getattr(explanation, part.name) for part in fields(explanation)},
        "text": str(explanation),
    }


def finite(value: Any) -> Any:
    """The same JSON value with null for what JSON has no number for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def _written(value: Any) -> Any:
    form = FORMS.get(type(value))
    if form is not None:
        return form.write(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise NotImplementedError(f"no form for {type(value).__name__}")


def _read(kind: Any, value: Any) -> Any:
    form = FORMS[get_origin(kind) or kind]
    return form.read(from_plain(value, form.sent))


def _sent_kind(kind: Any) -> Any:
    form = FORMS.get(get_origin(kind) or kind)
    return kind if form is None else form.sent


def _schema(kind: Any) -> dict[str, Any]:
    form = FORMS[get_origin(kind) or kind]
    if form.sent is str:
        return {"type": "string", "description": "base64 of little-endian float64."}
    (schema,), _ = json_schemas([form.sent])
    return schema


def _phi_text(phi: ArrayLike) -> str:
    return b64encode(np.asarray(phi, dtype="<f8").tobytes()).decode()


def _phi(text: str) -> FloatArray:
    return np.frombuffer(b64decode(text), dtype="<f8").astype(np.float64)


# --- arguments ---------------------------------------------------------------------------


def sent_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a method, as JSON; what is None is left out, since that is every default."""
    given = {name: value for name, value in given.items() if value is not None}
    if "phi" in given:
        given["phi"] = _phi_text(given["phi"])
    if not isinstance(given.get("answers", {}), Mapping):
        raise InputError(f"answers are {given['answers']!r}; expected a mapping from peers to answers")
    if callable(canon := given.get("canon")):  # a function cannot be sent: it is applied here
        del given["canon"]
        if "answers" in given:
            answers = given["answers"].items()
            given["answers"] = {p: Answer(a, canon(a)) if isinstance(a, str) else a for p, a in answers}
    return {name: _argument(value) for name, value in given.items()}


def _argument(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Decision):
        return value.id
    if isinstance(value, Answer | Budget | Settings):
        return asdict(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: _argument(each) for key, each in value.items()}
    return [_argument(each) for each in value] if isinstance(value, Iterable) else value
