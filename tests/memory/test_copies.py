"""Peers that copy one another are found without a label, and are worth one vote together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.agreement import agreement_labels
from sigma_mem.memory.copies import (
    agreement_beside_copies,
    copying,
    pair_evidence,
    votes_among,
)

from . import naive

ROUNDED = 1e-3  # float16, as a ledger keeps agreement


@st.composite
def answers(draw, max_events=60):
    """Answer groups (T, P) in which some peers copy the first one, most of the time."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (draw(st.integers(1, max_events)), draw(st.integers(1, 6)))
    groups = rng.integers(draw(st.sampled_from([-2, 0])), draw(st.sampled_from([2, 5])), size=shape)
    copied = draw(st.integers(0, shape[1] - 1))
    copying_now = rng.random((shape[0], copied)) < draw(st.sampled_from([0.9, 1.0]))
    groups[:, 1 : 1 + copied] = np.where(copying_now, groups[:, :1], groups[:, 1 : 1 + copied])
    return np.array([numbered(row) for row in groups.tolist()])


def numbered(row):
    """Groups numbered from 0 in order of appearance; negative ones stay."""
    numbers = {}
    return [g if g < 0 else numbers.setdefault(g, len(numbers)) for g in row]


def state_of(n_peers, gamma=0.99):
    return SigmaState([str(i) for i in range(n_peers)], 1, Settings(gamma=gamma))


@given(groups=answers(), gamma=st.sampled_from([0.5, 0.99, 1.0]))
def test_sums_votes_and_agreement_are_those_of_plain_loops(groups, gamma):
    state = state_of(groups.shape[1], gamma)
    for t, row in enumerate(groups):
        expected = naive.copies(groups[:t], gamma)
        d = state.copying(at=t)
        np.testing.assert_allclose(np.zeros_like(expected) if d is None else d, expected, atol=1e-9)
        votes = votes_among(row, expected)
        np.testing.assert_allclose(votes, naive.votes(row, expected), atol=1e-12)
        np.testing.assert_allclose(
            agreement_beside_copies(row, expected, votes),
            naive.agreement_beside_copies(row, expected),
            atol=ROUNDED,
        )
        state.write_answers(row, t + 1)


@given(groups=answers(max_events=8))
def test_agreement_beside_copies_is_the_same_alone_and_among_others_to_the_bit(groups):
    d = copying(*pair_evidence(np.concatenate([groups] * 20)).sum(axis=0))
    votes = votes_among(groups, d)
    together = agreement_beside_copies(groups, np.broadcast_to(d, (len(groups), *d.shape)), votes)
    for row, own, expected in zip(groups, votes, together, strict=True):
        np.testing.assert_array_equal(agreement_beside_copies(row, d, own), expected)


@given(groups=answers())
def test_d_is_symmetric_and_a_peer_is_no_copy_of_itself(groups):
    d = copying(*pair_evidence(groups).sum(axis=0))
    np.testing.assert_array_equal(d, d.T)
    assert not d.diagonal().any()
    assert ((d >= 0.0) & (d <= 1.0)).all()
    votes = votes_among(groups, np.broadcast_to(d, (len(groups), *d.shape)))
    assert ((votes > 0.0) & (votes <= 1.0)).all()


@given(row=answers(max_events=1))
def test_without_copies_agreement_is_plain_to_the_bit(row):
    nothing = np.zeros((row.shape[1], row.shape[1]))
    votes = votes_among(row[0], nothing)
    np.testing.assert_array_equal(votes, 1.0)
    np.testing.assert_array_equal(agreement_beside_copies(row[0], nothing, votes), agreement_labels(row[0]))


@given(groups=answers())
def test_answers_of_departed_peers_still_tell_who_sided_with_whom(groups):
    stays = groups.shape[1] // 2 + 1
    everyone, after = state_of(groups.shape[1], 1.0), state_of(stays, 1.0)
    for row in groups:
        everyone.write_answers(row, 0.0)
        after.write_answers(row, 0.0)
    everyone.set_peers(after.peers)
    np.testing.assert_array_equal(everyone.sums["copies"], after.sums["copies"])


def test_good_peers_are_no_copies():
    """Three are right nine times in ten, two guess: agreeing with everybody is no copying."""
    rng = np.random.default_rng(0)
    right = rng.random((2000, 5)) < [0.9, 0.9, 0.9, 0.5, 0.5]
    wrong = rng.integers(1, 6, size=right.shape)
    state = SigmaState([*"abcde"], rank=1)
    for tick, row in enumerate(np.where(right, 0, wrong)):
        state.write_answers(row, tick)
    assert state.copying(at=2000.0) is None


@pytest.mark.parametrize(("answers", "copies"), [(2, False), (4, True)])
def test_peers_that_can_only_agree_against_the_rest_are_no_ring(answers, copies):
    """Five are right three times in four and four at random: with two answers that looks like collusion."""
    rng = np.random.default_rng(0)
    wrong = rng.integers(1, answers, size=(600, 1))  # that a ring gives together
    together = np.where(rng.random((600, 1)) < 0.75, 0, wrong)
    ring = np.where(rng.random((600, 5)) < 0.9, together, rng.integers(0, answers, size=(600, 5)))
    state = state_of(9, 1.0)
    for tick, row in enumerate(np.hstack((ring, rng.integers(0, answers, size=(600, 4)))).tolist()):
        state.write_answers(np.array(numbered(row)), tick)
    d = state.copying()
    assert (d is not None and d[:5, :5].any()) == copies
    assert d is None or not d[5:].any()


def test_two_that_never_differ_are_copies_even_if_there_are_two_answers_only():
    rng = np.random.default_rng(0)
    state = state_of(5, 1.0)
    for tick, row in enumerate(rng.integers(0, 2, size=(600, 4)).tolist()):
        state.write_answers(np.array(numbered([row[0], *row])), tick)
    d = state.copying()
    assert d[0, 1] > 0.8
    assert d.sum() == 2.0 * d[0, 1]


def test_without_agreement_nobody_looks_for_copies():
    state = SigmaState(["a", "b", "c"], rank=1, settings=Settings(agreement=False))
    for tick in range(100):
        state.write_answers(np.array([0, 0, 1]), tick)
    assert state.copying() is None


def test_after_a_long_pause_nobody_copies():
    state = state_of(3, gamma=0.4)
    for tick in range(100):
        state.write_answers(np.array([0, 0, 1]), tick * 0.001)
    assert state.copying(at=0.1) is not None
    assert state.copying(at=1e6) is None
