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
    """A new memory that was told only what stands, with recorded weights.

    A source has one line an event for what it said before a trusted one, and one for what it said afterwards.
    """
    lines = list(mem.journal.ledger.lines())
    revoked = {one.name for one in mem.sources() if one.revoked}
    said: dict[tuple[str, str, bool], Line[FeedbackLine]] = {}
    for line in lines:
        key = line.event, getattr(line.body, "source", ""), getattr(line.body, "told", False)
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
        np.testing.assert_allclose(a.state.read(unit(n)).prob, b.state.read(unit(n)).prob, atol=1e-9)
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
        with pytest.raises(InputError, match="expected the name of a source"):
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
        mem.feedback(d.id, truth, source="good")
        mem.feedback(d.id, {"ann": False, "bob": False, "cat": True}, source="colluder")
        mem.feedback(d.id, truth, source="ci")
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


LIE = {"ann": False, "bob": False, "cat": True}


def honest_where(mem: SigmaMem, attack: str) -> None:
    """A trusted source labels one event in five; x says the same there, and lies everywhere else."""
    rng = np.random.default_rng(7)
    for n in range(400):
        d = mem.route(phi=unit(n % 40))
        truth = {peer: bool(rng.random() < right) for peer, right in zip(PEERS, (0.9, 0.6, 0.1), strict=True)}
        checked = n % 5 == 0
        if attack in ("amended", "always"):
            mem.feedback(d, LIE, source="x")
        elif attack == "completed":
            mem.feedback(d, {"cat": truth["cat"]} if checked else LIE, source="x")
        elif attack == "foreseen":
            mem.feedback(d, truth if checked else LIE, source="x")
        if checked:
            mem.feedback(d, {"ann": truth["ann"]} if attack == "others" else truth, source="ci")
        if attack == "echoed":
            mem.feedback(d, truth if checked else LIE, source="x")
        elif attack == "others":  # nobody else labels bob and cat
            mem.feedback(d, {**LIE, "ann": truth["ann"]} if checked else LIE, source="x")
        elif attack in ("amended", "completed") and checked:
            mem.feedback(d, truth, source="x", amend=True)


@pytest.mark.parametrize("attack", ["always", "echoed", "amended", "completed", "foreseen", "others"])
def test_a_source_that_lies_only_where_nobody_checks_changes_no_route(attack: str) -> None:
    mem = SigmaMem(PEERS, rank=4, settings=Settings(trusted=("ci",)), seed=0)
    honest_where(mem, attack)
    if attack in ("always", "echoed", "amended", "others"):
        assert {one.name: one.weight for one in mem.sources()}["x"] <= 0.02
    assert all(mem.route(phi=unit(n)).peer == "ann" for n in range(40))


def test_who_repeats_a_trusted_source_weighs_little_until_it_speaks_first() -> None:
    mem = SigmaMem(PEERS, rank=4, settings=Settings(trusted=("ci",)))

    def weight_after(events: int, first: bool) -> float:
        for n in range(events):
            d = mem.route(phi=unit(n))
            truth = {"ann": n % 4 > 0, "bob": n % 2 == 0, "cat": n % 4 == 0}
            for source in ("x", "ci") if first else ("ci", "x"):
                mem.feedback(d, truth, source=source)
        return {one.name: one.weight for one in mem.sources()}["x"]

    assert weight_after(60, first=False) <= 0.02
    assert weight_after(12, first=True) > 0.4
    assert weight_after(60, first=False) > 0.4


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


def test_a_label_may_have_a_share_of_its_sources_weight():
    labels = {"ann": True, "bob": False}
    found = {}
    for weight in (1.0, 0.5):
        mem = SigmaMem(["ann", "bob"], encoder="hashed", settings=Settings(trusted=()))
        d = mem.route("What is 2 + 2?")
        mem.feedback(d.id, labels, source="rubric", weight=weight)
        trust = mem.trust("What is 2 + 2?")
        found[weight] = (trust["ann"].effective, trust["ann"].prob)
        mem.feedback(d.id, labels, source="rubric", weight=weight)  # again: nothing changes
        mem.feedback(d.id, {"ann": 0.9}, source="rubric", weight=weight, amend=True)  # weighs as at first
        assert mem.trust("What is 2 + 2?")["ann"].effective == trust["ann"].effective
    assert found[0.5][0] == pytest.approx(found[1.0][0] / 2)
    assert 0.5 < found[0.5][1] < found[1.0][1]  # little evidence, and not evidence of one half


def test_a_trusted_source_weighs_one_and_a_weight_is_a_share():
    mem = SigmaMem(["ann"], encoder="hashed", settings=Settings(trusted=("ci",)))
    d = mem.route("What is 2 + 2?")
    with pytest.raises(InputError, match="'ci', which is trusted and weighs 1"):
        mem.feedback(d.id, {"ann": True}, source="ci", weight=0.5)
    for weight in (0.0, -1.0, 2.0, "much"):
        with pytest.raises(InputError, match="weight is"):
            mem.feedback(d.id, {"ann": True}, source="rubric", weight=weight)
    assert mem.decision(d.id).labels == {}
