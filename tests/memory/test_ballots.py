"""The sums behind a vote that knows who errs with whom."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.memory.ballots import answer_truth, joint_weights, label_ballots, pair_ballots


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
    right, counts = label_ballots(c, groups)
    for row, labels, found, counted in zip(groups, c, right, counts, strict=True):
        truth = answer_truth(labels, row)
        if counted:
            y = np.array([truth[row == a][0] for a in range(row.max() + 1)])
            np.testing.assert_allclose(found, design(row).T @ (y - y.mean()), atol=1e-12)
        else:
            assert row.max() < 1 or np.isnan(labels[row >= 0]).all()
            assert not found.any()


def test_a_wrong_answer_of_two_speaks_for_the_other() -> None:
    right, counts = label_ballots(np.array([-1.0, np.nan, np.nan]), np.array([0, 1, 1]))
    assert right[0] < 0 < right[1] == right[2]
    assert counts == 1.0


def test_two_that_answer_as_one_share_a_vote() -> None:
    """Four peers are right seven times in ten; the first two always together."""
    right = np.random.default_rng(0).random((8000, 3)) < 0.7
    c = np.where(right[:, [0, 0, 1, 2]], 1.0, -1.0)
    groups = np.array([numbered(row) for row in np.where(c > 0, 0, 1).tolist()])
    b, n = label_ballots(c, groups)
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
        b, n = label_ballots(c[:, places], groups[:, places])
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
