"""The weights of signs are a ridge regression of surprise on signs, kept as a decayed sum."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.errors import InputError
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.discount import Discount
from sigma_mem.memory.signs import Signs, sign_weights

from .strategies import labels

N = 60


def events(seed, missing=0.3, n=N, peers=4, size=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, peers, size)), labels(rng, (n, peers), missing, 0.3)


def naive_weights(signs, surprise, gamma):
    """Answer by answer, from the formula."""
    size = signs.shape[2]
    zz, ze, n = np.zeros((size, size)), np.zeros(size), 0.0
    for t in range(len(signs)):
        there = [p for p in range(signs.shape[1]) if not math.isnan(surprise[t, p])]
        weight = gamma ** (len(signs) - 1 - t)
        if len(there) < 2:
            continue
        mean_signs = sum(signs[t, p] for p in there) / len(there)
        mean_surprise = sum(surprise[t, p] for p in there) / len(there)
        for p in there:
            z = signs[t, p] - mean_signs
            zz += weight * np.outer(z, z)
            ze += weight * z * (surprise[t, p] - mean_surprise)
        n += weight * (len(there) - 1)
    return np.linalg.solve(zz + 30.0 / n * np.diag(np.diag(zz)), ze)


def written(signs, surprise, gamma=0.99):
    memory = Signs(Discount(-math.log(gamma)))
    for t, (row, e) in enumerate(zip(signs, surprise, strict=True)):
        memory.advance(t + 1.0)
        memory.write(row, e, t + 1.0)
    return memory


@pytest.mark.parametrize("gamma", [0.3, 0.97, 1.0])
def test_the_weights_are_a_ridge_regression(gamma):
    signs, surprise = events(0)
    memory = written(signs, surprise, gamma)
    np.testing.assert_allclose(memory.weights(float(N)), naive_weights(signs, surprise, gamma), rtol=1e-7)


def test_a_sign_that_goes_with_being_right_gets_weight_and_noise_gets_little():
    rng = np.random.default_rng(1)
    signs = rng.normal(size=(3000, 4, 2))
    surprise = np.where(rng.random((3000, 4)) < 0.5 + 0.1 * signs[:, :, 0].clip(-3, 3), 1.0, -1.0)
    good, noise = written(signs, surprise, 1.0).weights(3000.0)
    assert good == pytest.approx(0.2, abs=0.03)
    assert abs(noise) < 0.03


def test_an_unlabelled_answer_is_not_compared():
    signs, surprise = events(2, missing=0.0)
    surprise[:, 1] = np.nan
    without = written(np.delete(signs, 1, axis=1), np.delete(surprise, 1, axis=1))
    np.testing.assert_allclose(written(signs, surprise).weights(60.0), without.weights(60.0), rtol=1e-9)


@given(seed=st.integers(0, 2**16), late=st.booleans())
def test_a_corrected_or_late_label_is_as_if_it_had_been_so_at_once(seed, late):
    signs, surprise = events(seed, n=20)
    other = events(seed + 1, n=20)[1]
    memory = Signs(Discount(-math.log(0.9)))
    for t in np.random.default_rng(seed).permutation(20) if late else range(20):
        memory.write(signs[t], other[t], t + 1.0)
        memory.write(signs[t], surprise[t], t + 1.0, replaces=other[t])
    on_time = written(signs, surprise, 0.9)
    np.testing.assert_allclose(memory.arrays()["sum"], on_time.arrays()["sum"], atol=1e-9)
    np.testing.assert_allclose(memory.arrays()["compared"], on_time.arrays()["compared"], atol=1e-9)


def test_revoked_labels_leave_no_weight_behind():
    signs, surprise = events(3)
    memory = written(signs, surprise)
    for t in range(N):
        memory.write(signs[t], np.full(4, np.nan), t + 1.0, replaces=surprise[t])
    assert np.abs(memory.weights(60.0)).max() < 1e-6
    assert np.abs(memory.effects(60.0)).max() < 1e-6


def test_effects_are_those_of_one_standard_deviation():
    signs, surprise = events(9, missing=0.0)
    signs *= [1.0, 10.0, 100.0]
    memory = written(signs, surprise, 1.0)
    z = signs - signs.mean(axis=1, keepdims=True)
    spread = np.sqrt((z**2).sum(axis=(0, 1)) / (3 * N))
    np.testing.assert_allclose(memory.effects(60.0), memory.weights(60.0) * spread, rtol=1e-9)
    assert Signs(Discount(0.0)).effects(0.0).shape == (0,)


def test_a_sign_that_never_varies_says_nothing():
    signs, surprise = events(4)
    signs[:, :, 1] = 7.0
    assert written(signs, surprise).weights(60.0)[1] == 0.0


def test_an_unreadable_answer_leans_nowhere_and_the_others_are_not_compared_with_it():
    signs, surprise = events(5)
    memory = written(signs, surprise)
    readable = np.array([True, False, True, True])
    far = signs[0].copy()
    far[1] = 1e6
    assert memory.lean(far, readable, 60.0)[1] == 0.0
    assert np.array_equal(memory.lean(far, readable, 60.0), memory.lean(signs[0], readable, 60.0))
    assert abs(memory.lean(signs[0], readable, 60.0)[readable].sum()) < 1e-12


def test_no_text_moves_an_answer_without_bound():
    signs, surprise = events(6)
    memory = written(signs, surprise)
    assert np.abs(memory.lean(1e9 * signs[0], np.ones(4, dtype=bool), 60.0)).max() == 1.5


def test_nothing_is_known_at_first():
    memory = Signs(Discount(0.0))
    assert memory.weights(0.0).shape == (0,)
    assert memory.lean(np.ones((3, 2)), np.ones(3, dtype=bool), 0.0).tolist() == [0.0] * 3
    assert not sign_weights(np.zeros((4, 4)), np.zeros(())).any()


def test_a_snapshot_is_the_same_bit_for_bit_and_its_own():
    signs, surprise = events(7)
    memory = written(signs, surprise)
    copy = Signs.from_arrays(memory.arrays(), -math.log(0.99))
    assert np.array_equal(copy.weights(60.0), memory.weights(60.0))
    copy.write(signs[0], surprise[0], 61.0)
    assert not np.array_equal(copy.weights(61.0), memory.weights(61.0))


def test_a_snapshot_does_not_change_with_what_is_restored_from_it():
    memory = written(*events(7))
    arrays = {name: array.copy() for name, array in memory.arrays().items()}
    Signs.from_arrays(arrays, -math.log(0.99)).write(np.eye(4)[:, :3], np.arange(4.0), 61.0)
    assert all(np.array_equal(arrays[name], array) for name, array in memory.arrays().items())


def test_weights_are_those_of_their_time():
    """With time evidence is worth less beside the ridge."""
    memory = written(*events(7))
    now, later = memory.weights(60.0), memory.weights(400.0)
    assert 0.0 < np.abs(later).max() < 0.5 * np.abs(now).max()
    assert np.array_equal(memory.weights(60.0), now)


def test_small_signs_count_as_much_as_large_ones():
    signs, surprise = events(10)
    memory, small = written(signs, surprise), written(0.01 * signs, surprise)
    np.testing.assert_allclose(0.01 * small.weights(60.0), memory.weights(60.0), rtol=1e-9)


def test_one_comparison_that_has_faded_is_worth_less_than_one():
    signs, surprise = events(11, missing=0.0, n=1)
    memory = written(signs, surprise, 0.5)
    z, e = signs[0] - signs[0].mean(axis=0), surprise[0] - surprise[0].mean()
    for now in (1.0, 6.0):
        weight = 0.5 ** (now - 1.0)
        zz = weight * z.T @ z
        expected = np.linalg.solve(zz + 30.0 / (3 * weight) * np.diag(np.diag(zz)), weight * z.T @ e)
        np.testing.assert_allclose(memory.weights(now), expected, rtol=1e-9)


def test_an_answer_leans_by_its_weighted_signs():
    signs, surprise = events(12)
    memory = written(0.1 * signs, surprise)
    z = 0.1 * (signs[0] - signs[0].mean(axis=0))
    leaning = memory.lean(0.1 * signs[0], np.ones(4, dtype=bool), 60.0)
    np.testing.assert_allclose(leaning, z @ memory.weights(60.0), atol=1e-12)
    assert np.abs(leaning).max() > 0.01


def test_merging_is_having_seen_the_events_of_both():
    signs, surprise = events(8)
    one, two = written(signs[:30], surprise[:30]), Signs(Discount(-math.log(0.99), bits=3))  # anchors differ
    for t in range(30, N):
        two.write(signs[t], surprise[t], t + 1.0)
    alone = one.weights(60.0)
    one.merge(two, 60.0, 60.0)
    assert not np.array_equal(one.weights(60.0), alone)
    np.testing.assert_allclose(one.weights(60.0), written(signs, surprise).weights(60.0), rtol=1e-7)
    empty = Signs(Discount(-math.log(0.99)))
    empty.merge(two, 60.0, 60.0)
    np.testing.assert_allclose(empty.weights(60.0), two.weights(60.0), rtol=1e-9)
    two.merge(Signs(Discount(-math.log(0.99))), 60.0, 60.0)
    np.testing.assert_allclose(empty.weights(60.0), two.weights(60.0), rtol=1e-9)


def test_the_number_of_signs_stays():
    memory = Signs(Discount(0.0))
    memory.write(np.ones((2, 3)), np.ones(2), 1.0)
    with pytest.raises(InputError, match="got 2 signs of each answer; expected 3"):
        memory.write(np.ones((2, 2)), np.ones(2), 2.0)
    other = Signs(Discount(0.0))
    other.write(np.ones((2, 2)), np.ones(2), 1.0)
    with pytest.raises(InputError, match="got 2 signs of each answer; expected 3"):
        memory.merge(other, 1.0, 1.0)


def state_of(gamma, signs, surprise):
    state = SigmaState(["ann", "bob", "cat", "dan"], 2, Settings(gamma=gamma))
    for row, e in zip(signs, surprise, strict=True):
        state.signs.write(row, e, state.decided())
    return state


def test_a_state_forgets_signs_without_overflow():
    """Strong decay moves the anchor many times."""
    signs, surprise = events(13, n=500)
    state = state_of(0.3, signs, surprise)
    assert np.isfinite(state.signs.arrays()["sum"]).all()
    assert np.abs(state.signs.arrays()["sum"]).max() < 2.0**40
    np.testing.assert_allclose(state.signs.weights(500.0), naive_weights(signs, surprise, 0.3), rtol=1e-6)


def test_states_merge_their_signs():
    signs, surprise = events(14)
    whole = state_of(0.3, signs, surprise)
    one, two = state_of(0.3, signs[:30], surprise[:30]), state_of(0.3, signs[:0], surprise[:0])
    for t in range(N):
        tick = two.decided()
        if t >= 30:
            two.signs.write(signs[t], surprise[t], tick)
    one.merge(two)
    np.testing.assert_allclose(one.signs.weights(one.now), whole.signs.weights(whole.now), rtol=1e-6)
    np.testing.assert_allclose(
        one.lean(signs[0], np.ones(4, dtype=bool)), whole.lean(signs[0], np.ones(4, dtype=bool)), rtol=1e-6
    )
