"""What p̂ rests on: how often a peer was right on tasks like this one, and how much of p̂ is prior."""

import numpy as np
import pytest

from sigma_mem import Settings, SigmaMem

PEERS = ["ann", "bob", "cat"]
HERE, THERE = np.eye(2)


def taught(**options):
    """Ann is right 30 times of 40 here and never there; bob was asked there only; cat not at all."""
    mem = SigmaMem(PEERS, rank=2, **options)
    for i in range(40):
        mem.feedback(mem.route(phi=HERE).id, {"ann": i % 4 > 0})
        if i % 4 == 0:
            mem.feedback(mem.route(phi=THERE).id, {"ann": False, "bob": True})
    return mem


def basis(mem, peer, phi):
    return mem.explain(mem.route(phi=phi).id, peer=peer).basis


def test_labels_near_the_task_are_told_by_whether_it_was_right():
    mem = taught(settings=Settings(gamma=1.0))
    found = basis(mem, "ann", HERE)
    assert (found.right, found.wrong, found.labels) == (pytest.approx(30.0), pytest.approx(10.0), 50)
    found = basis(mem, "ann", THERE)
    assert (found.right, found.wrong, found.labels) == (pytest.approx(0.0), pytest.approx(10.0), 50)
    found = basis(mem, "cat", HERE)
    assert (found.right, found.wrong, found.labels, found.prior) == (0.0, 0.0, 0, 1.0)


def test_what_labels_near_the_task_do_not_say_is_prior():
    mem = taught()
    prior = [basis(mem, peer, phi).prior for peer, phi in (("ann", HERE), ("ann", THERE), ("bob", HERE))]
    assert 0.0 < prior[0] < prior[1] < prior[2] == 1.0


def test_it_can_be_read():
    mem = taught(settings=Settings(gamma=1.0))
    text = str(mem.explain(mem.route(phi=HERE).id, peer="ann"))
    assert "right about 30 and wrong about 10 times" in text
    assert "(50 labels)" in text


def test_the_share_of_the_prior_is_no_larger_than_p_allows():
    """Right on 40 of one kind, wrong on 5 of 6 of another: p is low there, which the overall rate is not."""
    mem = SigmaMem(["ann", "bob"])
    for i in range(46):
        task = f"What is {i} + 3?" if i < 40 else f"Is clause {i} of the lease void?"
        mem.feedback(mem.route(task), {"ann": i <= 40})
    found = mem.explain(mem.route("Is clause 9 of the lease void?"), peer="ann")
    overall = mem.trust()["ann"].prob
    assert found.basis.prior * (overall - 0.2) <= found.prob
    assert found.basis.prior < 0.4


def test_a_peer_without_a_label_has_no_rate_of_its_own():
    mem = SigmaMem(peers=["ann", "bob"], seed=0)
    for i in range(20):
        mem.feedback(mem.route(f"What is {i} + 3?"), {"ann": False})
    found = mem.explain(mem.route("What is 4 + 3?"), peer="bob")
    assert "no label yet: p is the level of the pool" in str(found)
    assert "overall rate" not in str(found)
