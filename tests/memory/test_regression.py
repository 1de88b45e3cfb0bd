"""The regression is a solve over plain sums, whatever was solved before."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.regression import RIDGE, sharpened, stretch

from .strategies import labels, shares, unit_rows

seeds = st.integers(0, 2**32 - 1)
N_EVENTS, N_PEERS, RANK = 30, 4, 3
NOW = float(N_EVENTS)


def plain(phis, c, weight, ticks, rate, fresh, means):
    """Weights of every peer, by a solve over plain sums of this many labels."""
    out = []
    for p, (f, mean) in enumerate(zip(fresh, means, strict=True)):
        w = f * weight[:, p] * np.exp(-rate * (NOW - ticks))
        N = (phis.T * w) @ phis + RIDGE * np.eye(RANK)
        out.append(np.linalg.solve(N, phis.T @ (w * (c[:, p] - mean))))
    return np.array(out)


def drawn(seed, missing, weighted, together):
    """φ, labels and weights; two peers are `together`: labelled on the same events."""
    rng = np.random.default_rng(seed)
    phis, c = unit_rows(rng, N_EVENTS, RANK), labels(rng, (N_EVENTS, N_PEERS), missing, 0.3)
    weight = rng.choice([0.3, 1.0], (N_EVENTS, N_PEERS)) if weighted else np.ones(c.shape)
    if together:
        c[:, 1] = np.where(np.isnan(c[:, 0]), np.nan, np.nan_to_num(c[:, 1], nan=1.0))
        weight[:, 1] = weight[:, 0]
    return rng, phis, c, weight


@given(
    seed=seeds,
    gamma=st.sampled_from([0.8, 0.99, 1.0]),
    missing=shares,
    weighted=st.booleans(),
    together=st.booleans(),
)
def test_weights_and_leverage_are_a_solve_over_plain_sums(seed, gamma, missing, weighted, together):
    rng, phis, c, weight = drawn(seed, missing, weighted, together)
    state, ticks = SigmaState([*"abcd"], RANK, Settings(gamma=gamma)), np.arange(1.0, N_EVENTS + 1.0)
    for _ in range(N_EVENTS):
        state.begin_event()
    for t in rng.permutation(N_EVENTS):
        state.write(phis[t], c[t], ticks[t], weight=weight[t])
        if t % 7 == 0:
            state.read(phis[0])  # what was solved before is solved again where labels have come
    known, rate = state._knowledge(), state.settings.rate
    seen = np.where(np.isnan(c), 0.0, weight)
    now = np.exp2(rate / np.log(2.0) * (state.sums.anchors[:-1] - NOW))  # of sums as of their anchors
    expected = plain(phis, np.nan_to_num(c), seen, ticks, rate, known.fresh[-2] / now, known.rates.slowest)
    np.testing.assert_allclose(known.weights, expected, atol=1e-8)
    for phi in unit_rows(rng, 3, RANK):
        w = seen * np.exp(-rate * (NOW - ticks))[:, None]
        matrices = [(phis.T * w[:, p]) @ phis + RIDGE * np.eye(RANK) for p in range(N_PEERS)]
        expected = [phi @ np.linalg.solve(N, phi) for N in matrices]
        np.testing.assert_allclose(state.read(phi).leverage(), expected, atol=1e-8)


def test_of_a_peer_without_labels_nothing_is_claimed():
    state, phi = SigmaState(["a", "b"], RANK), np.eye(RANK)[0]
    assert not state._knowledge().weights.any()
    np.testing.assert_allclose(state.read(phi).leverage(), 1.0 / RIDGE)


def test_leverage_is_one_over_the_labels_near_phi_and_grows_while_nothing_is_seen():
    state, (here, there, _) = SigmaState(["a"], RANK, Settings(gamma=math.exp(-0.1))), np.eye(RANK)
    for _ in range(50):
        state.write(here, np.ones(1), 0.0)
    assert state.read(here).leverage()[0] == pytest.approx(1.0 / (50.0 + RIDGE))
    assert state.read(there).leverage()[0] == pytest.approx(1.0 / RIDGE)
    later = state.read(here, at=10.0).leverage()[0]
    assert later == pytest.approx(1.0 / (50.0 * math.exp(-1.0) + RIDGE))


def test_a_label_of_one_peer_solves_for_that_peer_alone():
    state, phis = SigmaState([*"abcd"], RANK), unit_rows(np.random.default_rng(0), 40, RANK)
    for phi in phis:
        state.write(phi, np.array([1.0, -1.0, 1.0, -1.0]), state.begin_event())
    state.read(phis[0])
    before = state._solved.copy()
    state.write(phis[0], np.array([np.nan, 1.0, np.nan, np.nan]), state.begin_event())
    state.read(phis[0])
    changed = (state._solved != before).any(axis=(0, 2))
    assert changed.tolist() == [False, True, False, False]


def test_narrow_traffic_is_believed_to_the_regression_and_noise_is_not():
    """Tasks that look alike but for a little, which decides who is right; then the same with coin flips."""
    rng = np.random.default_rng(0)
    for telling in (True, False):
        state = SigmaState(["a", "b"], 3, Settings())
        for _ in range(300):
            side = rng.choice([-1.0, 1.0])
            phi = np.array([1.0, 0.15 * side, 0.1 * rng.normal()])
            phi /= np.linalg.norm(phi)
            right = side if telling else rng.choice([-1.0, 1.0])
            reading, tick = state.read(phi), state.begin_event()
            state.write(phi, np.array([right, -right]), tick, claims=reading.claims)
        if telling:
            assert (reading.of_regression > 0.9).all()
            left, other = (
                state.read(np.array([1.0, y, 0.0]) / math.hypot(1.0, y)).prob for y in (0.15, -0.15)
            )
            assert left[0] > 0.8 > 0.2 > left[1]
            assert other[1] > 0.8 > 0.2 > other[0]
        else:
            assert (reading.of_regression < 0.3).all()


def test_a_step_is_followed_by_the_sharpened_regression():
    """Always right on one kind of task and always wrong on three others, which differ a little."""
    rng, state = np.random.default_rng(0), SigmaState(["a"], 5, Settings())

    def task(kind):
        phi = np.append(1.0, 0.2 * (np.arange(4) == kind) + 0.05 * rng.normal(size=4))
        return phi / np.linalg.norm(phi)

    for _ in range(200):
        kind = rng.integers(4)
        phi = task(kind)
        reading, tick = state.read(phi), state.begin_event()
        state.write(phi, np.array([1.0 if kind == 0 else -1.0]), tick, claims=reading.claims)
    home = [state.read(task(0)) for _ in range(50)]
    regressed = np.mean([0.5 + 0.5 * float(reading.claims[0, 1]) for reading in home])
    assert np.mean([reading.prob[0] for reading in home]) > regressed + 0.05
    assert np.mean([reading.interval()[1][0] >= 0.98 for reading in home]) > 0.75


@given(x=st.lists(st.floats(-0.97, 0.97), min_size=1, max_size=5))
def test_a_sharpened_mean_has_three_times_the_log_odds(x):
    mean = np.array(x)
    np.testing.assert_allclose(
        sharpened(mean), np.clip(np.tanh(3.0 * np.arctanh(mean)), -0.97, 0.97), atol=1e-12
    )


def test_a_sharpened_claim_is_as_uncertain_as_what_it_sharpens():
    """Its deviation is that of the regression times the slope; Wilson's is that of the rate it names."""
    alone = np.array([[0.0], [0.0], [1.0]])
    for mean in (0.0, 0.2, 0.4):
        step = 1e-6
        slope = (sharpened(np.array([mean + step])) - sharpened(np.array([mean - step])))[0] / (2 * step)
        own = math.sqrt((1.0 - mean**2) / (1.0 - sharpened(np.array([mean]))[0] ** 2))
        assert stretch(np.array([mean]), alone)[0] == pytest.approx((slope * own) ** 2, rel=1e-3)
    assert stretch(np.array([0.9]), alone)[0] == 1.0  # never narrower
    assert stretch(np.array([0.0]), np.array([[0.5], [0.5], [0.0]]))[0] == 1.0


def test_the_regression_can_be_left_out():
    state = SigmaState(["a"], 2, Settings(regression=False))
    phi = np.array([1.0, 0.0])
    for _ in range(20):
        reading, tick = state.read(phi), state.begin_event()
        state.write(phi, np.ones(1), tick, claims=reading.claims)
    assert state.read(phi).leverage is None
    assert state.read(phi).prob[0] > 0.9
