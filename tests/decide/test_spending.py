"""Routes that look at costs: chances are distributions, λ fits a target, and prices are only a prior."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.decide.spending import (
    Multiplier,
    budget_multiplier,
    chances_by_utility,
    chances_good_enough,
    drawn_to_price,
    exploring_sd,
)

peers = st.lists(
    st.tuples(st.floats(0.01, 0.99), st.sampled_from([0.0, 0.02, 0.3]), st.floats(0.0, 10.0)),
    min_size=1,
    max_size=6,
)


def columns(rows):
    return (np.array(column) for column in zip(*rows, strict=True))


@given(peers, st.floats(0.0, 5.0), st.floats(0.0, 5.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_chances_sum_to_one(rows, low, more, mixed, least):
    mean, sd, cost = columns(rows)
    for chances in (
        chances_by_utility(mean, sd, cost, Multiplier(low, low + more, mixed)),
        chances_good_enough(mean, sd, cost, least),
    ):
        assert (chances >= 0.0).all()
        assert chances.sum() == pytest.approx(1.0, abs=1e-9)


def test_chances_of_being_good_enough_are_those_of_draws():
    mean, sd, cost = np.array([0.9, 0.7, 0.5]), np.array([0.05, 0.1, 0.1]), np.array([9.0, 3.0, 1.0])
    drawn = mean + sd * np.random.default_rng(0).standard_normal((100_000, 3))
    cheapest = np.where((drawn >= 0.6).any(axis=1), 2 - (drawn >= 0.6)[:, ::-1].argmax(axis=1), -1)
    shares = np.bincount(cheapest[cheapest >= 0], minlength=3) / 100_000
    np.testing.assert_allclose(chances_good_enough(mean, sd, cost, 0.6), shares, atol=0.01)


@given(st.integers(0, 50), st.floats(0.5, 9.5))
def test_lambda_spends_the_target_and_no_more(seed, target):
    rng = np.random.default_rng(seed)
    mean, cost = rng.random((64, 3)), np.tile([0.5, 2.0, 10.0], (64, 1))
    low, high, mixed = budget_multiplier(mean, np.zeros((64, 3)), cost, target)
    spent = [cost[np.arange(64), (mean - x * cost).argmax(axis=1)].mean() for x in (low, high)]
    expected = mixed * spent[0] + (1.0 - mixed) * spent[1]
    assert expected <= target + 1e-9
    assert high == 0.0 or expected == pytest.approx(target, rel=1e-6)


def test_money_that_nobody_needs_is_not_kept():
    mean, cost = np.array([[0.9, 0.5]]), np.array([[0.1, 5.0]])
    assert budget_multiplier(mean, np.zeros((1, 2)), cost, 1.0) == (0.0, 0.0, 0.0)
    assert (
        budget_multiplier(mean[:, ::-1], np.zeros((1, 2)), cost, 0.01).high == 40.0
    )  # too little for anyone


def test_a_rate_that_is_significant_is_kept_and_others_follow_the_price():
    price = np.array([1.0, 10.0, 100.0])
    rate, labels = np.array([0.9, 0.9, 0.5]), np.array([400.0, 5.0, 400.0])
    drawn = drawn_to_price(rate, labels, price, 0.2)
    assert drawn[0] == pytest.approx(0.9, abs=0.05)
    assert drawn[2] == pytest.approx(0.5, abs=0.05)
    nothing = drawn_to_price(np.full(3, 0.5), np.zeros(3), price, 0.25)
    assert nothing.tolist() == sorted(nothing.tolist())  # a dearer peer is taken to be better


def test_more_labels_are_surer():
    sd = exploring_sd(0.2, np.array([0.0, 10.0, 1000.0]))
    assert sd.tolist() == sorted(sd.tolist(), reverse=True)
