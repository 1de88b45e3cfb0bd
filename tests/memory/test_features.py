"""The weights are a ridge regression of residuals on text features, kept as a decayed sum."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.features import TextFeatures, feature_weights

from .strategies import labels

N = 60


def events(seed, missing=0.3, n=N, peers=4, size=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, peers, size)), labels(rng, (n, peers), missing, 0.3)


def naive_weights(features, residual, gamma):
    """Answer by answer, from the formula."""
    size = features.shape[2]
    zz, ze, n = np.zeros((size, size)), np.zeros(size), 0.0
    for t in range(len(features)):
        there = [p for p in range(features.shape[1]) if not math.isnan(residual[t, p])]
        weight = gamma ** (len(features) - 1 - t)
        if len(there) < 2:
            continue
        mean_features = sum(features[t, p] for p in there) / len(there)
        mean_residual = sum(residual[t, p] for p in there) / len(there)
        for p in there:
            z = features[t, p] - mean_features
            zz += weight * np.outer(z, z)
            ze += weight * z * (residual[t, p] - mean_residual)
        n += weight * (len(there) - 1)
    return np.linalg.solve(zz + 30.0 / n * np.diag(np.diag(zz)), ze)


def naive_weights_beside_agreement(features, residual, agreement):
    """Both regressions answer by answer, in units of one spread, and the second shrunk to half the first."""

    def stacked(e):
        z, centred, n = [], [], 0
        for row, of_event in zip(features, e, strict=True):
            there = ~np.isnan(of_event)
            if there.sum() > 1:
                z.extend(row[there] - row[there].mean(axis=0))
                centred.extend(of_event[there] - of_event[there].mean())
                n += there.sum() - 1
        return np.array(z), np.array(centred), n

    ridge = 30.0 * np.eye(features.shape[2])
    z, a, n = stacked(agreement)
    spread = np.sqrt((z**2).sum(axis=0) / n)
    prior = 0.5 * np.linalg.solve((z / spread).T @ (z / spread) + ridge, (z / spread).T @ a)
    z, e, _ = stacked(residual)
    right = (z / spread).T @ e + ridge @ prior
    return np.linalg.solve((z / spread).T @ (z / spread) + ridge, right) / spread


def written(features, residual, gamma=0.99):
    memory = TextFeatures(features.shape[2], -math.log(gamma))
    for t, (row, e) in enumerate(zip(features, residual, strict=True)):
        memory.decayed.advance(t + 1.0)
        memory.write(row, e, t + 1.0)
    return memory


@pytest.mark.parametrize("gamma", [0.3, 0.97, 1.0])
def test_the_weights_are_a_ridge_regression(gamma):
    features, residual = events(0)
    memory = written(features, residual, gamma)
    np.testing.assert_allclose(memory.weights(float(N)), naive_weights(features, residual, gamma), rtol=1e-7)


@given(seed=st.integers(0, 2**16), missing=st.sampled_from([0.0, 0.4]))
def test_weights_are_shrunk_to_half_of_those_that_predict_agreement(seed, missing):
    features, agreement = events(seed, missing)
    residual = events(seed + 1, missing)[1]
    residual[np.arange(N) % 6 > 0] = np.nan  # few labels
    memory, agreed = written(features, residual, 1.0), written(features, agreement, 1.0)
    expected = naive_weights_beside_agreement(features, residual, agreement)
    np.testing.assert_allclose(memory.weights(float(N), agreed), expected, atol=1e-9)
    assert not np.allclose(memory.weights(float(N)), expected)


def test_agreement_speaks_of_texts_before_any_label():
    features, agreement = events(14)
    nothing, agreed = TextFeatures(3, 0.0), written(features, agreement, 1.0)
    there = np.ones(4, dtype=bool)
    log_odds = nothing.log_odds(features[0], there, 60.0, agreed)
    assert np.abs(log_odds).max() > 0.0
    assert not nothing.log_odds(features[0], there, 60.0, TextFeatures(3, 0.0)).any()
    np.testing.assert_allclose(nothing.effects(60.0, agreed), 0.5 * agreed.effects(60.0))


def test_a_feature_that_goes_with_being_right_gets_weight_and_noise_gets_little():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(3000, 4, 2))
    residual = np.where(rng.random((3000, 4)) < 0.5 + 0.1 * features[:, :, 0].clip(-3, 3), 1.0, -1.0)
    good, noise = written(features, residual, 1.0).weights(3000.0)
    assert good == pytest.approx(0.2, abs=0.03)
    assert abs(noise) < 0.03


def test_an_unlabelled_answer_is_not_compared():
    features, residual = events(2, missing=0.0)
    residual[:, 1] = np.nan
    without = written(np.delete(features, 1, axis=1), np.delete(residual, 1, axis=1))
    np.testing.assert_allclose(written(features, residual).weights(60.0), without.weights(60.0), rtol=1e-9)


@given(seed=st.integers(0, 2**16), late=st.booleans())
def test_a_corrected_or_late_label_is_as_if_it_had_been_so_at_once(seed, late):
    features, residual = events(seed, n=20)
    other = events(seed + 1, n=20)[1]
    memory = TextFeatures(3, -math.log(0.9))
    for t in np.random.default_rng(seed).permutation(20) if late else range(20):
        memory.write(features[t], other[t], t + 1.0)
        memory.write(features[t], other[t], t + 1.0, weight=-1.0)
        memory.write(features[t], residual[t], t + 1.0)
    on_time = written(features, residual, 0.9)
    np.testing.assert_allclose(memory.decayed.arrays["sum"], on_time.decayed.arrays["sum"], atol=1e-9)
    np.testing.assert_allclose(
        memory.decayed.arrays["compared"], on_time.decayed.arrays["compared"], atol=1e-9
    )


def test_revoked_labels_leave_no_weight_behind():
    features, residual = events(3)
    memory = written(features, residual)
    for t in range(N):
        memory.write(features[t], residual[t], t + 1.0, weight=-1.0)
    assert np.abs(memory.weights(60.0)).max() < 1e-6
    assert np.abs(memory.effects(60.0)).max() < 1e-6


def test_effects_are_those_of_one_standard_deviation():
    features, residual = events(9, missing=0.0)
    features *= [1.0, 10.0, 100.0]
    memory = written(features, residual, 1.0)
    z = features - features.mean(axis=1, keepdims=True)
    spread = np.sqrt((z**2).sum(axis=(0, 1)) / (3 * N))
    np.testing.assert_allclose(memory.effects(60.0), memory.weights(60.0) * spread, rtol=1e-9)
    assert TextFeatures(0, 0.0).effects(0.0).shape == (0,)


def test_a_feature_that_never_varies_says_nothing():
    features, residual = events(4)
    features[:, :, 1] = 7.0
    assert written(features, residual).weights(60.0)[1] == 0.0


def test_an_unreadable_answer_has_no_log_odds_and_the_others_are_not_compared_with_it():
    features, residual = events(5)
    memory = written(features, residual)
    readable = np.array([True, False, True, True])
    far = features[0].copy()
    far[1] = 1e6
    assert memory.log_odds(far, readable, 60.0)[1] == 0.0
    assert np.array_equal(memory.log_odds(far, readable, 60.0), memory.log_odds(features[0], readable, 60.0))
    assert abs(memory.log_odds(features[0], readable, 60.0)[readable].sum()) < 1e-12


def test_no_text_moves_an_answer_without_bound():
    features, residual = events(6)
    memory = written(features, residual)
    assert np.abs(memory.log_odds(1e9 * features[0], np.ones(4, dtype=bool), 60.0)).max() == 1.5


def test_nothing_is_known_at_first():
    memory = TextFeatures(2, 0.0)
    assert memory.weights(0.0).tolist() == [0.0, 0.0]
    assert memory.log_odds(np.ones((3, 2)), np.ones(3, dtype=bool), 0.0).tolist() == [0.0] * 3
    assert not feature_weights(np.zeros((4, 4)), np.zeros(())).any()


def test_a_snapshot_is_the_same_bit_for_bit_and_its_own():
    features, residual = events(7)
    memory = written(features, residual)
    copy = TextFeatures(3, -math.log(0.99))
    copy.decayed.unpack(memory.decayed.pack())
    assert np.array_equal(copy.weights(60.0), memory.weights(60.0))
    copy.write(features[0], residual[0], 61.0)
    assert not np.array_equal(copy.weights(61.0), memory.weights(61.0))


def test_a_snapshot_does_not_change_with_what_is_restored_from_it():
    memory = written(*events(7))
    arrays = {name: array.copy() for name, array in memory.decayed.pack().items()}
    copy = TextFeatures(3, -math.log(0.99))
    copy.decayed.unpack(arrays)
    copy.write(np.eye(4)[:, :3], np.arange(4.0), 61.0)
    assert all(np.array_equal(arrays[name], array) for name, array in memory.decayed.pack().items())


def test_weights_are_those_of_their_time():
    """With time evidence is worth less beside the ridge."""
    memory = written(*events(7))
    now, later = memory.weights(60.0), memory.weights(400.0)
    assert 0.0 < np.abs(later).max() < 0.5 * np.abs(now).max()
    assert np.array_equal(memory.weights(60.0), now)


def test_small_features_count_as_much_as_large_ones():
    features, residual = events(10)
    memory, small = written(features, residual), written(0.01 * features, residual)
    np.testing.assert_allclose(0.01 * small.weights(60.0), memory.weights(60.0), rtol=1e-9)


def test_one_comparison_that_has_faded_is_worth_less_than_one():
    features, residual = events(11, missing=0.0, n=1)
    memory = written(features, residual, 0.5)
    z, e = features[0] - features[0].mean(axis=0), residual[0] - residual[0].mean()
    for now in (1.0, 6.0):
        weight = 0.5 ** (now - 1.0)
        zz = weight * z.T @ z
        expected = np.linalg.solve(zz + 30.0 / (3 * weight) * np.diag(np.diag(zz)), weight * z.T @ e)
        np.testing.assert_allclose(memory.weights(now), expected, rtol=1e-9)


def test_log_odds_are_the_weighted_features():
    features, residual = events(12)
    memory = written(0.1 * features, residual)
    z = 0.1 * (features[0] - features[0].mean(axis=0))
    log_odds = memory.log_odds(0.1 * features[0], np.ones(4, dtype=bool), 60.0)
    np.testing.assert_allclose(log_odds, z @ memory.weights(60.0), atol=1e-12)
    assert np.abs(log_odds).max() > 0.01


def test_merging_is_having_seen_the_events_of_both():
    features, residual = events(8)
    one, two = written(features[:30], residual[:30]), TextFeatures(3, -math.log(0.99))
    for t in range(30, N):
        two.write(features[t], residual[t], t + 1.0)
    alone = one.weights(60.0)
    one.decayed.merge(two.decayed, 60.0)
    assert not np.array_equal(one.weights(60.0), alone)
    np.testing.assert_allclose(one.weights(60.0), written(features, residual).weights(60.0), rtol=1e-7)
    empty = TextFeatures(3, -math.log(0.99))
    empty.decayed.merge(two.decayed, 60.0)
    np.testing.assert_allclose(empty.weights(60.0), two.weights(60.0), rtol=1e-9)
    two.decayed.merge(TextFeatures(3, -math.log(0.99)).decayed, 60.0)
    np.testing.assert_allclose(empty.weights(60.0), two.weights(60.0), rtol=1e-9)


def state_of(gamma, features, residual):
    state = SigmaState(["ann", "bob", "cat", "dan"], 2, Settings(gamma=gamma), n_features=3)
    for row, e in zip(features, residual, strict=True):
        state.features.write(row, e, state.begin_event())
    return state


def test_a_state_forgets_features_without_overflow():
    """Strong decay moves the anchor many times."""
    features, residual = events(13, n=500)
    state = state_of(0.3, features, residual)
    assert np.isfinite(state.features.decayed.arrays["sum"]).all()
    assert np.abs(state.features.decayed.arrays["sum"]).max() < 2.0**40
    np.testing.assert_allclose(
        state.features.weights(500.0), naive_weights(features, residual, 0.3), rtol=1e-6
    )


def test_states_merge_their_features():
    features, residual = events(14)
    whole = state_of(0.3, features, residual)
    one, two = state_of(0.3, features[:30], residual[:30]), state_of(0.3, features[:0], residual[:0])
    for t in range(N):
        tick = two.begin_event()
        if t >= 30:
            two.features.write(features[t], residual[t], tick)
    one.merge(two)
    np.testing.assert_allclose(one.features.weights(one.now), whole.features.weights(whole.now), rtol=1e-6)
    everyone = np.ones(4, dtype=bool)
    expected = whole.text_log_odds(features[0], everyone)
    np.testing.assert_allclose(one.text_log_odds(features[0], everyone), expected, rtol=1e-6)
