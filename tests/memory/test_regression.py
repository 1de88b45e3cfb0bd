"""The regression is a solve over plain sums, however its sums are shared between peers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.regression import _RIDGE, Regression

from .strategies import labels, shares, unit_rows

seeds = st.integers(0, 2**32 - 1)
decay_rates = st.sampled_from([0.0, 0.01, 0.3])
N_EVENTS, N_PEERS, RANK = 30, 4, 3
NOW = float(N_EVENTS)


class Plain:
    """Σφφᵀ, Σφ and Σcφ of every peer, at NOW."""

    def __init__(self, n_peers: int = N_PEERS) -> None:
        self.N = np.zeros((n_peers, RANK, RANK))
        self.phi, self.c = np.zeros((2, n_peers, RANK))

    def add(self, phi, label, weight, factor):
        for p in range(len(self.N)):
            self.N[p] += factor * weight[p] * np.outer(phi, phi)
            self.phi[p] += factor * weight[p] * phi
            self.c[p] += factor * label[p] * phi

    def weights(self, rate, fresh):
        return np.array(
            [
                np.linalg.solve(f * N + _RIDGE * np.eye(RANK), f * (c - r * phi))
                for N, phi, c, r, f in zip(self.N, self.phi, self.c, rate, fresh, strict=True)
            ]
        )

    def leverage(self, phi):
        return np.array([phi @ np.linalg.solve(N + _RIDGE * np.eye(RANK), phi) for N in self.N])


def drawn(seed, missing, weighted, together):
    """φ, labels times weight, and weights; two peers are `together`: labelled on the same events."""
    rng = np.random.default_rng(seed)
    phis, c = unit_rows(rng, N_EVENTS, RANK), labels(rng, (N_EVENTS, N_PEERS), missing, 0.3)
    weight = rng.choice([0.3, 1.0], (N_EVENTS, N_PEERS)) if weighted else np.ones(c.shape)
    weight = np.where(np.isnan(c), 0.0, weight)
    if together:
        weight[:, 1] = weight[:, 0]
    return rng, phis, weight * np.nan_to_num(c), weight


def both(rng, phis, label, weight, rate, take_back=0.0):
    """The regression and the plain sums of these events; some are taken back again."""
    memory, plain = Regression(N_PEERS, RANK, rate), Plain()
    for t in rng.permutation(N_EVENTS):
        memory.write(phis[t, None], label[t, None], weight[t, None], [t])
        memory.decayed.advance(t)
        if rng.random() < take_back:
            memory.write(phis[t, None], -label[t, None], -weight[t, None], [t])
        else:
            plain.add(phis[t], label[t], weight[t], math.exp(-rate * (NOW - t)))
    return memory, plain


def assert_equal(memory, plain, rng):
    """Weights and leverage are those of the sums at NOW; `fresh` multiplies what was never decayed."""
    n_peers = len(plain.N)
    rate = rng.uniform(-0.5, 0.5, n_peers)
    members = memory._members().values()
    fresh = np.empty(n_peers)
    for members_of_one in members:  # peers of one set have the same labels, and so the same factor
        fresh[members_of_one] = rng.uniform(0.5, 2.0)
    found = memory.weights(rate, fresh * memory.decayed.factor(NOW))
    np.testing.assert_allclose(found, plain.weights(rate, fresh), atol=1e-8)
    for phi in unit_rows(rng, 3, RANK):
        np.testing.assert_allclose(memory.leverage(phi, NOW), plain.leverage(phi), atol=1e-8)


@given(seed=seeds, rate=decay_rates, missing=shares, weighted=st.booleans(), together=st.booleans())
def test_weights_and_leverage_are_a_solve_over_plain_sums(seed, rate, missing, weighted, together):
    rng, phis, label, weight = drawn(seed, missing, weighted, together)
    assert_equal(*both(rng, phis, label, weight, rate, take_back=0.2), rng)


def test_peers_that_are_labelled_alike_share_a_set_until_they_are_not():
    rng, phis, label, weight = drawn(0, 0.0, weighted=False, together=False)
    memory, plain = both(rng, phis, label, weight, 0.01)
    assert len(memory.decayed.arrays["sets"]) == 1
    some = np.array([1.0, 1.0, 0.5, 0.0])
    memory.write(phis[:1], some[None], some[None], [NOW])
    plain.add(phis[0], some, some, 1.0)
    assert len(memory.decayed.arrays["sets"]) == 3
    assert_equal(memory, plain, rng)
    memory.write(phis[:1], -some[None], -some[None], [NOW])  # what was taken back does not join them again
    plain.add(phis[0], -some, -some, 1.0)
    assert len(memory.decayed.arrays["sets"]) == 3
    assert_equal(memory, plain, rng)


def test_batches_of_any_size_leave_the_same_bits():
    _, phis, label, weight = drawn(1, 0.3, weighted=True, together=True)
    one, many = (Regression(N_PEERS, RANK, 0.01) for _ in range(2))
    for t in range(N_EVENTS):
        one.write(phis[t, None], label[t, None], weight[t, None], [t])
    many.write(phis[:11], label[:11], weight[:11], range(11))
    many.write(phis[11:], label[11:], weight[11:], range(11, N_EVENTS))
    assert {k: x.tobytes() for k, x in one.pack().items()} == {k: x.tobytes() for k, x in many.pack().items()}


@given(seed=seeds, rate=decay_rates, missing=shares, weighted=st.booleans())
def test_peers_come_go_and_change_places(seed, rate, missing, weighted):
    rng, phis, label, weight = drawn(seed, missing, weighted, together=True)
    memory, plain = both(rng, phis, label, weight, rate)
    order = [3, -1, 1, 0]
    memory, known = memory.take(order), np.array(order) >= 0
    for name in ("N", "phi", "c"):
        array = getattr(plain, name)[order]
        array[~known] = 0.0
        setattr(plain, name, array)
    assert_equal(memory, plain, rng)
    assert len(memory.decayed.arrays["sets"]) == len(set(memory._set_of))  # none that nobody belongs to
    more = rng.choice([0.0, 1.0], 4)
    memory.write(phis[:1], more[None], more[None], [NOW])
    plain.add(phis[0], more, more, 1.0)
    assert_equal(memory, plain, rng)


@given(seed=seeds, rate=decay_rates, missing=shares, weighted=st.booleans())
def test_every_peer_keeps_its_share(seed, rate, missing, weighted):
    rng, phis, label, weight = drawn(seed, missing, weighted, together=True)
    memory, plain = both(rng, phis, label, weight, rate)
    share = np.array([0.5, 1.0, 0.0, 0.5])
    memory.scale(share)
    for name in ("N", "phi", "c"):
        array = getattr(plain, name)
        array *= share.reshape(-1, *[1] * (array.ndim - 1))
    assert_equal(memory, plain, rng)


@given(seed=seeds, rate=decay_rates, missing=shares, weighted=st.booleans())
def test_two_memories_merge_into_one(seed, rate, missing, weighted):
    """Whose peers are in other sets than the first one's."""
    rng, phis, label, weight = drawn(seed, missing, weighted, together=True)
    one, plain = both(rng, phis, label, weight, rate)
    rng, phis, label, weight = drawn(seed + 1, 0.3, weighted=True, together=False)
    weight[:, 2], label[:, 2] = weight[:, 3], label[:, 3]
    two, other = both(rng, phis, label, weight, rate)
    two.decayed.advance(NOW + 100.0)
    before = two.pack()["sets"].tobytes()
    one.merge(two, NOW)
    for name in ("N", "phi", "c"):
        getattr(plain, name)[:] += getattr(other, name)
    assert_equal(one, plain, rng)
    assert two.pack()["sets"].tobytes() == before


@given(seed=seeds, rate=decay_rates, missing=shares)
def test_a_snapshot_is_the_regression_bit_for_bit(seed, rate, missing):
    rng, phis, label, weight = drawn(seed, missing, weighted=True, together=True)
    memory, plain = both(rng, phis, label, weight, rate)
    again = Regression(N_PEERS, RANK, rate)
    again.unpack({name: np.array(x) for name, x in memory.pack().items()})
    more = np.array([1.0, 1.0, 0.0, 0.3])
    for each in (memory, again):
        each.write(phis[:1], more[None], more[None], [NOW])
    for name, array in memory.pack().items():
        assert array.tobytes() == again.pack()[name].tobytes(), name
    plain.add(phis[0], more, more, 1.0)
    assert_equal(again, plain, rng)


def test_of_a_peer_without_labels_nothing_is_claimed():
    memory = Regression(2, RANK, 0.01)
    assert not memory.weights(np.array([0.5, -0.5]), np.zeros(2)).any()
    phi = np.eye(RANK)[0]
    np.testing.assert_allclose(memory.leverage(phi, 0.0), 1.0 / _RIDGE)


def test_leverage_is_one_over_the_labels_near_phi_and_grows_while_nothing_is_seen():
    memory, (here, there, _) = Regression(1, RANK, rate=0.1), np.eye(RANK)
    for _ in range(50):
        memory.write(here[None], np.ones((1, 1)), np.ones((1, 1)), [0.0])
    assert memory.leverage(here, 0.0)[0] == pytest.approx(1.0 / (50.0 + _RIDGE))
    assert memory.leverage(there, 0.0)[0] == pytest.approx(1.0 / _RIDGE)
    later = memory.leverage(here, 10.0)[0]
    assert later == pytest.approx(1.0 / (50.0 * math.exp(-1.0) + _RIDGE))


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


def test_the_regression_can_be_left_out():
    state = SigmaState(["a"], 2, Settings(regression=False))
    phi = np.array([1.0, 0.0])
    for _ in range(20):
        reading, tick = state.read(phi), state.begin_event()
        state.write(phi, np.ones(1), tick, claims=reading.claims)
    assert state.regression is None
    assert state.read(phi).leverage is None
    assert state.read(phi).prob[0] > 0.9
