"""A session that selects by a steered center, from question to feedback."""

from __future__ import annotations

import sigma_mem.center
from sigma_mem import SigmaMem
from sigma_mem.center import Center

from .conftest import whitened
from .test_center import learned

PEERS = ["ann", "bob", "cy"]
ANSWERS = {"ann": "It is 391.", "bob": "391, surely", "cy": "381"}


def test_select_judges_then_steers_by_what_it_learned(tiny_center: Center) -> None:
    encoder = whitened(tiny_center, rank=8)
    base = tiny_center.judge("What is 17 * 23?", list(ANSWERS.values()))
    tiny_center.use(learned(tiny_center, rank=8))
    with SigmaMem(PEERS, encoder=encoder, center=tiny_center) as memory:
        first = memory.decide("What is 17 * 23?", ANSWERS, read="select")
        # An empty memory is the base judge, bit for bit.
        assert list(first.details["utility"].values()) == base.utility.tolist()
        assert list(first.details["yes_no_mass"].values()) == base.yes_no_mass.tolist()
        memory.feedback(first.id, {"ann": True, "bob": True, "cy": False})
        second = memory.decide("What is 17 * 23?", ANSWERS, read="select")
        assert second.details["utility"] != first.details["utility"]
        assert second.peer in PEERS


def test_the_package_names_what_a_user_meets() -> None:
    for name in sigma_mem.center.__all__:
        assert getattr(sigma_mem.center, name).__name__ == name
    assert not hasattr(sigma_mem.center, "nothing")
