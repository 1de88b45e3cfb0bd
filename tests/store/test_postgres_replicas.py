"""Several processes write one memory: nothing is lost or doubled, and all have the state of the ledger."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sigma_mem import SigmaMem
from sigma_mem.errors import ConflictError, UnknownDecisionError

PEERS = ["ann", "bob", "cyd"]
PHI = [1.0] + [0.0] * 7
OTHER = [0.0, 1.0] + [0.0] * 6


@pytest.fixture
def two(postgres):
    """Two memories that share nothing but the database, as two processes would."""
    with SigmaMem(PEERS, postgres, rank=8) as one, SigmaMem(PEERS, postgres, rank=8) as other:
        yield one, other


def within_a_second(what):
    deadline = time.monotonic() + 1.0
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_each_reads_what_the_other_wrote_within_a_second(two, bits):
    one, other = two
    for n in range(5):
        decision = one.route(phi=PHI)
        one.feedback(decision.id, {"ann": True, "bob": n % 2 == 0})
    within_a_second(lambda: other.events == 5)
    within_a_second(lambda: other.trust(phi=PHI) == one.trust(phi=PHI))
    assert bits(other) == bits(one) == bits(one.journal.replayed())


def test_feedback_goes_to_any_of_them_at_once(two, bits):
    one, other = two
    decision = one.decide(None, {"ann": "1", "bob": "1", "cyd": "2"}, phi=PHI, ref="task-1")
    taken = other.feedback(decision.id, {"ann": True})  # no second needs to pass
    assert taken.event == decision.event
    one.feedback(decision.id, {"ann": True})  # the same again is no other line
    assert [r.kind for r in one.store.of_event("default", decision.id)].count("feedback") == 1
    with pytest.raises(ConflictError, match="labelled"):
        one.feedback("task-1", {"ann": False})
    assert other.decide(None, {"ann": "1", "bob": "2"}, phi=PHI, ref="task-1").event == decision.event
    within_a_second(lambda: bits(one) == bits(other))
    assert bits(one) == bits(one.journal.replayed())


def test_automatic_ids_are_of_one_process(two):
    one, other = two
    ids = [mem.route(phi=PHI).id for _ in range(20) for mem in two]
    assert len(set(ids)) == 40
    said = [mem.feedback(ids[0], {"ann": n / 10}, amend=True).id for n in range(1, 6) for mem in two]
    lines = [r.id for r in one.store.records("default") if r.kind == "feedback"]
    assert len(set(lines)) == len(lines)
    assert set(lines) <= set(said)
    assert other.store.verify() == len(list(one.store.records("default")))


def test_the_same_feedback_sent_to_both_is_taken_once(two):
    decision = two[0].route(phi=PHI)
    two[0].store.flush()
    with ThreadPoolExecutor(8) as pool:
        taken = list(
            pool.map(lambda n: two[n % 2].feedback(decision.id, {"ann": True}, id="mine"), range(16))
        )
    assert {t.id for t in taken} == {"mine"}
    assert [r.id for r in two[0].store.records("default") if r.kind == "feedback"] == ["mine"]


def test_peers_sources_and_forgetting_reach_the_other(two, bits):
    one, other = two
    decisions = [one.route(phi=phi) for phi in (PHI, OTHER, PHI)]
    for decision in decisions:
        other.feedback(decision.id, {"ann": True, "bob": False}, source="tests")
    one.add_peer("dan")
    assert other.feedback(other.route(phi=OTHER).id, {"dan": True}).labels == {"dan": 1.0}
    other.revoke("tests")
    one.forget(decisions[0])
    with pytest.raises(UnknownDecisionError, match="forgotten"):
        other.feedback(decisions[0].id, {"ann": True})
    one.revoke("tests", undo=True)
    other.rename_peer("cyd", "cyd-2")
    other.set_price("ann", per_call=0.5)
    within_a_second(lambda: one.spent().prices.keys() == {"ann"})
    within_a_second(lambda: one.peers == other.peers == ("ann", "bob", "cyd-2", "dan"))
    within_a_second(lambda: bits(one) == bits(other))
    assert bits(one) == bits(one.journal.replayed())


def test_a_reader_follows_both(postgres, two):
    with SigmaMem(path=postgres, readonly=True) as reader:
        for n in range(1, 5):
            two[n % 2].route(phi=PHI)
            within_a_second(lambda n=n: reader.events == n)


def test_tenants_do_not_wait_for_each_other(postgres, two):
    one, other = two
    mine = one.namespace("mine", PEERS, rank=8)
    with other.store.turn("default"):
        mine.feedback(mine.route(phi=PHI).id, {"ann": True})
    assert mine.events == 1
