"""The weights of signs are a ridge regression of surprise on signs, kept as a decayed sum."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.errors import InputError
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
    assert np.abs(memory.weights(60.0)).max() < 1e-9


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


def test_merging_is_having_seen_the_events_of_both():
    signs, surprise = events(8)
    one, two = written(signs[:30], surprise[:30]), Signs(Discount(-math.log(0.99)))
    for t in range(30, N):
        two.write(signs[t], surprise[t], t + 1.0)
    one.merge(two, 60.0, 60.0)
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
