import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory.discount import Discount
from sigma_mem.memory.distractors import Distractors, wrong_pairs, wrong_pairs_of

from . import naive
from .strategies import labels, shares, unit_rows


def write(distractors, phi, c, groups, tick):
    distractors.write(phi, *wrong_pairs_of(c, groups), tick)


@given(n_peers=st.integers(1, 9), seed=st.integers(0, 10_000), missing=shares)
def test_wrong_pairs_are_counted_as_by_hand(n_peers, seed, missing):
    rng = np.random.default_rng(seed)
    c = labels(rng, (4, n_peers), missing, 0.2) * rng.choice([-1.0, 1.0])
    groups = rng.integers(-2, 3, (4, n_peers))
    expected = [naive.wrong_pairs(*event) for event in zip(c, groups, strict=True)]
    assert list(zip(*wrong_pairs(c, groups), strict=True)) == expected
    assert [wrong_pairs_of(*event) for event in zip(c, groups, strict=True)] == expected


def test_null_answers_right_answers_and_unlabelled_peers_do_not_count():
    c = np.array([-1.0, -1.0, -1.0, -1.0, 1.0, math.nan, 0.0])
    groups = np.array([0, 0, -1, -1, 0, 0, 0])
    assert [float(x) for x in wrong_pairs(c, groups)] == [1.0, 1.0]
    assert wrong_pairs_of(c, groups) == (1.0, 1.0)


@pytest.mark.parametrize("gamma", [0.4, 0.99, 1.0])
def test_alternatives_are_decayed_pairs_near_phi_over_agreeing_ones(gamma):
    rng = np.random.default_rng(3)
    c, groups = labels(rng, (150, 5), 0.2, 0.2), rng.integers(-1, 4, (150, 5))
    phis = unit_rows(rng, 150, 3)
    distractors = Distractors(3, Discount(-math.log(gamma)))
    for t in range(150):
        distractors.advance(t + 1.0)
        write(distractors, phis[t], c[t], groups[t], t + 1.0)
    for phi in unit_rows(rng, 4, 3):
        expected = naive.alternatives(phis, c, groups, gamma, phi)
        assert distractors.alternatives(phi, 150.0) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("k_minus_1", [1, 3, 9])
def test_k_is_learned_from_random_wrong_answers_where_they_were_given(k_minus_1):
    rng = np.random.default_rng(k_minus_1)
    distractors = Distractors(2, Discount(0.0))
    here, there = np.eye(2)
    assert distractors.alternatives(here, 0.0) == 4.0
    for _ in range(3000):
        write(distractors, here, -np.ones(4), rng.integers(0, k_minus_1, 4), 1.0)
        write(distractors, there, -np.ones(4), rng.integers(0, 20, 4), 1.0)
    assert distractors.alternatives(here, 1.0) == pytest.approx(k_minus_1, rel=0.1)
    assert distractors.alternatives(there, 1.0) == pytest.approx(20, rel=0.15)


def test_merge_ages_the_other_one():
    one, two = (Distractors(1, Discount(math.log(2.0))) for _ in range(2))
    phi = np.array([1.0])
    one.write(phi, 0.0, 6.0, 2.0)
    two.write(phi, 4.0, 0.0, 1.0)
    one.merge(two, mine=2.0, theirs=2.0)
    overall = (2 + 1) / (6 + 4)
    assert one.alternatives(phi, 2.0) == pytest.approx((6 + 10) / (2 + 10 * overall))
