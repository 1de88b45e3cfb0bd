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
