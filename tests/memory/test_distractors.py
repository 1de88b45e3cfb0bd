import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory.discount import Discount
from sigma_mem.memory.distractors import Distractors, wrong_pairs

from . import naive
from .strategies import labels, shares


@given(n_peers=st.integers(1, 9), seed=st.integers(0, 10_000), missing=shares)
def test_wrong_pairs_are_counted_as_by_hand(n_peers, seed, missing):
    rng = np.random.default_rng(seed)
    c = labels(rng, n_peers, missing, 0.2) * rng.choice([-1.0, 1.0])
    groups = rng.integers(-1, 3, n_peers)
    assert tuple(wrong_pairs(c, groups)) == naive.wrong_pairs(c, groups)


def test_null_answers_right_answers_and_unlabelled_peers_do_not_count():
    c = np.array([-1.0, -1.0, -1.0, 1.0, math.nan, 0.0])
    groups = np.array([0, 0, -1, 0, 0, 0])
    assert wrong_pairs(c, groups).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("gamma", [0.4, 0.99, 1.0])
def test_alternatives_are_decayed_pairs_over_agreeing_ones(gamma):
    rng = np.random.default_rng(3)
    c, groups = labels(rng, (150, 5), 0.2, 0.2), rng.integers(-1, 4, (150, 5))
    distractors = Distractors(Discount(-math.log(gamma)))
    for t in range(150):
        distractors.advance(t + 1.0)
        distractors.write(wrong_pairs(c[t], groups[t]), t + 1.0)
    assert distractors.alternatives(150.0) == pytest.approx(naive.alternatives(c, groups, gamma), rel=1e-12)


@pytest.mark.parametrize("k_minus_1", [1, 3, 9])
def test_k_is_learned_from_random_wrong_answers(k_minus_1):
    rng = np.random.default_rng(k_minus_1)
    distractors = Distractors(Discount(0.0))
    assert distractors.alternatives(0.0) == 3.0
    for _ in range(3000):
        distractors.write(wrong_pairs(-np.ones(4), rng.integers(0, k_minus_1, 4)), 1.0)
    assert distractors.alternatives(1.0) == pytest.approx(k_minus_1, rel=0.08)


def test_there_is_always_at_least_one_alternative():
    distractors = Distractors(Discount(0.0))
    distractors.write(np.array([-5.9, 0.0]), 1.0)  # more taken back than there was
    assert distractors.alternatives(1.0) == 1.0


def test_merge_ages_the_other_one():
    one, two = (Distractors(Discount(math.log(2.0))) for _ in range(2))
    one.write(np.array([6.0, 0.0]), 2.0)
    two.write(np.array([0.0, 4.0]), 1.0)
    one.merge(two, mine=2.0, theirs=2.0)
    assert one.alternatives(2.0) == pytest.approx((6 + 6) / (2 + 2))
