"""Opening, deciding, explaining and living on disk, through the public object."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from learned import learned
from sigma_mem import Answer, Settings, SigmaMem
from sigma_mem.decide import READS, Choice, Read, View
from sigma_mem.errors import EncoderMismatchError, InputError, MissingExtraError
from sigma_mem.ledger.fold import Fold
from sigma_mem.memory.ballots import OPINIONS
from sigma_mem.session import Explanation
from sigma_mem.store.inmemory import InMemoryStore

PEERS = ("ann", "bob", "cat")


def unit(rng: np.random.Generator, rank: int = 8) -> np.ndarray:
    phi = rng.normal(size=rank)
    return phi / np.linalg.norm(phi)


def run(mem: SigmaMem, n: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    open_ids: list[str] = []
    for i in range(n):
        answers = {p: str(rng.integers(3)) for p in mem.peers}
        d = mem.decide(f"question {i}", answers, phi=unit(rng, mem.rank))
        open_ids.append(d.id)
        if rng.random() < 0.7:
            late = open_ids.pop(int(rng.integers(len(open_ids))))
            mem.feedback(
                late, {p: bool(rng.random() < 0.6) for p in mem.peers if rng.random() < 0.8} or {"ann": True}
            )


def bits(mem: SigmaMem) -> dict[str, np.ndarray]:
    return learned(mem.state)


def equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a == b


@pytest.mark.parametrize("snapshot_every", [7, 10_000])
def test_a_restart_continues_bit_for_bit(tmp_path: Path, snapshot_every: int) -> None:
    whole = SigmaMem(PEERS, rank=8, clock=lambda: 1.0)
    parts = tmp_path / "memory.db"
    for part in range(4):
        run(whole, 40, seed=part)
        with SigmaMem(PEERS, parts, rank=8, snapshot_every=snapshot_every, clock=lambda: 1.0) as mem:
            run(mem, 40, seed=part)
    with SigmaMem(path=parts) as mem:
        assert equal(bits(mem), bits(whole))
        assert mem.peers == PEERS


def test_a_lost_snapshot_is_replayed_from_the_ledger(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "memory.db"
    with SigmaMem(PEERS, path, rank=8, clock=lambda: 1.0) as mem:
        run(mem, 60)
        before = bits(mem)
    with sqlite3.connect(path) as db:
        db.execute("delete from snapshot")
    db.close()
    with SigmaMem(path=path) as mem:
        assert equal(before, bits(mem))


def last_peer(view: View) -> Choice:
    return Choice(len(view.prob) - 1, int(view.groups[-1]), np.zeros(0))


TOY = Read("last-peer", "answers", last_peer, lambda view, choice: 0.25, "the peer listed last")


def test_a_read_is_a_value_that_can_be_added() -> None:
    mem = SigmaMem(PEERS, rank=8, reads=READS.with_read(TOY))
    answers = {"ann": "1", "bob": "1", "cat": "2"}
    d = mem.vote("?", answers, phi=np.eye(8)[0], read="last-peer")
    assert (d.read, d.peer) == ("last-peer", "cat")
    assert mem.decide("?", answers, phi=np.eye(8)[0], read="last-peer").peer == "cat"
    with pytest.raises(InputError, match="read is 'last-peer'; expected one of"):
        SigmaMem(PEERS, rank=8).vote("?", answers, phi=np.eye(8)[0], read="last-peer")
    assert "last-peer" not in READS.names


def test_one_event_has_one_phi() -> None:
    mem = SigmaMem(PEERS, rank=8)
    d = mem.route(phi=np.eye(8)[0])
    with pytest.raises(InputError, match="phi differs from that of decision"):
        mem.vote("?", {"ann": "1"}, phi=np.eye(8)[1], after=d.id)
    assert mem.vote("?", {"ann": "1"}, phi=np.eye(8)[0], after=d.id).event == d.id


def test_an_interrupt_between_ledger_and_state_leaves_the_state_of_the_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mem = SigmaMem(PEERS, rank=8)
    run(mem, 20)
    d = mem.route(phi=np.eye(8)[0])
    with monkeypatch.context() as interrupted:

        def interrupt(*args: object) -> None:
            raise KeyboardInterrupt

        interrupted.setattr(Fold, "_write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            mem.feedback(d.id, {"ann": True})
    fresh = mem.journal.replayed()
    assert equal(bits(mem), learned(fresh.state))
    before = mem.state.overall()[1]
    mem.feedback(d.id, {"ann": True})  # a retry finds it in the ledger and in the state
    assert np.array_equal(mem.state.overall()[1], before)


def test_feedback_on_an_event_from_before_the_snapshot_is_not_lost() -> None:
    """Voted on, put into a snapshot, voted on again and labelled; then the process dies."""
    store = InMemoryStore()
    first = SigmaMem(PEERS, store=store, rank=8).vote("old", {"ann": "1", "bob": "2"}, phi=np.eye(8)[0])
    SigmaMem(store=store).journal.snapshot()
    mem = SigmaMem(store=store)
    mem.vote("old", {"ann": "1", "bob": "2"}, after=first.id)
    mem.feedback(first.id, {"ann": True, "bob": False})
    assert mem.state.overall()[1].round(6).tolist() == [1.0, 1.0, 0.0]
    assert equal(bits(SigmaMem(store=store)), bits(mem))


def test_votes_are_judged_although_the_event_was_voted_on_again() -> None:
    mem = SigmaMem(PEERS, rank=8)
    answers = {"ann": "1", "bob": "2", "cat": "2"}
    for _ in range(12):  # ann alone is right, the others agree: routes learn it, a majority never does
        d = mem.decide("question", answers, phi=np.eye(8)[0])
        mem.vote("question", answers, phi=np.eye(8)[0], after=d.id)
        mem.feedback(d.id, {"ann": True, "bob": False, "cat": False})
    assert mem.state.ballots().likelihood.all()
    assert mem.decide("question", answers, phi=np.eye(8)[0]).peer == "ann"


def test_explain_takes_the_score_apart_exactly() -> None:
    mem = SigmaMem(PEERS, rank=8, settings=Settings(gamma=0.97))
    run(mem, 150)
    mem.feedback(mem.route(phi=np.eye(8)[1]).id, {"ann": True}, source="liar")
    mem.revoke("liar")
    rng = np.random.default_rng(7)
    d = mem.decide("the question", {"ann": "1", "bob": "2", "cat": "2"}, phi=unit(rng))
    run(mem, 20, seed=3)  # what comes later is not part of the explanation
    for peer in PEERS:
        why = mem.explain(d.id, peer=peer, top=4)
        assert isinstance(why, Explanation)
        assert why.score == d.scores[peer]
        assert sum(term.share for term in why.contributions) + why.rest == pytest.approx(why.score, abs=1e-12)
        shares = [abs(term.share) for term in why.contributions]
        assert shares == sorted(shares, reverse=True)
        assert all(0 < term.recency <= 1 for term in why.contributions)
    assert d.peer in str(mem.explain(d.id))
    assert "question" in str(mem.explain(d.id))
    with pytest.raises(InputError, match="'eve'"):
        mem.explain(d.id, peer="eve")


def test_decide_learns_which_vote_to_trust() -> None:
    """bob is always right and outvoted: only votes that know him are right."""
    mem = SigmaMem(PEERS, rank=2)
    phi = np.array([1.0, 0.0])
    right = []
    for i in range(60):
        d = mem.decide(None, {"ann": "no", "bob": f"yes {i}", "cat": "no"}, phi=phi)
        mem.feedback(d.id, {"ann": False, "bob": True, "cat": False})
        right.append(d.peer == "bob")
    assert all(right[-30:])
    assert OPINIONS[0].vote == "leader"
    assert mem.state.ballots().likelihood[0] > -6.0  # of sixty labels


def test_a_null_canon_cannot_win() -> None:
    mem = SigmaMem(PEERS, rank=2)
    d = mem.vote(None, {"ann": None, "bob": Answer("?", None), "cat": "7"}, phi=[1.0, 0.0])
    assert (d.peer, d.answer) == ("cat", "7")


def test_namespaces_share_a_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with SigmaMem(PEERS, path, rank=4) as mem:
        other = mem.namespace("other", ["x", "y"], rank=4)
        d = other.route(phi=np.eye(4)[0])
        other.feedback(d.id, {"x": True})
        assert (mem.events, other.events) == (0, 1)
        assert mem.store.namespaces() == ["default", "other"]
        with pytest.raises(InputError):
            mem.feedback(d.id, {"ann": True})
    with SigmaMem(path=path, namespace="other") as other:
        assert other.peers == ("x", "y")
        assert other.state.read(np.eye(4)[0]).effective[0] == pytest.approx(1.0)


def test_opening_with_something_else_than_was_written_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    SigmaMem(PEERS, path, encoder="hashed").close()
    with pytest.raises(EncoderMismatchError, match="hashed"):
        SigmaMem(path=path, encoder="static")
    with pytest.raises(InputError, match="rank"):
        SigmaMem(path=path, rank=3)
    with pytest.raises(InputError, match="settings"):
        SigmaMem(path=path, settings=Settings(gamma=0.5))
    with pytest.raises(InputError, match="add_peer"):
        SigmaMem(["ann", "eve"], path)
    with SigmaMem(path=path) as mem:  # nothing was spoiled, and the file is free again
        assert mem.route("What is 2 + 2?").peer == "ann"


def test_a_memory_of_an_encoder_object_opens_without_it_for_all_but_text(tmp_path: Path) -> None:
    class Own:
        name, version, rank = "own", "7", 2

        def encode(self, texts: Sequence[str]) -> np.ndarray:
            return np.array([[1.0, 0.0]] * len(texts))

    path = tmp_path / "memory.db"
    with SigmaMem(PEERS, path, encoder=Own()) as mem:
        d = mem.route("anything")
    with SigmaMem(path=path) as mem:
        mem.feedback(d.id, {"bob": True})
        assert mem.route(phi=[1.0, 0.0]).peer == "bob"
        with pytest.raises(InputError, match="'own'"):
            mem.route("anything")
    with SigmaMem(path=path, encoder=Own()) as mem:
        assert mem.route("anything").peer == "bob"


def test_a_new_memory_needs_peers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="peers"):
        SigmaMem(path=tmp_path / "memory.db")
    with pytest.raises(InputError, match="distinct"):
        SigmaMem(["a", "a"], rank=2)


def test_select_without_a_center_names_the_extra() -> None:
    mem = SigmaMem(PEERS, rank=2)
    with pytest.raises(MissingExtraError, match=r"sigma-mem\[center\]"):
        mem.decide("q", {"ann": "1"}, phi=[1.0, 0.0], read="select")
    assert mem.events == 0


def test_text_without_an_encoder_is_an_error() -> None:
    with pytest.raises(InputError, match="phi"):
        SigmaMem(PEERS, rank=2).route("hello")


def test_keep_text_off_keeps_no_text() -> None:
    mem = SigmaMem(PEERS, rank=2, keep_text=False)
    d = mem.vote("a secret", {"ann": "another secret"}, phi=[1.0, 0.0])
    assert "secret" not in repr([record.body for record in mem.store.records("default")])
    assert d.answer == "another secret"


def test_an_exploring_route_reports_its_propensity() -> None:
    mem = SigmaMem(PEERS, rank=2, seed=1)
    seen = {mem.route(phi=[1.0, 0.0], explore=True).peer for _ in range(40)}
    assert seen == set(PEERS)
    for _ in range(60):
        mem.feedback(mem.route(phi=[1.0, 0.0]).id, {"ann": True, "bob": False, "cat": False})
    d = mem.route(phi=[1.0, 0.0], explore=True)
    assert d.peer == "ann"
    assert 0.9 < d.propensity <= 1.0


def test_looking_moves_no_anchor() -> None:
    mem = SigmaMem(["a", "b"], rank=2, settings=Settings(gamma=0.5))
    phi = np.array([1.0, 0.0])
    for _ in range(33):
        mem.route(phi=phi)
    for right in (True, False):
        d = mem.decide("?", {"a": "1", "b": "2"}, phi=phi)
        mem.feedback(d.id, {"a": right, "b": not right})
    replayed = mem.journal.replayed()
    assert equal(bits(mem), learned(replayed.state))
