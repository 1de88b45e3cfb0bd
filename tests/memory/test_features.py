"""The weights are a ridge regression of residuals on text features, kept as a decayed sum."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.features import feature_rows, feature_units, feature_weights, text_log_odds

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


def summed(features, residual, gamma=0.99):
    """J and how many answers it compares, as of the last event."""
    weight = gamma ** np.arange(len(features) - 1.0, -1.0, -1.0)
    return feature_rows(features, residual, weight).sum(axis=0)


@pytest.mark.parametrize("gamma", [0.3, 0.97, 1.0])
def test_the_weights_are_a_ridge_regression(gamma):
    features, residual = events(0)
    found = feature_weights(summed(features, residual, gamma))
    np.testing.assert_allclose(found, naive_weights(features, residual, gamma), rtol=1e-7)


@given(seed=st.integers(0, 2**16), missing=st.sampled_from([0.0, 0.4]))
def test_weights_are_shrunk_to_half_of_those_that_predict_agreement(seed, missing):
    features, agreement = events(seed, missing)
    residual = events(seed + 1, missing)[1]
    residual[np.arange(N) % 6 > 0] = np.nan  # few labels
    labelled, agreed = summed(features, residual, 1.0), summed(features, agreement, 1.0)
    expected = naive_weights_beside_agreement(features, residual, agreement)
    np.testing.assert_allclose(feature_weights(labelled, agreed), expected, atol=1e-9)
    assert not np.allclose(feature_weights(labelled), expected)


def test_agreement_speaks_of_texts_before_any_label():
    features, agreement = events(14)
    agreed = summed(features, agreement, 1.0)
    found = feature_weights(0.0 * agreed, agreed)
    np.testing.assert_allclose(found, 0.5 * feature_weights(agreed), rtol=1e-9)
    assert np.abs(found).max() > 0.0


def test_a_feature_that_goes_with_being_right_gets_weight_and_noise_gets_little():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(3000, 4, 2))
    residual = np.where(rng.random((3000, 4)) < 0.5 + 0.1 * features[:, :, 0].clip(-3, 3), 1.0, -1.0)
    good, noise = feature_weights(summed(features, residual, 1.0))
    assert good == pytest.approx(0.2, abs=0.03)
    assert abs(noise) < 0.03


def test_an_unlabelled_answer_is_not_compared():
    features, residual = events(2, missing=0.0)
    residual[:, 1] = np.nan
    without = summed(np.delete(features, 1, axis=1), np.delete(residual, 1, axis=1))
    np.testing.assert_allclose(summed(features, residual), without, atol=1e-9)


def test_units_are_one_standard_deviation_and_small_features_count_as_much_as_large_ones():
    features, residual = events(9, missing=0.0)
    scale = np.array([1.0, 10.0, 100.0])
    z = features - features.mean(axis=1, keepdims=True)
    spread = np.sqrt((z**2).sum(axis=(0, 1)) / (3 * N))
    plain, scaled = summed(features, residual, 1.0), summed(scale * features, residual, 1.0)
    np.testing.assert_allclose(feature_units(plain), spread, rtol=1e-9)
    np.testing.assert_allclose(scale * feature_weights(scaled), feature_weights(plain), rtol=1e-9)


def test_a_feature_that_never_varies_says_nothing():
    features, residual = events(4)
    features[:, :, 1] = 7.0
    assert feature_weights(summed(features, residual))[1] == 0.0


def test_nothing_is_known_at_first():
    assert not feature_weights(np.zeros((5, 4))).any()
    assert feature_weights(np.zeros((2, 1))).shape == (0,)
    state = state_of(0.9, *events(0, n=0))
    assert state.text_log_odds(np.ones((4, 3)).tolist(), range(4)).tolist() == [0.0] * 4


def test_log_odds_are_bounded_and_sum_to_nothing():
    features, residual = events(5)
    weights = feature_weights(summed(features, residual))
    assert abs(text_log_odds(features[0], weights).sum()) < 1e-12
    assert np.abs(text_log_odds(1e9 * features[0], weights)).max() == 1.5


def test_the_log_odds_of_a_peer_without_features_are_zero():
    features, residual = events(5)
    state = state_of(0.9, features, residual)
    found = state.text_log_odds(features[0][[0, 2]].tolist(), (0, 2))
    assert found[[1, 3]].tolist() == [0.0, 0.0]
    assert found[0] == -found[2] != 0.0


def test_log_odds_are_the_weighted_features():
    features, residual = events(12)
    weights = feature_weights(summed(0.1 * features, residual))
    z = 0.1 * (features[0] - features[0].mean(axis=0))
    log_odds = text_log_odds(0.1 * features[0], weights)
    np.testing.assert_allclose(log_odds, z @ weights, atol=1e-12)
    assert np.abs(log_odds).max() > 0.01


def state_of(gamma, features, residual):
    state = SigmaState(["ann", "bob", "cat", "dan"], 2, Settings(gamma=gamma), n_features=3)
    for row, e in zip(features, residual, strict=True):
        state.write_texts(row, e, state.begin_event())
    return state


@given(seed=st.integers(0, 2**16), gamma=st.sampled_from([0.3, 0.97]))
def test_a_state_keeps_the_sums_and_late_or_corrected_labels_are_exact(seed, gamma):
    features, residual = events(seed)
    other, order = events(seed + 1)[1], np.random.default_rng(seed).permutation(N)
    on_time, late = state_of(gamma, features, residual), state_of(gamma, features[:0], residual[:0])
    for _ in range(N):
        late.begin_event()
    for t in order:
        for said, weight in ((other, 1.0), (other, -1.0), (residual, 1.0)):
            late.write_texts(features[t], said[t], t + 1.0, weight)
    for state in (on_time, late):
        found = state.sums["features"] * state.sums.factors("features", float(N))
        np.testing.assert_allclose(found, summed(features, residual, gamma), atol=1e-8)


def test_weights_are_those_of_their_time():
    """With time evidence is worth less compared with the ridge."""
    state = state_of(0.99, *events(7))
    now = np.abs(state.text_effects()).max()
    for _ in range(340):
        state.begin_event()
    assert 0.0 < np.abs(state.text_effects()).max() < 0.5 * now
