"""How arguments are sent and results are read: values as JSON, and back."""

import gzip
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Decision, Feedback, FloatArray
from sigma_mem.files import replace_file
from sigma_mem.memory import Settings
from sigma_mem.session import (
    Basis,
    Budget,
    Contribution,
    Decisions,
    Drift,
    Explanation,
    History,
    HistoryEntry,
    PeerTrust,
    Price,
    Source,
    Spending,
    TrustByPeer,
    TrustTable,
)
from sigma_mem.session.advice import Advice


class PanelState(NamedTuple):
    """Where a panel stands, as the service says."""

    panel: str
    next: str | None
    change: float
    answers: Mapping[str, Answer]
    decision: Decision


# --- what is sent ------------------------------------------------------------------------


def sent_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a method, as JSON; what is None is left out, since that is everyone's default."""
    given = {name: value for name, value in given.items() if value is not None}
    if "phi" in given:
        given["phi"] = _phi_text(given["phi"])
    if not isinstance(given.get("answers", {}), Mapping):
        raise InputError(f"answers are {given['answers']!r}; expected a mapping of peers to answers")
    if callable(canon := given.get("canon")):  # a function cannot be sent: it is applied here
        del given["canon"]
        if "answers" in given:
            answers = given["answers"].items()
            given["answers"] = {p: Answer(a, canon(a)) if isinstance(a, str) else a for p, a in answers}
    return {name: sent(value) for name, value in given.items()}


def sent(value: Any) -> Any:
    """A value as JSON, by its type."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Decision):
        return value.id
    if isinstance(value, Answer | Budget | Settings):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: sent(each) for key, each in value.items()}
    return [sent(each) for each in value] if isinstance(value, Iterable) else value


def _phi_text(phi: ArrayLike) -> str:
    return b64encode(np.asarray(phi, dtype="<f8").tobytes()).decode()


# --- what is read ------------------------------------------------------------------------


def read_nothing(body: Any) -> None:
    """Where all was said by not refusing."""


def read_decision(body: Mapping[str, Any]) -> Decision:
    """A decision."""
    known = {field.name for field in fields(Decision)}
    return Decision(**{**{key: body[key] for key in body if key in known}, "phi": _phi(body["phi"])})


def read_decisions(body: Mapping[str, Any]) -> Decisions:
    """A page of decisions."""
    found = [read_decision(each) for each in body["decisions"]]
    return Decisions(lambda: iter(found))


def read_phi(body: Mapping[str, Any]) -> FloatArray:
    """φ of a question."""
    return _phi(body["phi"])


def _phi(text: str) -> FloatArray:
    return np.frombuffer(b64decode(text), dtype="<f8").astype(np.float64)


def read_panel(body: Mapping[str, Any]) -> PanelState:
    """Where a panel stands."""
    answers = {peer: Answer(each["text"], each["canon"]) for peer, each in body["answers"].items()}
    return PanelState(body["panel"], body["next"], body["change"], answers, read_decision(body["decision"]))


def read_feedback(body: Mapping[str, Any]) -> Feedback:
    """Feedback as it was taken."""
    return Feedback(**body)


def read_batch(body: Mapping[str, Any]) -> list[Feedback | str]:
    """What was taken of a batch, or why not."""
    return [
        read_feedback(each["feedback"]) if each.get("feedback") else str(each["error"]["message"])
        for each in body["results"]
    ]


def read_lines(body: Mapping[str, Any]) -> int:
    """How many lines of feedback are meant."""
    return int(body["lines"])


def read_forgotten(body: Mapping[str, Any]) -> int:
    """How many events were forgotten."""
    return int(body["events"])


def read_labels(body: Mapping[str, Any]) -> dict[str, float]:
    """Labels by peer."""
    return dict(body["labels"])


def read_votes(body: Mapping[str, Any]) -> dict[str, float]:
    """Votes by answer."""
    return dict(body["votes"])


def read_prices(body: Mapping[str, Any]) -> dict[str, Price]:
    """Prices by peer."""
    return {peer: Price(**price) for peer, price in body["prices"].items()}


def read_spent(body: Mapping[str, Any]) -> Spending:
    """What was spent."""
    return Spending(**body)


def read_sources(body: Mapping[str, Any]) -> list[Source]:
    """Sources by name."""
    return [Source(**each) for each in body["sources"]]


def read_advice(body: Mapping[str, Any]) -> list[Advice]:
    """Advice."""
    return [Advice(**each) for each in body["advice"]]


def read_drift(body: Mapping[str, Any]) -> list[Drift]:
    """Peers that changed."""
    return [Drift(**each) for each in body["drift"]]


def read_trust(body: Mapping[str, Any]) -> TrustByPeer:
    """Trust at a question."""
    return _trust(body["trust"])


def _trust(body: Mapping[str, Any]) -> TrustByPeer:
    return TrustByPeer(
        {
            peer: PeerTrust(**{**each, "interval": (each["interval"][0], each["interval"][1])})
            for peer, each in body.items()
        }
    )


def read_table(body: Mapping[str, Any]) -> TrustTable:
    """Trust overall and by topic."""
    topics = {topic: _trust(each) for topic, each in body["topics"].items()}
    return TrustTable(body["events"], _trust(body["overall"]), topics)


def read_histories(body: Mapping[str, Any]) -> dict[str, History]:
    """Records by peer."""
    return {
        peer: History(peer, [HistoryEntry(**entry) for entry in entries])
        for peer, entries in body["histories"].items()
    }


def read_explanation(body: Mapping[str, Any]) -> Explanation:
    """What explains a score."""
    values = {field.name: body[field.name] for field in fields(Explanation)}
    values["prob"] = float("nan") if values["prob"] is None else values["prob"]
    values["basis"] = Basis(**values["basis"])
    values["contributions"] = tuple(Contribution(**each) for each in values["contributions"])
    return Explanation(**values)


def read_settings(description: Mapping[str, Any]) -> Settings:
    """Settings from a namespace's description."""
    given = description["settings"].items()
    values: dict[str, Any] = {key: tuple(x) if isinstance(x, list) else x for key, x in given}
    return Settings(**values)


# --- files -------------------------------------------------------------------------------


def keep_lines(content: bytes, path: str | os.PathLike[str]) -> int:
    """Write an exported memory to a new file, compressed for ``.gz``; return how many lines it has."""
    lines = gzip.decompress(content)
    keep_file(content if os.fspath(path).endswith(".gz") else lines, path)
    return int(json.loads(lines.splitlines()[-1])["lines"])


def keep_file(content: bytes, path: str | os.PathLike[str]) -> None:
    """Write what was received to a new file."""
    if Path(path).exists():
        raise InputError(f"{os.fspath(path)} is there already; expected the path of a new file")
    with replace_file(path, private=True) as temporary:
        temporary.write_bytes(content)
