"""A ref is a durable name of an event, and a Decision is taken wherever an id is."""

import sqlite3

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.errors import ConflictError, InputError, UnknownDecisionError
from sigma_mem.session.checks import NewRef
from sigma_mem.store.sqlite import SqliteStore

X, Y = np.eye(2)


def memory(path=None, **settings):
    return SigmaMem(None if path and path.exists() else ["ann", "bob"], path, rank=2, **settings)


@pytest.fixture(params=["in memory", "in a file"])
def mem(request, tmp_path):
    with memory(tmp_path / "m.db" if request.param == "in a file" else None) as opened:
        yield opened


def test_the_same_ref_is_the_same_event(mem):
    first = mem.route(phi=X, ref="trace-7")
    again = mem.vote(None, {"ann": "4", "bob": "5"}, ref="trace-7")
    other = mem.route(phi=X, ref="trace-8")
    assert first.ref == again.ref == mem.decision(again.id).ref == "trace-7"
    assert again.event == first.event != other.event
    assert mem.events == 2


def test_a_new_ref_is_not_looked_up_and_one_that_is_in_use_is_refused(mem):
    first = mem.route(phi=X, ref=NewRef("trace-7"))
    assert mem.decision("trace-7").event == first.event
    with pytest.raises(ConflictError, match="trace-7"):
        mem.route(phi=X, ref=NewRef("trace-7"))
    assert mem.events == 1


def test_a_ref_outlives_a_restart(tmp_path):
    path = tmp_path / "m.db"
    with memory(path) as mem:
        d = mem.route(phi=X, ref="trace-7")
    with memory(path) as mem:
        assert mem.feedback("trace-7", {"ann": True}).event == d.event
        assert mem.decision("trace-7").labels == {"ann": 1.0}
        assert mem.explain("trace-7").decision == d.id
        assert mem.decision("trace-7").id == d.id
        assert mem.served("trace-7", "bob").served == "bob"
        assert mem.route(after="trace-7").event == d.event
        assert mem.route(phi=X, ref="trace-7").event == d.event


def test_a_ref_stands_for_the_last_decision_of_its_event(mem):
    mem.route(phi=X, ref="trace-7")
    vote = mem.vote(None, {"ann": "4"}, ref="trace-7")
    assert mem.decision("trace-7").id == mem.explain("trace-7").decision == vote.id


def test_an_event_can_be_named_later_and_twice(mem):
    d = mem.route(phi=X)
    mem.route(after=d, ref="one")
    mem.route(after=d, ref="two")
    assert mem.route(ref="one").event == mem.route(after=d, ref="two").event == d.event


def test_two_names_that_mean_different_events_are_refused(mem):
    mem.route(phi=X, ref="one")
    other = mem.route(phi=X)
    with pytest.raises(ConflictError, match="ref 'one' names event"):
        mem.route(after=other, ref="one")
    assert mem.events == 2


@pytest.mark.parametrize("ref", ["", "a\0b", "x" * 513, 7])
def test_a_ref_is_a_text(mem, ref):
    with pytest.raises(InputError, match="ref is"):
        mem.route(phi=X, ref=ref)
    assert mem.events == 0


def test_a_ref_cannot_be_taken_for_the_id_of_a_decision(mem):
    d = mem.route(phi=X)
    for ref in (d.id, "0123abcd-99"):
        with pytest.raises(InputError, match="form of a decision's id"):
            mem.route(phi=X, ref=ref)
    assert mem.events == 1


def test_a_ref_keeps_phi(mem):
    d = mem.route(phi=X, ref="one")
    with pytest.raises(InputError, match="an event has one φ"):
        mem.route(phi=Y, ref="one")
    assert np.array_equal(mem.route(ref="one").phi, d.phi)


def test_an_unknown_ref_is_an_unknown_decision(mem):
    for call in (
        lambda: mem.feedback("nope", {"ann": True}),
        lambda: mem.explain("nope"),
        lambda: mem.served("nope", "ann"),
        lambda: mem.route(after="nope"),
    ):
        with pytest.raises(UnknownDecisionError, match="or the ref of its event"):
            call()


def test_refs_are_by_namespace(tmp_path):
    with memory(tmp_path / "m.db") as mem:
        other = mem.namespace("other", ["ann"], rank=2)
        mem.route(phi=X, ref="one")
        with pytest.raises(UnknownDecisionError):
            other.feedback("one", {"ann": True})
        other.route(phi=Y, ref="one")
        assert mem.decision("one").phi[0] == 1.0 != other.decision("one").phi[0]


def test_a_decision_is_taken_wherever_an_id_is(mem):
    d = mem.route(phi=X)
    assert mem.feedback(d, {"ann": True}).event == d.event
    assert mem.explain(d).decision == mem.decision(d).id == mem.served(d).id == d.id
    assert mem.route(after=d).event == d.event
    assert mem.decision(d).labels == {"ann": 1.0}
    with pytest.raises(InputError, match="expected a Decision, its id"):
        mem.feedback(7, {"ann": True})


def test_a_ref_is_found_by_an_index(tmp_path):
    with memory(tmp_path / "m.db") as mem:
        mem.route(phi=X, ref="one")
    with sqlite3.connect(tmp_path / "m.db") as db:
        query = "SELECT event FROM record WHERE namespace = 1 AND kind = '=ref' AND id = 'one'"
        assert len(db.execute(query).fetchall()) == 1
        (plan,) = db.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
    assert "USING INDEX record_by_id" in plan[3]
    db.close()


def test_a_new_ref_is_looked_up_once(tmp_path, monkeypatch):
    looked_up, find = [], SqliteStore.find
    monkeypatch.setattr(
        SqliteStore, "find", lambda store, *key: looked_up.append(key[-1]) or find(store, *key)
    )
    with SigmaMem(["ann", "bob"], tmp_path / "m.db", encoder="hashed") as mem:
        d = mem.route("What is 17 * 23?", ref="trace-1")
        assert looked_up.count("trace-1") == 1
        assert mem.route("What is 17 * 23?", ref="trace-1").event == d.event
