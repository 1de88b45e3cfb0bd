"""Learn φ and test it on the events it did not see, in the memory that it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sigma_mem.bench.hindsight import domain_oracle
from sigma_mem.bench.league import Progress as Say
from sigma_mem.encode import open_encoder
from sigma_mem.events import FloatArray
from sigma_mem.memory import replay
from sigma_mem.streams import Stream
from sigma_mem.train.phi import PhiSettings, save_phi, train_phi

__all__ = ["learn_and_test"]


def learn_and_test(
    learn: Stream, whole: Stream, encoder: str, out: Path, steps: int, seed: int, say: Say
) -> dict[str, Any]:
    """Fit φ on ``learn``, the leading events of ``whole``; write it; compare it on the events behind.

    Both φ are tested in a memory that went through the whole stream, on the events after the learned ones.
    """
    base = open_encoder(encoder)
    learned = train_phi(learn, base, PhiSettings(steps=steps, seed=seed), say)
    save_phi(learned, out)
    summary: dict[str, Any] = {"file": str(out), **learned.about}
    if len(whole) > len(learn):
        questions = [event.question for event in whole]
        before = _routes(base.encode(questions), whole, len(learn))
        after = _routes(learned.encoder.encode(questions), whole, len(learn))
        summary["test_events"] = len(whole) - len(learn)
        summary["test_peers"] = list(whole.peers)
        summary["test"] = {name: {"default": before[name], "learned": after[name]} for name in before}
    return summary


def _routes(phis: FloatArray, stream: Stream, skip: int) -> dict[str, float]:
    labels = stream.labels()
    past = replay(phis, labels)
    domains = [event.domain for event in stream]
    chosen = {
        "m-route": past.score.argmax(axis=1)[skip:],
        "calibrated-route": past.prob.argmax(axis=1)[skip:],
        "domain-oracle": domain_oracle(labels[skip:], domains[skip:], np.full(labels[skip:].shape, True)),
    }
    tested = labels[skip:]
    rows = np.arange(len(tested))
    return {name: float((tested[rows, peers] > 0).mean()) for name, peers in chosen.items()}
