"""Trust that travels: what a memory knows of its peers, as an extension of their A2A agent cards."""

import json
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from sigma_mem.errors import InputError
from sigma_mem.session import SigmaMem
from sigma_mem.session.trust import PeerTrust

URI = "urn:sigma-mem:trust:1"


def trust_extension(mem: SigmaMem, peer: str) -> dict[str, Any]:
    """An `AgentExtension` for the card of a peer: how far it can be trusted, overall and by topic.

    Its ``params`` follow `trust_schema`. Numbers are current: publish the card again when they have changed.

    >>> extension = trust_extension(SigmaMem(["ann", "bob"], encoder="hashed", clock=lambda: 0.0), "ann")
    >>> extension["params"]["asOf"], extension["params"]["overall"]["probability"]
    ('1970-01-01T00:00:00Z', 0.5)
    """
    trust = mem.trust()
    if peer not in trust:
        raise InputError(f"peer is {peer!r}; expected one of {list(trust)}")
    overall = trust[peer]
    last = None if overall.last is None else _date(overall.last)
    params = {
        "agent": peer,
        "asOf": _date(mem.clock()),
        "events": trust.events,
        "overall": {**_described(overall), "labels": overall.labels, "lastLabel": last},
        "topics": {topic: _described(found[peer]) for topic, found in trust.topics.items()},
    }
    told = "How often this agent's answers were right, by the labels of whoever publishes this card."
    return {"uri": URI, "description": told, "required": False, "params": params}


def trust_schema() -> dict[str, Any]:
    """The JSON schema of an extension's ``params``."""
    found: dict[str, Any] = json.loads(
        files("sigma_mem.admin").joinpath("a2a-trust-1.json").read_text(encoding="utf-8")
    )
    return found


def _described(found: PeerTrust) -> dict[str, Any]:
    low, high = found.interval
    return {
        "probability": round(found.prob, 4),
        "interval": [round(low, 4), round(high, 4)],
        "evidence": round(found.effective, 2),
    }


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
