import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.competition import wrong_pairs

from . import naive
from .strategies import labels, shares, unit_rows


def state_of(n_peers, gamma=0.99, rank=2):
    return SigmaState([str(i) for i in range(n_peers)], rank, Settings(gamma=gamma))


@given(n_peers=st.integers(1, 9), seed=st.integers(0, 10_000), missing=shares)
def test_wrong_pairs_are_counted_as_by_hand(n_peers, seed, missing):
    rng = np.random.default_rng(seed)
    c = labels(rng, (4, n_peers), missing, 0.2) * rng.choice([-1.0, 1.0])
    groups = rng.integers(-2, 3, (4, n_peers))
    expected = [naive.wrong_pairs(*event) for event in zip(c, groups, strict=True)]
    assert list(zip(*wrong_pairs(c, groups), strict=True)) == expected


def test_null_answers_right_answers_and_unlabelled_peers_do_not_count():
    c = np.array([-1.0, -1.0, -1.0, -1.0, 1.0, math.nan, 0.0])
    groups = np.array([0, 0, -1, -1, 0, 0, 0])
    assert [float(x) for x in wrong_pairs(c, groups)] == [1.0, 1.0]


@pytest.mark.parametrize("gamma", [0.4, 0.99, 1.0])
def test_alternatives_and_readability_are_those_of_plain_loops(gamma):
    rng = np.random.default_rng(3)
    c, groups = labels(rng, (150, 5), 0.2, 0.2), rng.integers(-2, 4, (150, 5))
    phis, state = unit_rows(rng, 150, 3), state_of(5, gamma, rank=3)
    for t in range(150):
        state.write(phis[t], c[t], state.begin_event(), groups=groups[t])
    for phi in unit_rows(rng, 4, 3):
        expected = naive.alternatives(phis, c, groups, gamma, phi)
        assert state.alternatives(phi) == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(state.readable, naive.readable(c, groups, gamma), atol=1e-9)


@pytest.mark.parametrize("k_minus_1", [1, 3, 9])
def test_k_is_learned_from_random_wrong_answers_where_they_were_given(k_minus_1):
    rng, state = np.random.default_rng(k_minus_1), state_of(4, gamma=1.0)
    here, there = np.eye(2)
    assert state.alternatives(here) == 4.0
    for _ in range(3000):
        for phi, options in ((here, k_minus_1), (there, 20)):
            state.write(phi, -np.ones(4), state.begin_event(), groups=rng.integers(0, options, 4))
    assert state.alternatives(here) == pytest.approx(k_minus_1, rel=0.1)
    assert state.alternatives(there) == pytest.approx(20, rel=0.15)


def test_a_peer_is_credited_with_readable_answers_until_it_fails():
    state = state_of(3, gamma=1.0)
    assert state.readable.tolist() == [1.0, 1.0, 1.0]
    for _ in range(6):  # an answer that was not asked for does not count
        state.write(np.eye(2)[0], np.ones(3), state.begin_event(), groups=np.array([0, -1, -2]))
    assert state.readable.tolist() == [1.0, 0.25, 1.0]
