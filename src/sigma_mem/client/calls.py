"""Every method as a request and what to read from its response; nothing is sent here."""

import gzip
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike

from sigma_mem.answers.canon import Canon
from sigma_mem.answers.chat import Question
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Decision, Feedback, FloatArray
from sigma_mem.files import replace_file
from sigma_mem.memory import Settings
from sigma_mem.memory.basis import Basis
from sigma_mem.session import (
    Contribution,
    Decisions,
    Drift,
    Explanation,
    History,
    HistoryEntry,
    PeerTrust,
    Source,
    TrustByPeer,
    TrustTable,
)
from sigma_mem.session.advice import Advice
from sigma_mem.session.costs import Budget, Price, Spending
from sigma_mem.session.listing import Moment
from sigma_mem.session.topics import Topic

T = TypeVar("T")
_PAGE = 1_000  # decisions in a response
GivenAnswers = Mapping[str, str | Answer | None]


@dataclass(frozen=True, slots=True)
class MemoryCall(Generic[T]):
    """A request, and how to read its response."""

    method: str
    path: str  # below /v1/memory
    read: Callable[[Any], T]
    body: Mapping[str, Any] | bytes | None = None
    query: Mapping[str, Any] | None = None
    is_file: bool = False  # whether the response is bytes to keep, and no JSON


@dataclass(frozen=True, slots=True)
class PanelState:
    """Where a panel stands, as the service says."""

    panel: str
    next: str | None
    change: float
    answers: Mapping[str, Answer]
    decision: Decision


class MemoryCalls:
    """The methods of a memory in one namespace; the parameters are those of `SigmaMem`."""

    def __init__(self, namespace: str) -> None:
        self._at = "/" + quote(namespace, safe="")

    # --- what it is ----------------------------------------------------------------------

    def describe(self) -> MemoryCall[Mapping[str, Any]]:
        """What the namespace's memory is: peers, events, rank, encoder, settings."""
        return MemoryCall("GET", self._at, dict)

    def relation(self) -> MemoryCall[Mapping[str, Any]]:
        """G: its peers, its matrix, and the independent votes that an agreement of all is worth."""
        return MemoryCall("GET", f"{self._at}/relation", dict)

    def create(
        self, peers: Sequence[str], rank: int | None, encoder: str | None, settings: Settings | None
    ) -> MemoryCall[None]:
        """Make the namespace."""
        body: dict[str, Any] = {"peers": list(peers), "rank": rank, "encoder": encoder}
        if settings is not None:
            body["settings"] = asdict(settings)
        return MemoryCall("PUT", self._at, _nothing, body)

    # --- decide --------------------------------------------------------------------------

    def encode(self, question: Question) -> MemoryCall[FloatArray]:
        """φ of a question."""
        return self._post("encode", lambda body: _phi(body["phi"]), {"question": question})

    def route(
        self,
        question: Question | None = None,
        *,
        phi: ArrayLike | None = None,
        read: str = "calibrated-route",
        explore: bool = False,
        topic: Topic | None = None,
        among: Sequence[str] | None = None,
        max_cost: float | None = None,
        max_latency: float | None = None,
        value: float | None = None,
        min_prob: float | None = None,
        budget: Budget | None = None,
        after: str | Decision | None = None,
        ref: str | None = None,
    ) -> MemoryCall[Decision]:
        """Choose a peer before anyone answers; see `SigmaMem.route`."""
        body = _task(question, phi, topic, among, after, ref)
        body |= {"read": read, "explore": explore, "max_cost": max_cost, "max_latency": max_latency}
        body |= {"value": value, "min_prob": min_prob, "budget": None if budget is None else asdict(budget)}
        return self._post("route", decision_of, body)

    def vote(
        self,
        question: Question | None,
        answers: GivenAnswers,
        *,
        phi: ArrayLike | None = None,
        read: str = "calibrated-vote",
        canon: Canon = "auto",
        topic: Topic | None = None,
        among: Sequence[str] | None = None,
        after: str | Decision | None = None,
        ref: str | None = None,
        min_confidence: float | None = None,
    ) -> MemoryCall[Decision]:
        """Choose among answers: equal ones vote together; see `SigmaMem.vote`."""
        body = _task(question, phi, topic, among, after, ref) | _answers(answers, canon)
        return self._post("vote", decision_of, {**body, "read": read, "min_confidence": min_confidence})

    def decide(
        self,
        question: Question | None,
        answers: GivenAnswers,
        *,
        phi: ArrayLike | None = None,
        canon: Canon = "auto",
        topic: Topic | None = None,
        among: Sequence[str] | None = None,
        after: str | Decision | None = None,
        ref: str | None = None,
        min_confidence: float | None = None,
    ) -> MemoryCall[Decision]:
        """Choose among answers by the read that has been best here; see `SigmaMem.decide`."""
        body = _task(question, phi, topic, among, after, ref) | _answers(answers, canon)
        return self._post("decide", decision_of, {**body, "min_confidence": min_confidence})

    def begin(
        self,
        question: Question | None = None,
        *,
        phi: ArrayLike | None = None,
        topic: Topic | None = None,
        explore: bool = False,
        canon: Canon = "auto",
        among: Sequence[str] | None = None,
        after: str | Decision | None = None,
        ref: str | None = None,
        change: float = 0.2,
        confidence: float | None = None,
        calls: int | None = None,
    ) -> MemoryCall[PanelState]:
        """Begin to ask peers one after the other."""
        body = _task(question, phi, topic, among, after, ref)
        body |= {"explore": explore, "change": change, "confidence": confidence, "calls": calls}
        return self._post("ask", _panel, {**body, "canon": "auto" if callable(canon) else canon})

    def add(self, panel: str, peer: str, answer: str | Answer | None, canon: Canon) -> MemoryCall[PanelState]:
        """Give a panel a peer's answer."""
        sent = _answers({peer: answer}, canon)["answers"][peer]
        body = {"panel": panel, "peer": peer, "answer": sent}
        return MemoryCall("POST", f"{self._at}/ask/add", _panel, body)

    def effective_votes(
        self,
        answers: GivenAnswers,
        question: Question | None = None,
        *,
        phi: ArrayLike | None = None,
        canon: Canon = "auto",
    ) -> MemoryCall[dict[str, float]]:
        """How many independent votes each answer's supporters are worth, by canonical answer. Only looks."""
        body = {"question": question, "phi": None if phi is None else _phi_text(phi)}
        body |= _answers(answers, canon)
        return self._post("effective_votes", lambda found: dict(found["votes"]), body)

    def served(
        self,
        decision: str | Decision,
        peer: str | None = None,
        *,
        cost: float | None = None,
        latency: float | None = None,
    ) -> MemoryCall[Decision]:
        """Say who really answered, and what that cost; see `SigmaMem.served`."""
        body = {"decision": _id(decision), "peer": peer, "cost": cost, "latency": latency}
        return self._post("served", decision_of, body)

    def set_price(
        self,
        peer: str,
        *,
        per_call: float = 0.0,
        per_input_token: float = 0.0,
        per_output_token: float = 0.0,
        output_tokens: float = 300.0,
        latency: float | None = None,
    ) -> MemoryCall[Price]:
        """Say what a call to a peer costs; see `SigmaMem.set_price`."""
        price = Price(per_call, per_input_token, per_output_token, output_tokens, latency)
        return self._post("prices", lambda body: _prices(body)[peer], {"peer": peer, **asdict(price)})

    def prices(self) -> MemoryCall[dict[str, Price]]:
        """What calls to the peers cost, by peer."""
        return self._get("prices", _prices)

    def spent(self, *, since: float | None = None, until: float | None = None) -> MemoryCall[Spending]:
        """What was spent: in all, by peer, and by day and peer."""
        return self._get("spent", lambda body: Spending(**body), since=since, until=until)

    # --- feedback ------------------------------------------------------------------------

    def feedback(
        self,
        decision: str | Decision,
        labels: Mapping[str, object] | None = None,
        *,
        scores: Mapping[str, object] | None = None,
        id: str | None = None,
        amend: bool = False,
    ) -> MemoryCall[Feedback]:
        """Say who was right; see `SigmaMem.feedback`. The source is the API key that the client uses."""
        return self._post("feedback", _feedback, _said(decision, labels, scores, id, amend))

    def feedback_batch(
        self, items: Sequence[tuple[str | Decision, Mapping[str, object]]]
    ) -> MemoryCall[list[Feedback | str]]:
        """Say who was right in several events, with one wait for the disk.

        Each is taken or refused on its own: the result has, in order, what was taken or why not.
        """
        body = {"items": [_said(decision, labels, None, None, False) for decision, labels in items]}
        return self._post("feedback/batch", _batch, body)

    def revoke(self, source: str) -> MemoryCall[int]:
        """Take back all feedback of a source; return how many lines that were."""
        return self._post("revoke", _lines, {"source": source})

    def unrevoke(self, source: str) -> MemoryCall[int]:
        """Take a revocation back; return how many lines count again."""
        return self._post("unrevoke", _lines, {"source": source})

    def sources(self) -> MemoryCall[list[Source]]:
        """Everyone who gave feedback or is trusted, by name."""
        return self._get("sources", lambda body: [Source(**each) for each in body["sources"]])

    # --- peers ---------------------------------------------------------------------------

    def add_peer(self, peer: str, *, returning: bool = False) -> MemoryCall[None]:
        """Take a peer into the pool, last in order, with nothing known of it; see `SigmaMem.add_peer`."""
        return self._post("peers", _nothing, {"peer": peer, "returning": returning})

    def reset_peer(self, peer: str, *, keep: float = 0.2) -> MemoryCall[None]:
        """Say that a model was updated under its name; see `SigmaMem.reset_peer`."""
        return self._post("peers/reset", _nothing, {"peer": peer, "keep": keep})

    def rename_peer(self, peer: str, name: str) -> MemoryCall[None]:
        """Give a peer another name; everything that is known of it stays."""
        return self._post("peers/rename", _nothing, {"peer": peer, "name": name})

    def replace_peer(self, peer: str, by: str, *, keep: float = 0.2) -> MemoryCall[None]:
        """Put another peer in the place of one, with a share of its record; see `SigmaMem.replace_peer`."""
        return self._post("peers/replace", _nothing, {"peer": peer, "by": by, "keep": keep})

    def remove_peer(self, peer: str) -> MemoryCall[None]:
        """Take a peer out of the pool, and forget what is known of it."""
        return MemoryCall("DELETE", f"{self._at}/peers", _nothing, query={"peer": peer})

    # --- look ----------------------------------------------------------------------------

    def decision(self, id: str | Decision) -> MemoryCall[Decision]:
        """An earlier decision, from the ledger."""
        return self._get("decision", decision_of, id=_id(id))

    def decisions(
        self,
        last: int | None = None,
        *,
        before: str | Decision | None = None,
        peer: str | None = None,
        read: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        text: str | None = None,
    ) -> MemoryCall[Decisions]:
        """Earlier decisions, newest first; see `SigmaMem.decisions`.

        One request brings a page: as many as the service gives at once, 1,000 by default, where `last` is
        left out. `before` asks for the next page.
        """
        query = {
            "last": _PAGE if last is None else last,
            "before": None if before is None else _id(before),
            "peer": peer,
            "read": read,
            "since": _moment(since),
            "until": _moment(until),
            "text": text,
        }
        return self._get("decisions", _decisions, **query)

    def trust(
        self,
        question: Question | None = None,
        *,
        phi: ArrayLike | None = None,
        topic: Topic | None = None,
    ) -> MemoryCall[TrustByPeer]:
        """How far each peer can be trusted at a question. Only looks: no event, no line in the ledger."""
        body = _task(question, phi, topic, None, None, None)
        return self._post("trust", lambda found: _trust(found["trust"]), body)

    def table(self, topics: Sequence[str] | None = None) -> MemoryCall[TrustTable]:
        """How far each peer can be trusted, whatever the task and by topic. Only looks."""
        return self._get("table", _table, topic=None if topics is None else list(topics))

    def history(self, peer: str) -> MemoryCall[History]:
        """A peer's record: every event in which it was labelled or chosen, as it stands now, oldest first."""
        return self._get("histories", lambda body: _histories(body)[peer], peer=[peer])

    def histories(
        self, peers: Sequence[str] | None = None, *, lines: int | None = None
    ) -> MemoryCall[dict[str, History]]:
        """The records of these peers, of the whole pool by default; see `SigmaMem.histories`."""
        return self._get("histories", _histories, peer=None if peers is None else list(peers), lines=lines)

    def labels(self, decision: str | Decision) -> MemoryCall[Mapping[str, float]]:
        """The labels that the event of a decision has now."""
        return self._get("labels", lambda body: dict(body["labels"]), decision=_id(decision))

    def explain(
        self, decision: str | Decision, *, peer: str | None = None, top: int = 5
    ) -> MemoryCall[Explanation]:
        """Name the past events that weighed most in a decision; see `SigmaMem.explain`."""
        named = {} if peer is None else {"peer": peer}
        return self._get("explain", _explanation, decision=_id(decision), top=top, **named)

    def drift(self) -> MemoryCall[list[Drift]]:
        """Peers whose recent record left their long one; see `SigmaMem.drift`."""
        return self._get("drift", lambda body: [Drift(**each) for each in body["drift"]])

    def advice(self) -> MemoryCall[list[Advice]]:
        """What there is to say about how the memory is used, with remedies."""
        return self._get("advice", lambda body: [Advice(**each) for each in body["advice"]])

    # --- move ----------------------------------------------------------------------------

    def forget(
        self,
        decision: str | Decision | Iterable[str | Decision] | None = None,
        *,
        before: Moment | None = None,
        text: str | None = None,
    ) -> MemoryCall[int]:
        """Forget events for good; return how many. See `SigmaMem.forget`."""
        if decision is not None:
            decision = [decision] if isinstance(decision, str | Decision) else list(decision)
        named = None if decision is None else [_id(each) for each in decision]
        body = {"decisions": named, "before": _moment(before), "text": text}
        return self._post("forget", lambda found: int(found["events"]), body)

    def export(self, path: str | os.PathLike[str]) -> MemoryCall[int]:
        """Write this memory as JSON lines, compressed for ``.gz``; return how many lines. Nothing is lost."""
        return MemoryCall("GET", f"{self._at}/export", lambda sent: _keep_lines(sent, path), is_file=True)

    def backup(self, path: str | os.PathLike[str]) -> MemoryCall[None]:
        """Copy the service's whole store, with all its namespaces, into a new file here."""
        return MemoryCall("GET", f"{self._at}/backup", lambda sent: _keep(sent, path), is_file=True)

    def restored(self, file: str | os.PathLike[str]) -> MemoryCall[None]:
        """Make the namespace from a file that `export` wrote."""
        return MemoryCall("POST", f"{self._at}/restore", _nothing, Path(file).read_bytes())

    # --- inside --------------------------------------------------------------------------

    def _post(self, name: str, read: Callable[[Any], T], body: Mapping[str, Any]) -> MemoryCall[T]:
        given = {key: value for key, value in body.items() if value is not None}
        return MemoryCall("POST", f"{self._at}/{name}", read, given)

    def _get(self, name: str, parse: Callable[[Any], T], /, **query: Any) -> MemoryCall[T]:
        return MemoryCall("GET", f"{self._at}/{name}", parse, query=query)


def decision_of(body: Mapping[str, Any]) -> Decision:
    """A decision from a response."""
    known = {field.name for field in fields(Decision)}
    return Decision(**{**{key: body[key] for key in body if key in known}, "phi": _phi(body["phi"])})


def _task(
    question: Question | None,
    phi: ArrayLike | None,
    topic: Topic | None,
    among: Sequence[str] | None,
    after: str | Decision | None,
    ref: str | None,
) -> dict[str, Any]:
    return {
        "question": question,
        "phi": None if phi is None else _phi_text(phi),
        "topic": topic if topic is None or isinstance(topic, str) else list(topic),
        "among": None if among is None else list(among),
        "after": None if after is None else _id(after),
        "ref": ref,
    }


def _answers(answers: GivenAnswers, canon: Canon) -> dict[str, Any]:
    """Answers as JSON; a canon that is a function is applied here, since it cannot be sent."""
    if not isinstance(answers, Mapping):
        raise InputError(f"answers are {answers!r}; expected a mapping of peers to answers")
    sent: dict[str, Any] = {}
    for peer, answer in answers.items():
        if isinstance(answer, str) and callable(canon):
            answer = Answer(answer, canon(answer))
        sent[peer] = {"text": answer.text, "canon": answer.canon} if isinstance(answer, Answer) else answer
    return {"answers": sent, "canon": "auto" if callable(canon) else canon}


def _said(
    decision: str | Decision,
    labels: Mapping[str, object] | None,
    scores: Mapping[str, object] | None,
    id: str | None,
    amend: bool,
) -> dict[str, Any]:
    body: dict[str, Any] = {"decision": _id(decision), "amend": amend}
    for name, said in (("labels", labels), ("scores", scores)):
        if said is not None:
            body[name] = {peer: c.item() if isinstance(c, np.generic) else c for peer, c in said.items()}
    return body if id is None else {**body, "id": id}


def _id(decision: str | Decision) -> str:
    return decision.id if isinstance(decision, Decision) else decision


def _phi(text: str) -> FloatArray:
    return np.frombuffer(b64decode(text), dtype="<f8").astype(np.float64)


def _phi_text(phi: ArrayLike) -> str:
    return b64encode(np.asarray(phi, dtype="<f8").tobytes()).decode()


def _nothing(body: Any) -> None:
    return None


def _lines(body: Mapping[str, Any]) -> int:
    return int(body["lines"])


def _feedback(body: Mapping[str, Any]) -> Feedback:
    return Feedback(**body)


def _batch(body: Mapping[str, Any]) -> list[Feedback | str]:
    return [
        _feedback(each["feedback"]) if each.get("feedback") else str(each["error"]["message"])
        for each in body["results"]
    ]


def _keep_lines(sent: bytes, path: str | os.PathLike[str]) -> int:
    lines = gzip.decompress(sent)
    _keep(sent if os.fspath(path).endswith(".gz") else lines, path)
    return int(json.loads(lines.splitlines()[-1])["lines"])


def _keep(sent: bytes, path: str | os.PathLike[str]) -> None:
    if Path(path).exists():
        raise InputError(f"{os.fspath(path)} is there already; expected the path of a new file")
    with replace_file(path) as temporary:
        temporary.write_bytes(sent)


def _prices(body: Mapping[str, Any]) -> dict[str, Price]:
    return {peer: Price(**price) for peer, price in body["prices"].items()}


def _panel(body: Mapping[str, Any]) -> PanelState:
    answers = {peer: Answer(each["text"], each["canon"]) for peer, each in body["answers"].items()}
    return PanelState(body["panel"], body["next"], body["change"], answers, decision_of(body["decision"]))


def _decisions(body: Mapping[str, Any]) -> Decisions:
    found = [decision_of(each) for each in body["decisions"]]
    return Decisions(lambda: iter(found))


def _trust(body: Mapping[str, Any]) -> TrustByPeer:
    return TrustByPeer(
        {
            peer: PeerTrust(each["prob"], (each["interval"][0], each["interval"][1]), each["effective"])
            for peer, each in body.items()
        }
    )


def _table(body: Mapping[str, Any]) -> TrustTable:
    topics = {topic: _trust(each) for topic, each in body["topics"].items()}
    return TrustTable(body["events"], _trust(body["overall"]), topics)


def _histories(body: Mapping[str, Any]) -> dict[str, History]:
    return {
        peer: History(peer, [HistoryEntry(**entry) for entry in entries])
        for peer, entries in body["histories"].items()
    }


def _moment(moment: Moment | None) -> str | float | None:
    return moment.isoformat() if isinstance(moment, datetime) else moment


def _explanation(body: Mapping[str, Any]) -> Explanation:
    values = {field.name: body[field.name] for field in fields(Explanation)}
    values["prob"] = float("nan") if values["prob"] is None else values["prob"]
    values["basis"] = Basis(**values["basis"])
    values["contributions"] = tuple(Contribution(**each) for each in values["contributions"])
    return Explanation(**values)
