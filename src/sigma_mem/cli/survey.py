"""What a memory holds, as plain values: peers, competence, evidence, relation, last decisions."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from typing import Any

import numpy as np

from sigma_mem.answers.features import FEATURES
from sigma_mem.events import FloatArray
from sigma_mem.memory.spectrum import effective_votes, eigenvalues
from sigma_mem.session import SigmaMem
from sigma_mem.session.fold import phi_from_bytes
from sigma_mem.store.base import Record, Store

__all__ = ["survey"]

_RECENT = 2000  # lines of the ledger that are looked through for questions and decisions


def survey(
    mem: SigmaMem, store: Store, namespace: str, decisions: int = 8, directions: int = 4
) -> dict[str, Any]:
    """Everything `sigma-mem inspect` shows of one memory."""
    state = mem.state
    first = next(iter(store.records(namespace)))
    lines = _recent(store, namespace)
    return {
        "namespace": namespace,
        "namespaces": store.namespaces(),
        "encoder": first.body["encoder"],
        "rank": state.rank,
        "settings": asdict(state.settings),
        "events": state.clock,
        "peers": _peers(mem),
        "directions": _directions(mem, lines, directions),
        "relation": {peer: _by_peer(mem, row) for peer, row in zip(mem.peers, state.G, strict=True)},
        "relation_eigenvalues": [float(value) for value in eigenvalues(state.G)],
        "effective_votes": effective_votes(state.G),
        "text_features": dict(zip(FEATURES, state.features.effects(state.now).tolist(), strict=False)),
        "decisions": _decisions(lines, decisions),
    }


def _by_peer(mem: SigmaMem, values: FloatArray) -> dict[str, float]:
    return {peer: float(value) for peer, value in zip(mem.peers, values, strict=True)}


def _peers(mem: SigmaMem) -> dict[str, dict[str, float]]:
    """Overall rate of being right, labels behind it, and the ends of M's spectrum, per peer."""
    rate, labels = mem.state.overall()
    spectrum = eigenvalues(mem.state.M)
    return {
        peer: {
            "prob": float(rate[i]),
            "evidence": float(labels[i]),
            "largest_eigenvalue": float(spectrum[i, 0]),
            "smallest_eigenvalue": float(spectrum[i, -1]),
        }
        for i, peer in enumerate(mem.peers)
    }


def _directions(mem: SigmaMem, lines: list[Record], count: int) -> list[dict[str, Any]]:
    """Where most was seen: the leading eigenvectors of Σ_p N_p, and what is known of everybody there.

    A direction is illustrated by the recent question whose φ lies nearest to it.
    """
    values, vectors = np.linalg.eigh(mem.state.N.sum(axis=0))
    total = values.sum()
    asked = [(line.body["question"], phi_from_bytes(line.phi)) for line in lines if _asks(line)]
    out = []
    for value, vector in list(zip(values, vectors.T, strict=True))[::-1][:count]:
        if total <= 0 or value <= 1e-9 * total:
            break
        reading = mem.state.read(vector)
        out.append(
            {
                "share": float(value / total),
                "like": max(asked, key=lambda pair: float(vector @ pair[1]) ** 2)[0] if asked else None,
                "probs": _by_peer(mem, reading.prob),
                "effective": _by_peer(mem, reading.effective),
                "alternatives": mem.state.alternatives(vector),
            }
        )
    return out


def _asks(line: Record) -> bool:
    return line.kind == "decision" and bool(line.body["question"])


def _recent(store: Store, namespace: str) -> list[Record]:
    """The last lines of the ledger; a snapshot spares the walk through all of it."""
    snapshot = store.load_snapshot(namespace)
    start = 0 if snapshot is None else max(0, snapshot.seq - _RECENT)
    return list(deque(store.records(namespace, after=start), maxlen=_RECENT))


def _decisions(lines: list[Record], count: int) -> list[dict[str, Any]]:
    """The last decisions, newest first, each with what has been said of its event."""
    said: dict[str, dict[str, float]] = {}
    for line in lines:
        if line.kind == "feedback":
            said.setdefault(line.event, {}).update(line.body["labels"])
    made = [line for line in lines if line.kind == "decision"][-count:]
    kept = ("read", "peer", "answer", "confidence", "question")
    return [
        {"id": line.id, "event": line.event, "labels": said.get(line.event, {})}
        | {key: line.body[key] for key in kept}
        for line in reversed(made)
    ]
