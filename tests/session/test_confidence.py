"""Confidence and abstention as a session gives them."""

from functools import partial

import numpy as np
import pytest

from sigma_mem import Settings, SigmaMem
from sigma_mem.errors import InputError

PHI = np.array([1.0, 0.0])
PEERS = ["ann", "bob", "cat"]


def herd(n_events, right=0.55):
    """Three peers that always say the same: as sure as a vote can be, and right half of the time."""
    rng = np.random.default_rng(0)
    mem = SigmaMem(PEERS, rank=2)
    for _ in range(n_events):
        d = mem.decide("?", dict.fromkeys(PEERS, "7"), phi=PHI)
        mem.feedback(d.id, dict.fromkeys(PEERS, bool(rng.random() < right)))
    return mem


def test_votes_that_are_not_independent_are_not_believed_as_if_they_were():
    d = herd(300).decide("?", dict.fromkeys(PEERS, "7"), phi=PHI)
    assert d.confidence == pytest.approx(0.55, abs=0.08)
    old = SigmaMem(PEERS, rank=2, settings=Settings())
    assert old.vote("?", dict.fromkeys(PEERS, "7"), phi=PHI).confidence != d.confidence


@pytest.mark.parametrize("ask", ["vote", "decide"])
def test_a_decision_that_is_not_sure_enough_abstains_and_says_so(ask):
    mem = herd(300)
    d = getattr(mem, ask)("?", dict.fromkeys(PEERS, "7"), phi=PHI, min_confidence=0.9)
    assert (d.peer, d.answer) == (None, None)
    assert d.details["abstained"]["peer"] in PEERS
    assert d.details["abstained"]["confidence"] < d.details["abstained"]["expected"] == 0.9
    assert mem.decision(d.id).peer is None
    assert "nobody" in str(mem.explain(d.id))
    mem.feedback(d.id, {"ann": True})
    d = getattr(mem, ask)("?", dict.fromkeys(PEERS, "7"), phi=PHI, min_confidence=0.3)
    assert d.answer == "7"


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_an_impossible_share_is_refused(share):
    with pytest.raises(InputError, match="min_confidence"):
        SigmaMem(PEERS, rank=2).vote("?", {"ann": "1"}, phi=PHI, min_confidence=share)


@pytest.mark.parametrize("silent", [None, "", "not asked"])
def test_a_peer_without_an_answer_is_not_chosen_while_others_have_one(silent):
    mem = SigmaMem(["best", *PEERS], rank=2)
    for _ in range(60):
        d = mem.route(phi=PHI)
        mem.feedback(d.id, {"best": True, "ann": False, "bob": False, "cat": False})
    answers = {"ann": "I am not sure", "bob": "none of these", "best": silent}
    if silent == "not asked":
        del answers["best"]
    for read in mem.reads.votes:
        assert mem.vote("?", answers, phi=PHI, read=read).peer in ("ann", "bob")
    d = mem.decide("?", answers, phi=PHI)
    assert d.answer
    assert d.peer in ("ann", "bob")


def test_where_no_answer_can_be_read_votes_abstain_and_are_learned_from():
    mem = SigmaMem(PEERS, rank=2)
    answers = {"ann": "hm", "bob": "…", "cat": None}
    asked = [partial(mem.vote, read=read) for read in mem.reads.votes]
    for ask in (*asked, mem.decide, partial(mem.decide, min_confidence=0.0)):
        d = ask("?", answers, phi=PHI, canon=lambda text: None)
        assert (d.peer, d.answer, d.confidence) == (None, None, 0.0)
        assert d.details["abstained"]["peer"] is None
        mem.feedback(d.id, {"ann": True, "bob": False})
    assert mem.route(phi=PHI).peer == "ann"
    assert mem.explain(d.id, peer="ann").chosen == "nobody"
    with pytest.raises(InputError, match="peer="):
        mem.explain(d.id)
    replayed = mem.journal.replayed()
    assert np.array_equal(replayed.state.M, mem.state.M)


def test_confidence_is_a_number_with_hundreds_of_peers_that_are_wrong_together():
    peers = [f"p{i}" for i in range(450)]
    mem = SigmaMem(peers, rank=2, settings=Settings(text_features=False))
    for _ in range(60):
        d = mem.vote("?", dict.fromkeys(peers, "w"), phi=PHI)
        mem.feedback(d.id, dict.fromkeys(peers, False))
    d = mem.vote("?", {peer: f"w{i % 3}" for i, peer in enumerate(peers)}, phi=PHI)
    assert 0.0 <= d.confidence <= 1.0
