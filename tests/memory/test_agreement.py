"""Agreement says who is better than others, and where; how often anybody is right only labels say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.decide.vote import group_answers
from sigma_mem.ledger.event import agreement_of
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.agreement import agreement_labels, centred_agreement, deviation

from . import naive

PHI = np.array([1.0, 0.0])
answers = st.lists(st.integers(-2, 3), min_size=1, max_size=7)


@given(groups=answers)
def test_agreement_is_the_share_of_the_other_readable_answers(groups):
    np.testing.assert_array_equal(agreement_labels(np.array(groups)), naive.agreement(groups))
    np.testing.assert_array_equal(agreement_of(groups), naive.agreement(groups))
    np.testing.assert_array_equal(agreement_labels(np.array([groups, groups]))[1], naive.agreement(groups))


@given(groups=answers)
def test_an_event_says_who_agrees_more_than_the_others(groups):
    a = agreement_labels(np.array(groups))
    found = centred_agreement(a)
    np.testing.assert_allclose(found, naive.centred_agreement(a), atol=1e-15)
    np.testing.assert_array_equal(centred_agreement(np.stack((a, a)))[1], found)
    assert found.sum() == pytest.approx(0.0, abs=1e-12)
    assert not found[np.isnan(a)].any()


@pytest.mark.parametrize("groups", [[0, 0, 0], [0, 1, 2], [0, -2, -2], [-1, -1, -1]])
def test_where_all_agree_or_none_does_nothing_is_said(groups):
    np.testing.assert_allclose(centred_agreement(agreement_labels(np.array(groups))), 0.0, atol=1e-15)


def test_elsewhere_a_peer_agrees_as_it_does_overall():
    assert deviation(np.zeros(1), np.zeros(1), np.array([0.3]), 10.0).tolist() == pytest.approx([0.0])


def play(state, rates, n_events, rng, *, share, groups):
    """Peers that are right at these rates, whatever the task; a share of the events is labelled."""
    for _ in range(n_events):
        reading, tick = state.read(PHI), state.begin_event()
        c = np.where(rng.random(len(rates)) < rates, 1.0, -1.0)
        state.write_agreement(PHI, agreement_labels(groups(c)), tick)
        if rng.random() < share:
            state.write(PHI, c, tick, claims=reading.claims)


def test_agreement_ranks_peers_that_nobody_has_labelled():
    """Right answers are equal, wrong ones differ: who is right more often agrees more often."""
    rng = np.random.default_rng(1)
    state = SigmaState(["good", "fair", "bad"], 2)
    play(state, [0.9, 0.7, 0.3], 400, rng, share=0.0, groups=lambda c: np.where(c > 0, 0, [1, 2, 3]))
    assert np.all(np.diff(state.read(PHI).prob) < 0.0)


def test_between_two_answers_agreement_ranks_nobody():
    """Those that are wrong together agree as often as those that are right."""
    rng, rates = np.random.default_rng(1), [0.9, 0.9, 0.3, 0.3]
    free, bound, three = (SigmaState(list(names), 2) for names in ("abcd", "abcd", "abc"))
    for _ in range(200):
        wrong = rng.random(4) > rates
        each = np.where(wrong, [1, 2, 3, 4], 0)
        for state, given_answers in ((free, each), (bound, 1 * wrong), (three, 1 * wrong[1:])):
            groups, tick = group_answers(given_answers.tolist()), state.begin_event()
            state.write_answers(groups, tick)
            state.write_agreement(PHI, agreement_labels(groups), tick)
    assert np.ptp(bound.read(PHI).prob) == 0.0
    assert free.read(PHI).prob[:2].min() > free.read(PHI).prob[2:].max()
    assert np.ptp(three.read(PHI).prob) > 0.0  # one against two could not have shown a third answer


def test_agreement_knows_nothing_of_the_level_that_labels_set():
    """Peers that always agree, and are wrong half of the time or nearly always."""
    rng, as_one = np.random.default_rng(2), lambda c: np.zeros(2, dtype=int)
    state = SigmaState(["a", "b"], 2)
    play(state, [0.5, 0.5], 300, rng, share=0.0, groups=as_one)
    assert state.read(PHI).prob.tolist() == [0.5, 0.5]
    play(state, [0.5, 0.5], 300, rng, share=0.3, groups=as_one)
    assert state.read(PHI).prob == pytest.approx([0.5, 0.5], abs=0.1)
    play(state, [0.05, 0.05], 300, rng, share=0.3, groups=as_one)
    assert state.read(PHI).prob.max() < 0.25


@given(groups=st.lists(st.integers(-2, 2), min_size=3, max_size=3))
def test_one_vote_moves_nobody_far_and_nobody_who_did_not_answer(groups):
    state = SigmaState(["a", "b", "c"], 2)
    state.write_agreement(PHI, agreement_labels(np.array(groups)), state.begin_event())
    prob = state.read(PHI).prob
    assert np.abs(prob - 0.5).max() < 0.1
    assert all(p == 0.5 for p, group in zip(prob, groups, strict=True) if group == -2)


def test_agreement_where_peers_are_labelled_is_worth_little():
    """Two that agree with each other and are wrong, one that is alone and right."""
    state, rng = SigmaState(["a", "b", "alone"], 2), np.random.default_rng(3)
    play(state, [0.1, 0.1, 0.9], 200, rng, share=0.2, groups=lambda c: np.array([0, 0, 1]))
    prob = state.read(PHI).prob
    assert prob[2] > 0.7 > 0.3 > prob[:2].max()


def test_agreement_counts_where_it_was_seen():
    """Agrees at one kind of task and is alone at the other."""
    here, there = np.eye(2)
    state = SigmaState(["a", "b", "c"], 2)
    for _ in range(60):
        state.write_agreement(here, agreement_labels(np.array([0, 0, 1])), state.begin_event())
        state.write_agreement(there, agreement_labels(np.array([1, 0, 0])), state.begin_event())
    assert state.read(here).prob[0] > 0.5 > state.read(there).prob[0]
    assert state.read(here).prob[2] < 0.5 < state.read(there).prob[2]


def test_agreement_taken_back_was_never_seen():
    state, a = SigmaState(["a", "b", "c"], 2, Settings()), agreement_labels(np.array([0, 0, 1]))
    tick = state.begin_event()
    state.write_agreement(PHI, a, tick)
    state.write_agreement(PHI, a, tick, sign=-1.0)
    np.testing.assert_allclose(state.read(PHI).prob, 0.5, atol=1e-12)
