"""What a memory holds, as plain values: peers, competence, evidence, relation, last decisions."""

from dataclasses import asdict
from typing import Any

import numpy as np

from sigma_mem.answers.features import FEATURES
from sigma_mem.events import Decision
from sigma_mem.memory.spectrum import effective_votes, eigenvalues
from sigma_mem.session import SigmaMem

_RECENT = 1000  # decisions among which a question is looked for that illustrates a direction


def survey(mem: SigmaMem, namespace: str, decisions: int = 8, directions: int = 4) -> dict[str, Any]:
    """Everything `sigma-mem inspect` shows of one memory."""
    state = mem.state
    recent = mem.decisions(_RECENT)
    return {
        "namespace": namespace,
        "namespaces": mem.store.namespaces(),
        "encoder": mem.encoder,
        "rank": state.rank,
        "settings": asdict(state.settings),
        "events": state.clock,
        "peers": _peers(mem),
        "directions": _directions(mem, recent, directions),
        "relation": {peer: state.by_peer(row) for peer, row in zip(mem.peers, state.G, strict=True)},
        "relation_eigenvalues": [float(value) for value in eigenvalues(state.G)],
        "effective_votes": effective_votes(state.G),
        "text_features": dict(zip(FEATURES, state.features.effects(state.now).tolist(), strict=False)),
        "decisions": [_summary(mem, made) for made in recent[:decisions]],
    }


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


def _directions(mem: SigmaMem, recent: list[Decision], count: int) -> list[dict[str, Any]]:
    """Where most was seen: the leading eigenvectors of Σ_p N_p, and what is known of everybody there.

    A direction is illustrated by the recent question whose φ lies nearest to it.
    """
    values, vectors = np.linalg.eigh(mem.state.N.sum(axis=0))
    total = values.sum()
    asked = [made for made in recent if made.question]
    out = []
    for value, vector in list(zip(values, vectors.T, strict=True))[::-1][:count]:
        if total <= 0 or value <= 1e-9 * total:
            break
        reading = mem.state.read(vector)
        near = max(asked, key=lambda made: float(vector @ made.phi) ** 2, default=None)
        out.append(
            {
                "share": float(value / total),
                "like": None if near is None else near.question,
                "probs": mem.state.by_peer(reading.prob),
                "effective": mem.state.by_peer(reading.effective),
                "alternatives": mem.state.alternatives(vector),
            }
        )
    return out


def _summary(mem: SigmaMem, made: Decision) -> dict[str, Any]:
    kept = ("id", "event", "read", "peer", "answer", "confidence", "question")
    return {**{key: getattr(made, key) for key in kept}, "labels": mem.labels(made.id)}
