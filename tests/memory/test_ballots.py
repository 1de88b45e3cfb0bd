"""The sums behind a vote that knows who errs with whom."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.ballots import (
    joint_weights,
    label_ballots,
    labelled_answers,
    opinion_likelihood,
    pair_ballots,
)


def numbered(row: list[int]) -> list[int]:
    """Groups numbered from 0 in order of first appearance, as `group_answers` does."""
    numbers: dict[int, int] = {}
    return [g if g < 0 else numbers.setdefault(g, len(numbers)) for g in row]


def events(n_peers: int = 4, n_events: int = 12) -> st.SearchStrategy[tuple[NDArray[np.intp], FloatArray]]:
    group = st.lists(st.integers(-2, 2), min_size=n_peers, max_size=n_peers).map(numbered)
    label = st.lists(st.sampled_from([1.0, -1.0, 0.5, np.nan]), min_size=n_peers, max_size=n_peers)
    both = st.lists(st.tuples(group, label), min_size=1, max_size=n_events)
    return both.map(lambda rows: (np.array([g for g, _ in rows]), np.array([c for _, c in rows])))


def design(groups: NDArray[np.intp]) -> FloatArray:
    """X of one event, answers × peers, less the mean over answers."""
    rows = np.array([groups == a for a in range(groups.max() + 1)], dtype=np.float64)
    return rows - rows.mean(axis=0) if len(rows) > 1 else np.zeros((1, len(groups)))


@given(events())
def test_pairs_are_the_gram_matrix_of_centred_answers(drawn: tuple[NDArray[np.intp], FloatArray]) -> None:
    groups, _ = drawn
    for row, found in zip(groups, pair_ballots(groups), strict=True):
        x = design(row)
        np.testing.assert_allclose(found, x.T @ x, atol=1e-12)


@given(events())
def test_labels_are_the_product_of_centred_answers_and_truth(
    drawn: tuple[NDArray[np.intp], FloatArray],
) -> None:
    groups, c = drawn
    answers = labelled_answers(c, groups)
    for row, labels, found, counted in zip(groups, c, label_ballots(answers), answers.counts, strict=True):
        truth = labelled_answers(labels, row).truth
        if counted:
            y = np.array([truth[row == a][0] for a in range(row.max() + 1)])
            np.testing.assert_allclose(found, design(row).T @ (y - y.mean()), atol=1e-12)
        else:
            assert row.max() < 1 or np.isnan(labels[row >= 0]).all()
            assert not found.any()


def test_a_wrong_answer_of_two_speaks_for_the_other() -> None:
    answers = labelled_answers(np.array([-1.0, np.nan, np.nan]), np.array([0, 1, 1]))
    right = label_ballots(answers)
    assert right[0] < 0 < right[1] == right[2]
    assert answers.counts


def test_likelihood_is_that_of_the_answer_that_was_right() -> None:
    opinions = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    groups = np.array([0, 1, 2])
    found = opinion_likelihood(labelled_answers(np.array([-1.0, 1.0, -1.0]), groups), opinions)
    np.testing.assert_allclose(found, np.log([0.2, 0.1]))
    partial = opinion_likelihood(labelled_answers(np.array([-1.0, np.nan, np.nan]), groups), opinions)
    np.testing.assert_allclose(partial, np.log([0.3, 0.9]))
    assert not opinion_likelihood(
        labelled_answers(np.full(3, -1.0), groups), opinions
    ).any()  # nobody was right
    assert not opinion_likelihood(labelled_answers(np.ones(3), np.zeros(3, np.intp)), opinions).any()


def test_two_that_answer_as_one_share_a_vote() -> None:
    """Four peers are right seven times in ten; the first two always together."""
    right = np.random.default_rng(0).random((8000, 3)) < 0.7
    c = np.where(right[:, [0, 0, 1, 2]], 1.0, -1.0)
    groups = np.array([numbered(row) for row in np.where(c > 0, 0, 1).tolist()])
    answers = labelled_answers(c, groups)
    b, n = label_ballots(answers), answers.counts
    pairs = pair_ballots(groups).sum(axis=0)
    weights = joint_weights(pairs, n.sum().item(), b.sum(axis=0), n.sum().item())
    assert weights[0] == pytest.approx(weights[1])
    assert weights[0] + weights[1] == pytest.approx(weights[2], rel=0.15)
    assert weights[2] == pytest.approx(weights[3], rel=0.15)


@given(events(), st.permutations(range(4)))
def test_the_order_of_peers_plays_no_part(
    drawn: tuple[NDArray[np.intp], FloatArray], order: list[int]
) -> None:
    groups, c = drawn
    found = []
    for places in (list(range(4)), order):
        answers = labelled_answers(c[:, places], groups[:, places])
        b, n = label_ballots(answers), answers.counts
        pairs = pair_ballots(groups[:, places]).sum(axis=0)
        found.append(joint_weights(pairs, float(len(c)), b.sum(axis=0), n.sum().item()))
    np.testing.assert_allclose(found[0][order], found[1], atol=1e-9)


def test_without_labels_every_vote_is_worth_the_same() -> None:
    groups = np.array([[0, 0, 1], [0, 1, 1], [0, 1, 0]] * 20)
    weights = joint_weights(pair_ballots(groups).sum(axis=0), 60.0, np.zeros(3), 0.0)
    assert np.ptp(weights) == pytest.approx(0.0)


def test_a_peer_that_nobody_has_seen_has_the_prior_weight() -> None:
    pairs = np.zeros((3, 3))
    pairs[:2, :2] = 50.0
    weights = joint_weights(pairs, 100.0, np.array([-20.0, -20.0, 0.0]), 10.0)
    assert weights[2] == pytest.approx(1.0 / (5.0 + 10.0 * 10.0 / 120.0))
    assert weights[2] > weights[0]
