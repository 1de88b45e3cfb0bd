import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sigma_mem.decide.explore import _WIDTH, explore, normal_below, propensities
from sigma_mem.memory.reading import Reading


def reading(prob, effective):
    prob, labels = np.array(prob, dtype=float), np.array(effective, dtype=float)
    mean, none = 2.0 * prob - 1.0, np.zeros(len(prob))
    return Reading(
        none, labels, prob, labels, recent=labels, of_local=none, doubt=none, near=mean, slowest=mean,
        claims=None, of_regression=none, away=lambda: (none, none), leverage=None,
    )  # fmt: skip


def test_propensities_are_how_often_a_normal_draw_is_the_largest():
    prob, n = np.array([0.55, 0.5, 0.3, 0.52]), np.array([40.0, 8.0, 5.0, 300.0])
    rng = np.random.default_rng(0)
    s = _WIDTH * np.sqrt(prob * (1 - prob) / (n + 1))
    winners = (prob + s * rng.standard_normal((200_000, 4))).argmax(axis=1)
    np.testing.assert_allclose(propensities(prob, n), np.bincount(winners, minlength=4) / 200_000, atol=0.004)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.5, 1e6)), min_size=1, max_size=8))
def test_propensities_are_a_distribution_whatever_is_known(peers):
    chances = propensities(np.array([p for p, _ in peers]), np.array([n for _, n in peers]))
    assert (chances >= 0).all()
    assert chances.sum() == pytest.approx(1.0)


def test_the_normal_distribution_is_that_of_erf():
    z = np.linspace(-9.0, 9.0, 1001)
    exact = [0.5 * math.erfc(-value / math.sqrt(2.0)) for value in z]
    np.testing.assert_allclose(normal_below(z), exact, atol=1e-7)


def test_permuting_peers_permutes_propensities():
    prob, n = np.array([0.7, 0.4, 0.6]), np.array([9.0, 20.0, 6.0])
    order = [2, 0, 1]
    np.testing.assert_allclose(propensities(prob, n)[order], propensities(prob[order], n[order]), atol=1e-12)


def test_peers_are_drawn_as_often_as_is_reported():
    here = reading([0.55, 0.5, 0.45], [20.0, 10.0, 2.0])
    rng = np.random.default_rng(1)
    drawn = [explore(here, rng) for _ in range(4000)]
    share = np.bincount([d.peer for d in drawn], minlength=3) / 4000
    chances = propensities(here.prob, here.observations)
    np.testing.assert_allclose(share, chances, atol=0.03)
    assert all(d.propensity == pytest.approx(chances[d.peer]) for d in drawn)


def test_the_less_is_known_the_more_is_tried():
    known, unknown = reading([0.6, 0.5], [500.0, 500.0]), reading([0.6, 0.5], [1.0, 1.0])
    worse = [propensities(r.prob, r.observations)[1] for r in (known, unknown)]
    assert worse[0] < 0.001 < 0.05 < worse[1]


def test_finds_the_better_peer_when_only_the_chosen_one_is_labelled():
    from sigma_mem.memory import SigmaState

    rng = np.random.default_rng(2)
    state, phi = SigmaState(["a", "b", "c"], rank=1), np.ones(1)
    rates, counts = np.array([0.3, 0.7, 0.5]), np.zeros(3)
    for _ in range(400):
        tick = state.begin_event()
        peer = explore(state.read(phi), rng).peer
        counts[peer] += 1
        labels = np.full(3, np.nan)
        labels[peer] = 1.0 if rng.random() < rates[peer] else -1.0
        state.write(phi, labels, tick)
    assert counts[1] > 250
