"""What is handed out shares no memory with the state or the ledger."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sigma_mem import SigmaMem

PEERS = ["a", "b", "c"]


def spoil(value: Any) -> None:
    """Change everything in a value that can be changed, down to the innermost."""
    if isinstance(value, np.ndarray):
        value[...] = 7.0
    elif isinstance(value, dict):
        for key, inner in value.items():
            spoil(inner)
            value[key] = 7.0 if not isinstance(inner, Mapping | list) else inner
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            spoil(inner)
            if not isinstance(inner, Mapping | list):
                value[place] = 7.0


@pytest.mark.parametrize("kept", ["file", "process"])
def test_whoever_changes_what_it_got_changes_nothing_here(tmp_path: Path, kept: str) -> None:
    def taught(path: Path | None, spoiled: bool) -> SigmaMem:
        mem = SigmaMem(PEERS, path, rank=2, clock=lambda: 1.0)
        rng = np.random.default_rng(0)
        for i in range(30):
            phi = rng.normal(size=2)
            answers = {p: f"the answer is {rng.integers(3)}" + " so" * i for p in PEERS}
            d = mem.decide("q", answers, phi=phi / np.linalg.norm(phi))
            said = mem.feedback(d.id, {p: bool(rng.integers(2)) for p in PEERS})
            again, labels = mem.decision(d.id), mem.decision(d.id).labels
            if spoiled:
                for out in (d, again):
                    for name in (
                        "phi",
                        "scores",
                        "probs",
                        "effective",
                        "canons",
                        "features",
                        "details",
                    ):
                        spoil(getattr(out, name))
                spoil(said.labels)
                spoil(labels)
            mem.feedback(d.id, {"a": False}, amend=True)
        return mem

    paths = [tmp_path / f"{n}.db" if kept == "file" else None for n in range(2)]
    plain, spoiled = taught(paths[0], False), taught(paths[1], True)
    for mem in (spoiled.state, spoiled.journal.replayed().state):
        for name, array in plain.state.pack().items():
            np.testing.assert_array_equal(mem.pack()[name], array)
    for one, other in zip(plain.decisions(30), spoiled.decisions(30), strict=True):
        assert (one.features, one.details, one.scores) == (other.features, other.details, other.scores)


def test_late_and_revoked_feedback_is_exact_in_the_wrong_answers_that_compete_after_a_peer_left() -> None:
    phi, bad = np.array([1.0, 0.0]), dict.fromkeys("abx", False)

    def alternatives(what: str) -> float:
        mem = SigmaMem(["a", "b", "x"], rank=2)
        d = mem.vote("q", dict.fromkeys(bad, "5"), phi=phi)
        if what in ("revoked", "on time"):
            mem.feedback(d.id, bad, source="liar")
        mem.remove_peer("x")
        if what == "late":
            mem.feedback(d.id, bad, source="liar")
        if what == "revoked":
            mem.revoke("liar")
        return mem.state.alternatives(phi)

    assert alternatives("revoked") == pytest.approx(alternatives("never said"), rel=1e-12)
    assert alternatives("late") == pytest.approx(alternatives("on time"), rel=1e-12)
    assert alternatives("late") != pytest.approx(alternatives("never said"), rel=1e-3)
