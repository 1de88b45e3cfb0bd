"""Copies in a memory: found at decisions, worth one vote, and the same live as on replay."""

import numpy as np
import pytest

from learned import all_learned
from sigma_mem import Settings, SigmaMem
from sigma_mem.memory.agreement import centred_agreement

PEERS = ["ann", "bob", "cat", "dan", "eve"]
PHI = np.array([0.6, 0.8])


def memory(**options):
    return SigmaMem(PEERS, rank=2, **options)


def tasks(n, seed=0):
    """Ann and bob are right 4 times in 5, cat twice in 5; dan and eve say what cat says."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        right = rng.random(3) < [0.8, 0.8, 0.4]
        wrong = rng.integers(1, 9, size=3)
        ann, bob, cat = (f"{i}" if r else f"{i} or {w}" for r, w in zip(right, wrong, strict=True))
        phi = rng.normal(size=2)
        answers = {"ann": ann, "bob": bob, "cat": cat, "dan": cat, "eve": cat}
        yield f"{i}", answers, phi / np.linalg.norm(phi)


def recorded(mem, decision):
    """Agreement labels that the decision's line keeps, or None."""
    raw = mem.journal.ledger.find("decision", decision.id).body.agreement
    return np.frombuffer(raw, "<f2") if raw else None


def accuracy(mem, labelled):
    """Share of tasks that `decide` got right, and majority, after the first hundred."""
    decided, most = [], []
    for i, (right, answers, phi) in enumerate(tasks(400)):
        d = mem.decide("?", answers, phi=phi)
        if i % 100 < labelled:
            mem.feedback(d.id, {peer: answer == right for peer, answer in answers.items()})
        decided.append(d.answer == right)
        given = list(answers.values())
        most.append(max(given, key=given.count) == right)
    return np.mean(decided[100:]), np.mean(most[100:])


@pytest.mark.parametrize("labelled", [0, 2])
def test_a_vote_does_not_follow_three_of_five_peers_that_copy_a_weak_one(labelled):
    mem = memory()
    decided, most = accuracy(mem, labelled)
    assert most < 0.5  # majority is what the copies say: the fair baseline stays as it is
    assert decided > 0.7
    d = mem.state.copying()
    assert d[2:, 2:].sum() == pytest.approx(6.0)
    assert not d[:2].any()
    mem.decide("?", dict.fromkeys(PEERS, "7"), phi=PHI)
    assert mem.route(phi=PHI).peer in ("ann", "bob")


def test_without_looking_for_copies_it_does():
    assert accuracy(memory(settings=Settings(agreement=False)), 0)[0] < 0.5


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_colluders_that_hide_behind_noise_are_no_majority(noise):
    """Four peers are right 6 times in 10; five others give one wrong answer, or at times a random one."""
    rng, peers = np.random.default_rng(3), [f"honest{n}" for n in range(4)] + [f"ring{n}" for n in range(5)]
    mem, right, most = SigmaMem(peers, rank=2), [], []
    for _ in range(250):
        lie = f"{rng.integers(1, 9)}"
        said = ["0" if rng.random() < 0.6 else f"{rng.integers(1, 9)}" for _ in range(4)]
        said += [lie if rng.random() >= noise else f"{rng.integers(0, 9)}" for _ in range(5)]
        right.append(mem.decide("?", dict(zip(peers, said, strict=True)), phi=PHI).answer == "0")
        most.append(max(said, key=said.count) == "0")
    assert np.mean(most[100:]) < 0.4
    assert np.mean(right[100:]) > 0.7
    d = mem.state.copying()
    assert d[4:, 4:].sum() > 10.0
    assert not d[:4].any()


@pytest.mark.parametrize("keep_text", [True, False])
def test_live_and_replay_agree_bit_for_bit(keep_text):
    rng = np.random.default_rng(1)
    mem, ids = memory(snapshot_every=37, keep_text=keep_text), []
    for i, (_, answers, phi) in enumerate(tasks(160)):
        known = {peer: answer for peer, answer in answers.items() if peer in mem.peers}
        if i % 4 == 1:
            known["cat"] = None
        d = mem.decide("?", known, phi=phi)
        ids.append(d.id)
        if i % 5 == 0:
            mem.vote("?", {**known, "ann": known["dan"]}, after=d.id)
        if i == 90:
            mem.remove_peer("bob")
            mem.add_peer("fay")
        if i % 3 == 0:
            mem.feedback(ids[rng.integers(len(ids))], {"ann": bool(rng.integers(2)), "cat": True}, amend=True)
    assert sum(bool(x.body.agreement) for x in mem.journal.ledger.lines() if x.kind == "decision") > 50
    assert all_learned(mem.journal.replayed()) == all_learned(mem)
    with SigmaMem(store=mem.store) as reopened:
        assert all_learned(reopened) == all_learned(mem)


def test_a_line_keeps_agreement_only_where_copies_answered():
    mem = memory()
    for _, answers, phi in tasks(300):
        mem.vote("?", answers, phi=phi)
    few = {"ann": "1", "bob": "1", "cat": "2"}
    alone = mem.vote("?", few, phi=PHI)
    together = mem.vote("?", {**few, "dan": "2", "eve": None}, phi=PHI)
    assert recorded(mem, alone) is None
    kept = recorded(mem, together)
    # Ann agrees with bob, who is worth one vote beside the one of cat and dan; eve's answer cannot be read.
    np.testing.assert_allclose(kept, [0.0, 0.0, -1.0, -1.0, -1.0], atol=1e-3)
    assert mem.decision(together.id).canons["dan"] == "2"


def test_the_last_answers_before_the_first_label_count():
    corrected, plain = memory(), memory()
    for _, answers, phi in tasks(100):
        for mem in (corrected, plain):
            mem.vote("?", answers, phi=phi)
    first = {"ann": "1", "bob": "1", "cat": "2", "dan": "2", "eve": "3"}
    last = {"ann": "1", "bob": "2", "cat": "3", "dan": "3", "eve": "3"}
    before, _ = corrected.state.sums["agreement"].copy()
    d = corrected.vote("?", first, phi=PHI)
    counted = corrected.vote("?", last, after=d.id)
    corrected.feedback(d.id, {"cat": True})
    corrected.vote("?", first, after=d.id)
    plain.feedback(plain.vote("?", last, phi=PHI).id, {"cat": True})
    sums = [mem.state.sums for mem in (corrected, plain)]
    one, two = (x["copies"] * x.factors("copies", 101.0) for x in sums)
    np.testing.assert_allclose(one, two, atol=1e-12)
    after, _ = corrected.state.sums["agreement"].copy()
    expected = centred_agreement(recorded(corrected, counted).astype(float))
    np.testing.assert_allclose(after - before, expected, atol=1e-12)
