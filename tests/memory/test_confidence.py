"""Confidence: claims at several temperatures, mixed and calibrated by decayed sums over recorded claims."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.confidence import N_CLAIMS, TEMPERATURES, answer_claims, calibrated, membership

totals = st.lists(st.floats(-2000.0, 2000.0), min_size=1, max_size=6)


@given(totals=totals, alternatives=st.floats(1.0, 50.0), which=st.integers(0, 5))
def test_claims_are_probabilities_whatever_the_totals(totals, alternatives, which):
    claims = answer_claims(np.array(totals), alternatives, which % len(totals), 0.5)
    assert ((claims > 0.0) & (claims < 1.0)).all()


def test_claims_are_a_posterior_with_the_answers_that_nobody_gave():
    claims = answer_claims(np.array([1.2, -0.4]), alternatives=4.0, group=0, sure=0.5)
    for tau, claim in zip(TEMPERATURES, claims[:-1], strict=True):
        given, other, unseen = np.exp(tau * 1.2), np.exp(tau * -0.4), 3.0
        assert claim == pytest.approx(given / (given + other + unseen), abs=1e-4)


@given(claim=st.floats(0.0, 1.0))
def test_a_claim_lies_in_two_neighbouring_bins(claim):
    weights = membership(claim)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights >= 0.0).all()
    (used,) = weights.nonzero()
    assert used.max() - used.min() <= 1


def test_from_a_cold_start_the_confidence_is_the_claim():
    assert calibrated(0.7, np.zeros((2, 12))) == 0.7


def naive_calibrated(history, claim, gamma):
    error, labels = np.zeros(12), np.zeros(12)
    for age, (_, before, y) in enumerate(reversed(history)):
        if y is not None:
            error += gamma**age * membership(before) * (y - before)
            labels += gamma**age * membership(before)
    offsets = [0.0]
    for total, n in zip(error, labels, strict=True):
        offsets.append((total + 10.0 * offsets[-1]) / (n + 10.0))
    return np.clip(claim + membership(claim) @ offsets[1:], 0.005, 0.995)


@given(seed=st.integers(0, 2**32 - 1), gamma=st.sampled_from([0.5, 0.99, 1.0]))
def test_late_corrected_and_revoked_labels_are_exact(seed, gamma):
    """Every claim gets a wrong label first; the right one, or none, replaces it in any order."""
    rng, history = np.random.default_rng(seed), []
    state = SigmaState(["a"], 1, Settings(gamma=gamma))
    for tick in range(1, 41):
        claims = rng.uniform(0.01, 0.99, N_CLAIMS).round(4)
        y = None if rng.random() < 0.3 else float(rng.random() < 0.5)
        history.append((claims, float(claims.mean().round(4)), y))
        state.write_sureness(np.append(*history[-1][:2]), 0.25, tick)
    for t in rng.permutation(40):
        *claimed, y = history[t]
        state.write_sureness(np.append(*claimed), 0.25, t + 1.0, weight=-1.0)
        if y is not None:
            state.write_sureness(np.append(*claimed), y, t + 1.0)
    bins, found = (
        state.sums[name] * state.sums.factors(name, 40.0) for name in ("sure.bins", "sure.likelihood")
    )
    assert calibrated(0.6, bins) == pytest.approx(naive_calibrated(history, 0.6, gamma), abs=1e-9)
    likelihood = np.zeros(N_CLAIMS)
    for age, (claims, _, y) in enumerate(reversed(history)):
        if y is not None:
            likelihood += gamma**age * np.log(claims if y else 1.0 - claims)
    np.testing.assert_allclose(found, likelihood, atol=1e-9)


def test_a_set_is_as_sure_as_its_decisions():
    state = SigmaState(["a"], 1, Settings(gamma=1.0))
    for tick in range(1000):
        state.count_decisions(0.95 if tick % 2 else 0.8, tick)
    assert state.confidence_of_set(0.8) == pytest.approx(0.875, abs=0.01)
    assert state.confidence_of_set(0.96) == pytest.approx(0.96)
