"""Sources through the public object: weights are recorded, and only what stands counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sigma_mem import Settings, SigmaMem
from sigma_mem.errors import InputError
from sigma_mem.ledger.lines import FeedbackLine, Line
from sigma_mem.ledger.records import record_of
from sigma_mem.ledger.snapshot import pack_fold
from sigma_mem.store import InMemoryStore

PEERS = ("ann", "bob", "cat")
SOURCES = ("default", "ci", "x", "y")
TRUSTED = [("default",), ("ci",), ("ci", "default"), ()]

labels = st.dictionaries(st.sampled_from(PEERS), st.sampled_from([-1.0, -0.5, 0.0, 1.0]), min_size=1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("decide"), st.integers(0, 3)),
        st.tuples(st.just("say"), st.sampled_from(SOURCES), st.integers(0, 9), labels),
        st.tuples(st.just("say"), st.sampled_from(SOURCES), st.integers(0, 9), labels),
        st.tuples(st.just("say"), st.sampled_from(SOURCES), st.integers(0, 9), labels),
        st.tuples(st.just("revoke"), st.sampled_from(SOURCES)),
        st.tuples(st.just("unrevoke"), st.sampled_from(SOURCES)),
        st.tuples(st.just("snapshot")),
        st.tuples(st.just("reopen")),
    ),
    min_size=10,
    max_size=50,
)


def unit(n: int) -> np.ndarray:
    phi = np.random.default_rng(n).normal(size=4)
    return phi / np.linalg.norm(phi)


def play(mem: SigmaMem, step: tuple[Any, ...], ids: list[str]) -> None:
    match step:
        case ("decide", n):
            answers = {peer: str((n + i) % 2) for i, peer in enumerate(PEERS)}
            ids.append(mem.decide("?", answers, phi=unit(len(ids))).id)
        case ("say", source, event, said) if ids:
            if source not in {one.name for one in mem.sources() if one.revoked}:
                mem.feedback(ids[event % len(ids)], said, source=source, amend=True)
        case ("revoke" | "unrevoke" as what, source):
            mem.revoke(source, undo=what == "unrevoke")
        case ("snapshot",):
            mem.journal.snapshot()


def as_it_stands(mem: SigmaMem) -> SigmaMem:
    """A new memory that was told only what stands, in one line a source and event, with recorded weights."""
    lines = list(mem.journal.ledger.lines())
    revoked = {one.name for one in mem.sources() if one.revoked}
    said: dict[tuple[str, str], Line[FeedbackLine]] = {}
    for line in lines:
        key = line.event, getattr(line.body, "source", "")
        if line.kind == "feedback" and key in said:
            merged = {**said[key].body.labels, **line.body.labels}
            said[key] = said[key]._replace(body=replace(said[key].body, labels=merged))
        elif line.kind == "feedback" and key[1] not in revoked:
            said[key] = line
    store = InMemoryStore()
    for line in (*(x for x in lines if x.kind in ("open", "decision")), *said.values()):
        store.append("default", [record_of(line)])
    return SigmaMem(store=store)


def assert_same(a: SigmaMem, b: SigmaMem) -> None:
    for name in ("M", "N", "G"):
        np.testing.assert_allclose(getattr(a.state, name), getattr(b.state, name), atol=1e-11, err_msg=name)
    for n in range(4):
        assert a.state.alternatives(unit(n)) == pytest.approx(b.state.alternatives(unit(n)), abs=1e-9)
        np.testing.assert_allclose(a.reads.read(unit(n)).prob, b.reads.read(unit(n)).prob, atol=1e-9)
    heard = {one.name: one for one in b.sources()}
    for one in a.sources():
        if not one.revoked:
            assert heard[one.name].weight == pytest.approx(one.weight, abs=1e-9)
            assert heard[one.name].compared == pytest.approx(one.compared, abs=1e-9)


@pytest.mark.parametrize("trusted", TRUSTED, ids=str)
@settings(max_examples=25, deadline=None)
@given(steps=steps)
def test_only_what_stands_counts(trusted: tuple[str, ...], steps: list[tuple[Any, ...]]) -> None:
    """Any labels, amendments, revocations and their undoing, in any order, with restarts in between."""
    store, ids = InMemoryStore(), ["?"][:0]
    mem = SigmaMem(PEERS, store=store, rank=4, settings=Settings(gamma=0.9, trusted=trusted))
    for step in steps:
        play(mem, step, ids)
        if step == ("reopen",):
            mem = SigmaMem(store=store)
    assert_same(mem, as_it_stands(mem))


@pytest.mark.parametrize("trusted", TRUSTED, ids=str)
def test_live_and_replay_agree_bit_for_bit(trusted: tuple[str, ...]) -> None:
    rng = np.random.default_rng(4)
    mem = SigmaMem(PEERS, rank=4, settings=Settings(trusted=trusted), clock=lambda: 0.0)
    ids: list[str] = []
    for n in range(150):
        play(mem, ("decide", n), ids)
        for source in SOURCES:
            if rng.random() < 0.5:
                said = {peer: bool(rng.random() < 0.6) for peer in PEERS}
                mem.feedback(ids[rng.integers(len(ids))], said, source=source, amend=True)
        if n in (50, 90):
            mem.revoke("x")
            mem.revoke("x", undo=True)
    mem.revoke("y")
    with mem.journal as fold:
        assert pack_fold(fold) == pack_fold(mem.journal.replayed())


def test_a_revocation_can_be_taken_back_and_made_again() -> None:
    mem, reference = (SigmaMem(PEERS, rank=4, settings=Settings(trusted=("ci",))) for _ in range(2))
    for n in range(80):
        for memory in (mem, reference):
            d = memory.route(phi=unit(n))
            memory.feedback(d.id, {"ann": True, "bob": n % 3 == 0}, source="ci")
            if n % 2:
                memory.feedback(d.id, {"ann": False, "cat": True}, source="x")
    before = [array.copy() for array in (mem.state.M, mem.state.N, mem.state.G)]
    for _ in range(3):
        assert mem.revoke("x") == mem.revoke("x") == 40
        assert {one.name: one.weight for one in mem.sources()} == {"ci": 1.0, "x": 0.0}
        assert not mem.state.N[2].any() or np.abs(mem.state.N[2]).max() < 1e-12
        assert mem.revoke("x", undo=True) == mem.revoke("x", undo=True) == 40
        for array, then in zip((mem.state.M, mem.state.N, mem.state.G), before, strict=True):
            np.testing.assert_allclose(array, then, atol=1e-12)
    lines = [line.id for line in mem.store.records("default") if line.kind in ("revoke", "unrevoke")]
    assert len(lines) == 6
    mem.feedback(mem.route(phi=unit(0)).id, {"cat": True}, source="x")
    assert mem.revoke("nobody", undo=True) == mem.revoke("nobody") == 0


def test_sources_with_odd_names_can_be_revoked() -> None:
    mem = SigmaMem(PEERS, rank=4)
    d = mem.route(phi=unit(0))
    for source in ("a", "a~1", 'ä "b"', "a~1~1"):
        mem.feedback(d.id, {"ann": True}, source=source)
        for _ in range(2):
            assert mem.revoke(source) == 1
            assert mem.revoke(source, undo=True) == 1
    for source in ("", "a\0b", None):
        with pytest.raises(InputError, match="expected the name of who says so"):
            mem.feedback(d.id, {"ann": True}, source=source)  # type: ignore[arg-type]


def test_a_peer_cannot_label_itself() -> None:
    mem = SigmaMem(PEERS, rank=4)
    d = mem.route(phi=unit(0))
    with pytest.raises(InputError, match="source 'bob' is a peer, and labels itself"):
        mem.feedback(d.id, {"ann": True, "bob": True}, source="bob")
    assert mem.decision(d.id).labels == {}
    mem.feedback(d.id, {"ann": True}, source="bob")
    assert mem.decision(d.id).labels == {"ann": 1.0}


def test_weak_evidence_is_little_evidence() -> None:
    mem = SigmaMem(PEERS, rank=4, settings=Settings(trusted=("ci",)))
    phi = unit(1)
    d = mem.route(phi=phi)
    mem.feedback(d.id, {"ann": True}, source="stranger")
    line = mem.journal.ledger.find("feedback", f"{d.id}/0")
    assert line is not None
    assert line.body.weight == 0.02
    reading = mem.state.read(phi)
    assert reading.effective.tolist() == pytest.approx([0.02, 0.0, 0.0])
    assert reading.score[0] == pytest.approx(0.02 * mem.settings.step)
    told = mem.explain(mem.route(phi=phi).id, peer="ann")
    assert told.contributions[0].weight == 0.02
    assert told.score == pytest.approx(told.contributions[0].share)
    assert "weight 0.02" in str(told)


def test_a_trusted_source_adds_nothing_to_its_line() -> None:
    mem = SigmaMem(PEERS, rank=4)
    d = mem.route(phi=unit(1))
    mem.feedback(d.id, {"ann": True})
    line = mem.journal.ledger.find("feedback", f"{d.id}/0")
    assert line is not None
    assert (line.body.weight, line.body.reliability, line.body.overlap) == (None, None, {})


@pytest.fixture
def lying() -> Iterator[SigmaMem]:
    """Fifty events with an honest source, a colluder beside it, and a stranger with events of its own."""
    mem = SigmaMem(PEERS, rank=4, settings=Settings(trusted=("ci",)))
    for n in range(50):
        d = mem.route(phi=unit(n))
        truth = {"ann": True, "bob": n % 2 == 0, "cat": False}
        mem.feedback(d.id, truth, source="ci")
        mem.feedback(d.id, truth, source="good")
        mem.feedback(d.id, {"ann": False, "bob": False, "cat": True}, source="colluder")
        mem.feedback(mem.route(phi=unit(n)).id, {"ann": False, "cat": True}, source="stranger")
    yield mem
    mem.close()


def test_sources_say_what_each_is_worth(lying: SigmaMem) -> None:
    mem = lying
    by_name = {one.name: one for one in mem.sources()}
    assert list(by_name) == ["ci", "colluder", "good", "stranger"]
    assert by_name["ci"].trusted
    assert by_name["ci"].weight == 1.0
    assert by_name["good"].weight > 0.7
    assert by_name["good"].agreement == pytest.approx(0.92, abs=0.05)
    assert by_name["colluder"].agreement == 0.0
    assert by_name["colluder"].weight < 0.03
    assert by_name["stranger"].agreement is None
    assert by_name["stranger"].weight < 0.03
    assert {one.lines for one in by_name.values()} == {50}
    reading = mem.state.read(unit(1))
    assert reading.prob[0] > 0.8 > 0.2 > reading.prob[2]


def test_revoking_costs_what_the_source_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a revocation nor its replay reads the ledger of others."""
    path = tmp_path / "memory.db"
    with SigmaMem(PEERS, path, rank=4) as mem:
        for n in range(40):
            mem.feedback(mem.route(phi=unit(n)).id, {"ann": True}, source="x" if n % 10 == 0 else "ci")
        read: list[str] = []
        find = type(mem.store).of_event
        monkeypatch.setattr(
            type(mem.store), "of_event", lambda s, n, event: read.append(event) or find(s, n, event)
        )
        monkeypatch.setattr(type(mem.store), "records", None)
        for n in range(50):
            assert mem.revoke(f"nobody{n}") == 0
        assert mem.revoke("x") == 4
        assert mem.revoke("x", undo=True) == 4
        assert mem.revoke("x") == 4
        assert len(read) <= 12
        monkeypatch.undo()
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM snapshot")
        db.commit()
    with SigmaMem(path=path) as mem:
        assert mem.state.read(unit(1)).effective[0] == pytest.approx(
            sum((unit(n) @ unit(1)) ** 2 * mem.settings.gamma ** (39 - n) for n in range(40) if n % 10)
        )
