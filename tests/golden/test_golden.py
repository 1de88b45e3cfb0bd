"""Every decision, and what was learned, as when the corpus was recorded."""

import pytest

from learned import assert_alike
from sigma_mem.ledger.journal import Journal

from .record import recorded
from .scenarios import SCENARIOS, World

TOLERANCE = 1e-6  # sums in another order round otherwise, and claims are recorded as float16


def assert_close(now, then, where):
    """The same texts and whole numbers, and nearly the same fractions."""
    if isinstance(then, dict):
        assert now.keys() == then.keys(), where
        for key in then:
            assert_close(now[key], then[key], f"{where}.{key}")
    elif isinstance(then, list):
        assert len(now) == len(then), where
        for place, (a, b) in enumerate(zip(now, then, strict=True)):
            assert_close(a, b, f"{where}[{place}]")
    elif isinstance(then, float):
        assert now == pytest.approx(then, abs=TOLERANCE, rel=TOLERANCE), where
    else:
        assert now == then, where


def learned_the_same_by_a_replay_and_a_restart(world):
    mem, journal = world.mem, world.mem.journal
    with journal as live:
        assert_alike(live, journal.replayed())
        journal.snapshot()
        with Journal(mem.store, "default", mem.opening, 1) as reopened:
            assert_alike(live, reopened)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_decision_is_as_recorded(name, monkeypatch):
    monkeypatch.setattr(World, "before_the_end", learned_the_same_by_a_replay_and_a_restart)
    assert_close(SCENARIOS[name](), recorded()[name], name)
