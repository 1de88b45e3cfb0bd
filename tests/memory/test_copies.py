"""Peers that copy one another are found without a label, and are worth one vote together."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.agreement import agreement_labels
from sigma_mem.memory.copies import (
    Copies,
    agreement_beside_copies,
    copying,
    pair_evidence,
    pair_evidence_of,
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
    return groups


@given(groups=answers(), gamma=st.sampled_from([0.5, 0.99, 1.0]))
def test_sums_votes_and_agreement_are_those_of_plain_loops(groups, gamma):
    copies = Copies(groups.shape[1], -math.log(gamma))
    for t, row in enumerate(groups):
        expected = naive.copies(groups[:t], gamma)
        d = copies.degrees(now=t)
        np.testing.assert_allclose(np.zeros_like(expected) if d is None else d, expected, atol=1e-9)
        votes = votes_among(row, expected)
        np.testing.assert_allclose(votes, naive.votes(row, expected), atol=1e-12)
        np.testing.assert_allclose(
            agreement_beside_copies(row, expected, votes),
            naive.agreement_beside_copies(row, expected),
            atol=ROUNDED,
        )
        copies.write(row, t + 1)
    many = copying(*np.moveaxis(pair_evidence(groups).cumsum(axis=0), 1, 0))
    np.testing.assert_allclose(many[-1], naive.copies(groups, 1.0), atol=1e-9)


@given(groups=answers(max_events=8))
def test_one_event_tells_of_pairs_what_many_tell_to_the_bit(groups):
    for row, evidence in zip(groups, pair_evidence(groups), strict=True):
        # A sum cannot tell −0 from 0.
        assert (0.0 + pair_evidence_of(row)).tobytes() == (0.0 + evidence).tobytes()


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


@given(groups=answers(), order=st.randoms())
def test_what_is_taken_back_leaves_nothing_and_order_does_not_matter(groups, order):
    copies, rest = Copies(groups.shape[1], 0.01), Copies(groups.shape[1], 0.01)
    ticks = list(range(len(groups)))
    order.shuffle(ticks)
    for t in ticks:
        copies.write(groups[t], t)
    for t in ticks[::2]:
        copies.write(groups[t], t, sign=-1.0)
    for t in sorted(ticks[1::2]):
        rest.write(groups[t], t)
    np.testing.assert_allclose(copies.decayed.value("pairs", 60), rest.decayed.value("pairs", 60), atol=1e-9)


@given(groups=answers())
def test_answers_of_departed_peers_still_tell_who_sided_with_whom(groups):
    stays = groups.shape[1] // 2 + 1
    everyone, after = Copies(groups.shape[1], 0.0), Copies(stays, 0.0)
    for row in groups:
        everyone.write(row, 0.0)
        after.write(row, 0.0)
    np.testing.assert_array_equal(
        everyone.take(range(stays)).decayed.arrays["pairs"], after.decayed.arrays["pairs"]
    )


def test_good_peers_are_no_copies():
    """Three are right nine times in ten, two guess: agreeing with everybody is no copying."""
    rng = np.random.default_rng(0)
    right = rng.random((2000, 5)) < [0.9, 0.9, 0.9, 0.5, 0.5]
    wrong = rng.integers(1, 6, size=right.shape)
    state = SigmaState([*"abcde"], rank=1)
    for tick, row in enumerate(np.where(right, 0, wrong)):
        state.write_copies(row, tick)
    assert state.copying(at=2000.0) is None


def test_without_agreement_nobody_looks_for_copies():
    state = SigmaState(["a", "b", "c"], rank=1, settings=Settings(agreement=False))
    for tick in range(100):
        state.write_copies(np.array([0, 0, 1]), tick)
    assert state.copies is None
    assert state.copying() is None


def test_after_a_long_pause_nobody_copies():
    copies = Copies(3, rate=1.0)
    for tick in range(100):
        copies.write(np.array([0, 0, 1]), tick * 0.001)
    assert copies.degrees(now=0.1) is not None
    assert copies.degrees(now=1e6) is None
