"""Decay by wall-clock time: pauses, and clocks that err."""

import numpy as np
import pytest

from sigma_mem import Settings, SigmaMem

PHI = np.array([1.0, 0.0])
DAY = 86400.0


@pytest.fixture
def now():
    return [1.7e9]


def memory(now):
    settings = Settings(decay="time", half_life=DAY)
    return SigmaMem(["a", "b"], rank=2, settings=settings, clock=lambda: now[0])


def learn(mem, now, n_events):
    for _ in range(n_events):
        mem.feedback(mem.route(phi=PHI).id, {"a": True, "b": False})
        now[0] += 60.0


def test_a_pause_decays_before_the_first_read_after_it(now):
    mem = memory(now)
    learn(mem, now, 100)
    before = mem.route(phi=PHI).effective["a"]
    now[0] += DAY
    assert mem.route(phi=PHI).effective["a"] == pytest.approx(before / 2.0)
    now[0] += 365.0 * DAY
    d = mem.route(phi=PHI)
    assert d.effective["a"] < 1e-9
    assert mem.explain(d.id, peer="a").score == pytest.approx(0.0, abs=1e-9)


def test_one_clock_reading_far_ahead_does_not_blind_the_memory(now):
    mem = memory(now)
    learn(mem, now, 100)
    then = now[0]
    now[0] += 365.0 * DAY
    d = mem.route(phi=PHI)
    mem.feedback(d.id, {"a": True, "b": False})
    now[0] = then
    assert mem.route(phi=PHI).effective["a"] > 90.0  # what was learned is still there
    learn(mem, now, 100)
    d = mem.route(phi=PHI)
    assert d.effective["a"] > 180.0
    assert d.probs["a"] > 0.9 > 0.1 > d.probs["b"]


def test_a_second_reading_confirms_a_pause(now):
    mem = memory(now)
    learn(mem, now, 100)
    now[0] += 365.0 * DAY
    learn(mem, now, 50)
    assert 45.0 < mem.route(phi=PHI).effective["a"] <= 49.0  # the first event after the pause counts as old
    assert all(
        x.tobytes() == y.tobytes()
        for x, y in zip(mem.journal.replayed().state.pack().values(), mem.state.pack().values(), strict=True)
    )
