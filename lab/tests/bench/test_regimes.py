"""Labels as users have them: routes, calibration and intervals under every regime."""

import numpy as np

from sigma_lab.bench.experiments.regimes import _intervals, regimes, regimes_table
from sigma_lab.bench.league import Setup
from sigma_mem.events import Event
from sigma_mem.streams import Stream

EVENT = Event("e", "?", {}, {"a": 1.0})


def drawn(events=160):
    """Two kinds of task, told by φ, and a specialist for each."""
    rng, kinds = np.random.default_rng(0), np.eye(2)
    some, phis = [], []
    for t in range(events):
        kind = int(rng.integers(2))
        right = {"a": 1.0 if rng.random() < (0.9, 0.2)[kind] else -1.0, "b": 1.0 if kind else -1.0}
        some.append(Event(f"e{t}", f"task {t}", {}, right, domain=str(kind)))
        phis.append(kinds[kind])
    return Stream("drawn", ("a", "b"), tuple(some)), np.array(phis)


def test_labels_stop_at_a_pause_and_come_in_bursts():
    paused, bursts = (regimes(4, 0)[name] for name in ("paused", "bursts"))
    assert [bool(paused.reveal(i, EVENT, "a")) for i in range(4)] == [True, True, False, False]
    shown = [bool(bursts.reveal(i, EVENT, "a")) for i in range(200)]
    assert sum(shown) == 50
    assert all(shown[100:125])


def test_every_regime_has_a_route_that_learned_and_a_p_that_can_be_believed():
    table = regimes_table(*drawn(), Setup(), seeds=[0])
    found = {k: v for k, v in table.values.items() if k not in ("stream", "events", "peers")}
    assert 0.6 < found.pop("drift")["interval"]["covered"] < 1.0
    assert list(found) == ["full", "5 %", "served", "paused", "bursts"]
    for name, row in found.items():
        if name != "5 %":  # eight labels
            assert row["accuracy"]["route"] > 0.7, name
            assert row["ece"] < 0.3, name
    assert len(table.rows) == 5
    assert "linear-thompson" in table.header


def test_intervals_of_simulated_peers_hold_their_rates():
    rng = np.random.default_rng(0)
    kinds = [np.abs(rng.normal(size=(40, 8))) + 3.0 * np.eye(8)[k] for k in range(3)]
    kinds = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in kinds]
    for regime in ("full", "served", "paused"):
        covered, width = np.mean([_intervals(kinds, regime, seed) for seed in range(3)], axis=0)
        assert covered >= 0.88, regime
        assert width <= 1.3, regime


def test_every_seed_shuffles_the_stream():
    rights = [{"a": 1.0, "b": -1.0}] * 90 + [{"a": -1.0, "b": 1.0}] * 70
    events = tuple(Event(f"e{t}", "?", {}, right, domain="all") for t, right in enumerate(rights))
    stream, phis = Stream("turned", ("a", "b"), events), np.ones((160, 1))
    shuffled, recorded = (
        regimes_table(stream, phis, Setup(), [0, 1], shuffled=by_seed).values["full"]["accuracy"]["route"]
        for by_seed in (True, False)
    )
    assert shuffled < 0.65  # neither peer is better for long
    assert recorded > 0.75
