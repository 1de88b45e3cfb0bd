"""Agreement is written at decisions, and horizons are scored by the claims that a decision's line keeps."""

from dataclasses import asdict

import numpy as np
import pytest

from sigma_mem import Settings, SigmaMem
from sigma_mem.memory.basis import bases

PEERS = ["ann", "bob", "cat"]
PHI = np.array([0.6, 0.8])


def memory(**options):
    return SigmaMem(PEERS, rank=2, **{"settings": Settings(revision=2), **options})


def packed(fold):
    return {name: x.tobytes() for part in (fold.state, fold.reads) for name, x in part.pack().items()}


def test_who_agrees_is_preferred_before_any_label():
    mem = memory()
    for i in range(30):
        mem.decide("?", {"ann": f"{i}", "bob": "7", "cat": "7"}, phi=PHI)
    assert mem.route(phi=PHI).peer == "bob"
    assert mem.state.overall()[1].tolist() == [0.0, 0.0, 0.0]  # no label


def test_agreement_can_be_turned_off():
    mem = memory(settings=Settings(revision=2, agreement=False))
    for _ in range(5):
        mem.decide("?", {"ann": "1", "bob": "7", "cat": "7"}, phi=PHI)
    assert set(mem.route(phi=PHI).probs.values()) == {0.5}


@pytest.mark.parametrize("read", ["vote", "decide"])
def test_the_last_answers_before_the_first_label_count(read):
    corrected, plain = memory(), memory()
    first = {"ann": "1", "bob": "1", "cat": "2"}
    last = {"ann": "1", "bob": "2", "cat": "2"}
    d = getattr(corrected, read)("?", first, phi=PHI)
    getattr(corrected, read)("?", last, phi=PHI, after=d.id)
    corrected.feedback(d.id, {"cat": True})
    getattr(corrected, read)("?", first, phi=PHI, after=d.id)
    d = getattr(plain, read)("?", last, phi=PHI)
    plain.feedback(d.id, {"cat": True})
    for mem in (corrected, plain):
        assert mem.state.agreement is not None
    for one, two in zip(*(mem.state.agreement.trace(1.0) for mem in (corrected, plain)), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-15)
    np.testing.assert_allclose(corrected.state.read(PHI).prob, plain.state.read(PHI).prob, atol=1e-3)


@pytest.mark.parametrize("answers", [{"ann": "1"}, {"ann": "1", "bob": None}])
def test_a_single_readable_answer_agrees_with_nobody(answers):
    mem = memory()
    mem.vote("?", answers, phi=PHI)
    assert not mem.state.agreement.trace(1.0)[1].any()


def test_live_and_replay_agree_with_late_amended_and_revoked_labels_and_peers_that_leave():
    rng = np.random.default_rng(0)
    mem, ids = memory(snapshot_every=7), []
    for i in range(120):
        phi = rng.normal(size=2)
        answers = {peer: str(rng.integers(3)) for peer in mem.peers}
        ids.append(mem.decide("?", answers, phi=phi / np.linalg.norm(phi)).id)
        if i == 60:
            mem.remove_peer("bob")
            mem.add_peer("dan")
        if i % 3:
            about = ids[rng.integers(len(ids))]
            known = set(PEERS) if about in ids[:61] else set(mem.peers)
            labels = {peer: bool(rng.random() < 0.6) for peer in sorted(known)}
            mem.feedback(about, labels, source=f"s{rng.integers(2)}", amend=True)
    mem.revoke("s1")
    assert packed(mem.replayed()) == packed(mem)
    with SigmaMem(store=mem.store) as reopened:
        assert packed(reopened) == packed(mem)


def test_a_revoked_source_leaves_the_horizons_as_if_it_had_not_spoken():
    """Recorded claims kept: both memories hear nothing else, so that their claims are the same."""
    with_it, without = memory(), memory()
    for i in range(40):
        answers = {"ann": "1", "bob": "1", "cat": str(i % 2)}
        ids = [mem.decide("?", answers, phi=PHI).id for mem in (with_it, without)]
    with_it.feedback(ids[0], {"ann": True, "bob": False}, source="liar")
    with_it.revoke("liar")
    one, two = with_it.state.horizons, without.state.horizons
    now = with_it.state.now
    np.testing.assert_allclose(one.sums(now), two.sums(now), atol=1e-15)
    np.testing.assert_allclose(one.weights(now), two.weights(now), atol=1e-12)


def test_an_explanation_says_what_the_live_state_rests_on():
    mem = memory()
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
    mem = memory(settings=Settings(revision=1))
    d = mem.decide("?", {"ann": "1", "bob": "1", "cat": "2"}, phi=PHI)
    mem.feedback(d.id, {"ann": True})
    found = mem.explain(mem.route(phi=PHI).id, peer="bob").basis
    assert (found.agreement, found.from_agreement, found.from_pool) == (0.0, 0.0, 1.0)
