"""What p̂ rests on: an explanation and the live state agree, and the weights add up to 1."""

from dataclasses import asdict

import numpy as np
import pytest

from sigma_mem import Settings, SigmaMem
from sigma_mem.memory.basis import bases

PEERS = ["ann", "bob", "cat"]
PHI = np.array([0.6, 0.8]).astype(np.float32).astype(np.float64)  # as a ledger keeps it


def test_an_explanation_says_what_the_live_state_rests_on():
    mem = SigmaMem(PEERS, rank=2, settings=Settings(revision=2))
    rng = np.random.default_rng(0)
    for i in range(40):
        phi = rng.normal(size=2)
        d = mem.decide("?", {"ann": "1", "bob": f"{i % 3}", "cat": None}, phi=phi / np.linalg.norm(phi))
        if i % 4 == 0:
            mem.feedback(d.id, {"ann": True, "bob": False})
    expected = bases(mem.state, PHI)
    d = mem.route(phi=PHI)
    for peer in PEERS:
        found = mem.explain(d.id, peer=peer).basis
        assert asdict(found) == pytest.approx(asdict(expected[peer]), rel=1e-9)
        parts = (found.from_labels, found.from_overall, found.from_agreement, found.from_pool)
        assert sum(parts) == pytest.approx(1.0)
        assert all(part >= 0.0 for part in parts)
    assert mem.explain(d.id, peer="cat").basis.labels == 0.0
    assert "agreement" in str(mem.explain(d.id, peer="cat"))


def test_a_memory_without_agreement_rests_on_labels_and_the_pool():
    mem = SigmaMem(PEERS, rank=2, settings=Settings(revision=1))
    d = mem.decide("?", {"ann": "1", "bob": "1", "cat": "2"}, phi=PHI)
    mem.feedback(d.id, {"ann": True})
    found = mem.explain(mem.route(phi=PHI).id, peer="bob").basis
    assert (found.agreement, found.from_agreement, found.from_pool) == (0.0, 0.0, 1.0)
