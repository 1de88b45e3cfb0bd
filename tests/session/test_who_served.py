"""Routes among some of the peers, and callers that take another peer than the one chosen."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem import SigmaMem
from sigma_mem.decide.explore import explore, propensities
from sigma_mem.errors import InputError

PEERS = ["ann", "bob", "cat", "dan"]
X = [1.0, 0.0]


@pytest.fixture
def taught():
    mem = SigmaMem(PEERS, rank=2, seed=0)
    for _ in range(10):
        mem.feedback(mem.route(phi=X), {"ann": True, "bob": False, "cat": True, "dan": False})
    return mem


def test_only_candidates_are_chosen(taught):
    assert taught.route(phi=X).peer == "ann"
    d = taught.route(phi=X, among=["dan", "cat"])
    assert (d.peer, d.propensity, d.details["among"]) == ("cat", 1.0, ["cat", "dan"])
    assert set(d.probs) == set(PEERS)  # what is known of the others is still told
    assert taught.route(phi=X, among=["bob", "dan"], read="m-route").peer == "bob"
    assert {taught.route(phi=X, among=["bob", "dan"], explore=True).peer for _ in range(40)} == {"bob", "dan"}


def test_one_candidate_is_certain(taught):
    d = taught.route(phi=X, among=["dan"], explore=True)
    assert (d.peer, d.propensity) == ("dan", 1.0)


@given(
    st.lists(st.floats(0.02, 0.98), min_size=4, max_size=4),
    st.lists(st.floats(0.0, 500.0), min_size=4, max_size=4),
    st.sets(st.integers(0, 3), min_size=1),
)
def test_propensities_are_over_the_candidates(prob, n, allowed):
    rows = np.array(sorted(allowed))
    reading = SigmaMem(PEERS, rank=2).state.read(np.array(X))
    reading = replace(
        reading, prob=np.array(prob), effective=np.array(n), away=lambda: (None, np.zeros(4)), leverage=None
    )
    chances = propensities(reading.prob[rows], reading.observations[rows])
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    drawn = explore(reading, np.random.default_rng(0), rows)
    assert drawn.propensity == chances[drawn.peer]


def test_propensities_are_the_shares_of_draws(taught):
    d = [taught.route(phi=X, among=["ann", "cat"], explore=True) for _ in range(400)]
    told = np.mean([x.propensity if x.peer == "ann" else 1.0 - x.propensity for x in d])
    assert np.mean([x.peer == "ann" for x in d]) == pytest.approx(told, abs=0.08)


@pytest.mark.parametrize(
    ("among", "message"),
    [
        ([], "among is empty"),
        (["eve"], "among names 'eve'"),
        ("ann", r"expected a list of names, such as \['ann'\]"),
    ],
)
def test_other_candidates_are_refused(taught, among, message):
    before = taught.events
    with pytest.raises(InputError, match=message):
        taught.route(phi=X, among=among)
    with pytest.raises(InputError, match=message):
        taught.vote(None, {"ann": "4"}, phi=X, among=among)
    assert taught.events == before


def test_a_vote_among_some_leaves_the_others_out(taught):
    answers = {"ann": "4", "bob": "5", "cat": "4", "dan": "5"}
    for call in (taught.vote, taught.decide):
        d = call(None, answers, phi=X, among=["bob", "dan"])
        assert (d.answer, set(d.canons)) == ("5", {"bob", "dan"})


def test_who_answered_is_recorded(tmp_path):
    path = tmp_path / "m.db"
    with SigmaMem(PEERS, path, rank=2) as mem:
        d = mem.route(phi=X)
        said = mem.served(d, "cat")
        assert (said.peer, said.served, said.propensity) == ("ann", "cat", 0.0)
        assert mem.decision(d).served == mem.decisions(1)[0].served == "cat"
        mem.feedback(d, {"cat": True})
        again = mem.route(phi=X)
        assert again.peer == "cat"
        assert mem.served(again).propensity == 1.0
    with SigmaMem(path=path) as mem:
        assert [x.served for x in mem.decisions(2)] == ["cat", "cat"]
        assert mem.decision(d.id).propensity == 0.0
        assert "not chosen (ann was), and it answered instead" in str(mem.explain(d, peer="cat"))
        assert "chosen, and cat answered instead" in str(mem.explain(d))
        assert "instead" not in str(mem.explain(again))
        assert mem.explain(d).served == "cat"


def test_the_last_one_counts_and_the_same_again_changes_nothing(taught):
    d = taught.route(phi=X)
    taught.served(d, "bob")
    lines = taught.journal.replayed().seq
    taught.served(d, "bob")
    assert taught.journal.replayed().seq == lines
    assert taught.served(d, "dan").served == "dan"
    assert taught.served(d).propensity == 1.0


def test_two_decisions_of_an_event_may_be_served_by_two(taught):
    first = taught.route(phi=X)
    second = taught.route(after=first, among=["dan"])
    taught.served(first, "bob")
    taught.served(second, "cat")
    assert [taught.decision(x).served for x in (first, second)] == ["bob", "cat"]


def test_unknown_peers_are_refused(taught):
    d = taught.route(phi=X)
    with pytest.raises(InputError, match="peer is 'eve'; expected one of the peers at that time"):
        taught.served(d, "eve")
    nobody = taught.vote(None, {"ann": None}, phi=X)
    with pytest.raises(InputError, match="chose nobody"):
        taught.served(nobody)


def test_what_peers_wrote_is_kept_and_forgotten():
    mem = SigmaMem(["ann", "bob", "cat"], encoder="hashed")
    voted = mem.vote("2 + 2?", {"ann": "4", "bob": "It is FOUR, I think.", "cat": "It is 4."}, canon="number")
    assert voted.answers == {}
    assert mem.decision(voted).answers == {"ann": "4", "bob": "It is FOUR, I think.", "cat": "It is 4."}
    routed = mem.route("Capital of Peru?")
    mem.served(routed, "cat", answer="Lima.")
    mem.served(routed, "cat", answer="Lima, of course.")
    assert mem.decision(routed).answers == {"cat": "Lima, of course."}
    mem.rename_peer("cat", "kit")
    assert mem.decision(routed).answers == {"cat": "Lima, of course."}
    assert mem.forget(text="of course") == 1
    assert mem.forget(text="i think") == 1
    secret = SigmaMem(["ann", "bob"], encoder="hashed", keep_text=False)
    voted = secret.vote("2 + 2?", {"ann": "It is 4.", "bob": "It is 5."})
    secret.served(voted, "bob", answer="It is 5.")
    assert secret.decision(voted).answers == {}
