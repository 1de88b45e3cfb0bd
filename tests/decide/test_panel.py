"""When the rest would hardly change the answer, and whom to ask next."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sigma_mem.decide.panel import change_probability, next_peer
from sigma_mem.decide.read import View

RELATED = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])


def view_of(prob, groups, alternatives=3.0, relation=None, labelled=1000.0):
    n = len(prob)
    zero, one = np.zeros(n), np.ones(n)
    matrix = np.eye(n) if relation is None else relation
    return View(
        zero, np.array(prob), np.array(groups), zero, alternatives, one, lambda: matrix, labelled, None
    )


def test_nothing_left_to_ask_changes_nothing():
    assert change_probability(view_of([0.6, 0.6], [0, 1]), np.array([], dtype=np.intp)) == 0.0


def test_without_a_readable_answer_the_rest_decides():
    assert change_probability(view_of([0.6, 0.6], [-1, -2]), np.array([1])) == 1.0


def test_a_single_weak_peer_cannot_outvote_three_that_agree():
    view = view_of([0.8, 0.8, 0.8, 0.55], [0, 0, 0, -2])
    assert change_probability(view, np.array([3])) == 0.0


def test_a_close_vote_is_changed_more_often_than_a_clear_one():
    prob, rest = [0.6] * 6, np.array([4, 5])
    close, clear = ([0, 0, 1, 1, -2, -2], [0, 0, 0, 0, -2, -2])
    changes = [change_probability(view_of(prob, groups), rest) for groups in (close, clear)]
    assert changes[0] > 0.2 > changes[1]


def test_agreement_says_more_than_the_same_lead_with_a_dissent():
    rest = np.arange(4, 9)
    two, three_to_one = ([*asked, *[-2] * 5] for asked in ([0, 0, -1, -1], [0, 0, 0, 1]))
    agreed, led = (
        change_probability(view_of([0.6] * 9, g, alternatives=2.0), rest) for g in (two, three_to_one)
    )
    assert 0.0 < agreed < led


def test_copies_that_agree_are_no_agreement():
    groups, rest = [0, 0, -2, -2, -2], np.array([2, 3, 4])
    view = view_of([0.6] * 5, groups)
    copies = replace(view, votes=np.array([0.5, 0.5, 1.0, 1.0, 1.0]))
    assert change_probability(copies, rest) > 2.0 * change_probability(view, rest)


@settings(max_examples=50)
@given(
    prob=arrays.arrays(np.float64, 6, elements=st.floats(0.001, 0.999)),
    groups=arrays.arrays(np.intp, 6, elements=st.integers(-2, 3)),
    alternatives=st.floats(0.05, 30.0),
)
def test_it_is_a_probability_and_the_same_every_time(prob, groups, alternatives):
    canons = {g: i for i, g in enumerate(dict.fromkeys(g for g in groups.tolist() if g >= 0))}
    numbered = [canons.get(g, g) for g in groups.tolist()]
    view, rest = view_of(prob, numbered, alternatives), np.flatnonzero(np.array(numbered) == -2)
    found = change_probability(view, rest)
    assert 0.0 <= found <= 1.0
    assert found == change_probability(view, rest)


@pytest.mark.parametrize(
    ("groups", "price", "expected"),
    [
        ([-2, -2, -2], None, 0),
        ([0, -2, -2], None, 2),  # peer 1 is better than peer 2, but errs with peer 0
        ([-2, -2, -2], [5.0, 5.0, 1.0], 2),
    ],
)
def test_the_next_peer_is_good_cheap_and_not_a_copy_of_those_asked(groups, price, expected):
    view = view_of([0.8, 0.7, 0.6], groups, relation=RELATED)
    rest = np.flatnonzero(view.groups == -2)
    assert next_peer(view, rest, None if price is None else np.array(price)) == expected
