import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory.competition import (
    Readability,
    WrongAnswers,
    independent,
    prior_pairs,
    wrong_pairs,
    wrong_pairs_of,
)
from sigma_mem.memory.rates import Counts

from . import naive
from .strategies import labels, shares, unit_rows


def write(wrong_answers, phi, c, groups, tick):
    wrong_answers.write_pairs(phi, *independent(*wrong_pairs_of(c, groups)), tick)


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
    wrong_answers, events = WrongAnswers(3, -math.log(gamma)), Counts(0, [-math.log(gamma)], 1)
    for t in range(150):
        wrong_answers.decayed.advance(t + 1.0)
        write(wrong_answers, phis[t], c[t], groups[t], t + 1.0)
        if not np.isnan(c[t]).all():
            events.add(np.empty((0, 1)), np.ones(1), t + 1.0)
    fresh = events.factor(wrong_answers.decayed).item()
    for phi in unit_rows(rng, 4, 3):
        expected = naive.alternatives(phis, c, groups, gamma, phi)
        assert wrong_answers.alternatives(phi, fresh, prior_pairs(5)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("k_minus_1", [1, 3, 9])
def test_k_is_learned_from_random_wrong_answers_where_they_were_given(k_minus_1):
    rng = np.random.default_rng(k_minus_1)
    wrong_answers = WrongAnswers(2, 0.0)
    here, there = np.eye(2)
    prior = prior_pairs(4)
    assert wrong_answers.alternatives(here, 0.0, prior) == 4.0
    for _ in range(3000):
        write(wrong_answers, here, -np.ones(4), rng.integers(0, k_minus_1, 4), 1.0)
        write(wrong_answers, there, -np.ones(4), rng.integers(0, 20, 4), 1.0)
    assert wrong_answers.alternatives(here, 1.0, prior) == pytest.approx(k_minus_1, rel=0.1)
    assert wrong_answers.alternatives(there, 1.0, prior) == pytest.approx(20, rel=0.15)


def test_merge_ages_the_other_one():
    one, two = (WrongAnswers(1, math.log(2.0)) for _ in range(2))
    phi = np.array([1.0])
    one.write_pairs(phi, 0.0, 6.0, 2.0)
    two.write_pairs(phi, 4.0, 0.0, 1.0)
    one.merge(two, 2.0)
    overall, fresh = (2 + 1) / (6 + 4), one.decayed.factor(2.0)
    assert one.alternatives(phi, fresh, prior_pairs=4.0) == pytest.approx((6 + 10) / (2 + 10 * overall))


@pytest.mark.parametrize("gamma", [0.4, 0.99, 1.0])
def test_the_rate_is_that_of_labelled_answers_which_were_asked_for(gamma):
    rng = np.random.default_rng(0)
    c, groups = labels(rng, (120, 4), 0.3, 0.0), rng.integers(-2, 2, (120, 4))
    readability, labels_of = Readability(4, -math.log(gamma)), Counts(0, [-math.log(gamma)], 4)
    for t in range(120):
        readability.decayed.advance(t + 1.0)
        seen = 1.0 - np.isnan(c[t])
        readability.write(seen, groups[t], t + 1.0)
        labels_of.add(np.empty((0, 4)), seen, t + 1.0)
    rates = readability.rates(labels_of.factor(readability.decayed))
    np.testing.assert_allclose(rates, naive.readable(c, groups, gamma), atol=1e-9)


def test_a_peer_is_credited_with_readable_answers_until_it_fails():
    readability = Readability(2, 0.0)
    assert readability.rates(np.zeros(2)).tolist() == [1.0, 1.0]
    for _ in range(6):
        readability.write(np.ones(2), np.array([0, -1]), 1.0)
    assert readability.rates(np.ones(2)).tolist() == [1.0, 0.25]


def test_readability_follows_its_peers_and_merges():
    one, two = (Readability(2, math.log(2.0)) for _ in range(2))
    one.write(np.ones(2), np.array([-1, 0]), 2.0)
    two.write(np.ones(2), np.array([7, -1]), 1.0)
    moved = two.take([1, -1, 0])
    assert moved.rates(np.full(3, moved.decayed.factor(1.0))).tolist() == [2 / 3, 1.0, 1.0]
    one.merge(two, 2.0)
    assert one.rates(np.full(2, one.decayed.factor(2.0))).tolist() == pytest.approx([2.5 / 3.5, 3 / 3.5])


def test_an_answer_that_was_not_asked_for_does_not_count():
    readability = Readability(2, 0.0)
    readability.write(np.ones(2), np.array([-2, -1]), 1.0)
    assert readability.rates(np.ones(2)).tolist() == [1.0, 2 / 3]
