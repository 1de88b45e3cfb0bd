import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory.calibration import pool_mean, probability, shrunk_mean, wilson


@given(
    right=st.integers(0, 50),
    wrong=st.integers(0, 50),
    prior=st.floats(-0.98, 0.98),
    strength=st.floats(0.1, 20),
)
def test_p_is_the_mean_of_a_beta_that_counted_right_and_wrong(right, wrong, prior, strength):
    score, effective = np.array([float(right - wrong)]), np.array([float(right + wrong)])
    a, b = right + strength * (1.0 + prior) / 2.0, wrong + strength * (1.0 - prior) / 2.0
    p = probability(shrunk_mean(score, effective, np.array([prior]), strength))
    assert p[0] == pytest.approx(a / (a + b))


@given(seed=st.integers(0, 1000), prior=st.floats(0.1, 0.9), worth=st.floats(0.1, 9.0))
def test_the_mean_of_the_pool_counts_every_label_and_its_prior(seed, prior, worth):
    rng = np.random.default_rng(seed)
    labels = rng.random((3, 4)) * 20.0
    total = labels * rng.uniform(-1.0, 1.0, (3, 4))
    together = pool_mean(total, labels, prior, worth)
    assert together.shape == (3, 1)
    for row in range(3):
        expected = (sum(total[row]) + worth * (2.0 * prior - 1.0)) / (sum(labels[row]) + worth)
        assert together[row, 0] == pytest.approx(expected, abs=1e-12)


def test_what_goes_in_is_left_alone():
    score, effective, prior = np.array([1.0, -2.0]), np.array([3.0, 4.0]), np.array([0.5, 0.6])
    probability(shrunk_mean(score, effective, prior, 4.0))
    pool_mean(score, effective, 0.5, 4.0)
    assert score.tolist() == [1.0, -2.0]
    assert effective.tolist() == [3.0, 4.0]
    assert prior.tolist() == [0.5, 0.6]


@given(p=st.floats(0, 1), n=st.floats(0.1, 1e5), z=st.floats(0.5, 4))
def test_the_interval_solves_wilsons_equation(p, n, z):
    """Its ends are the rates from which p lies z standard errors away."""
    for end in wilson(np.array([p]), np.array([n]), z):
        q = float(end[0])
        assert 0.0 <= q <= 1.0
        if 1e-9 < q < 1.0 - 1e-9:
            assert abs(p - q) == pytest.approx(z * math.sqrt(q * (1.0 - q) / n), rel=1e-6, abs=1e-9)


def test_the_interval_holds_p_and_narrows():
    low, high = wilson(np.array([0.9, 0.9]), np.array([10.0, 1000.0]), 1.96)
    assert (low < 0.9).all()
    assert (high > 0.9).all()
    assert high[1] - low[1] < 0.2 * (high[0] - low[0])
