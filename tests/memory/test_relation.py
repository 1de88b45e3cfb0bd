import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Relation
from sigma_mem.memory.relation import WINDOW, centred, centred_events

from . import naive
from .strategies import labels, shares

seeds = st.integers(0, 10_000)


@given(n_peers=st.integers(1, 7), seed=seeds, missing=shares)
def test_q_is_centred_over_the_labelled_peers_only(n_peers, seed, missing):
    c = labels(np.random.default_rng(seed), n_peers, missing, 0.3)
    q = centred(c)
    np.testing.assert_allclose(q, naive.centred(c), atol=1e-15)
    assert abs(q.sum()) < 1e-14
    assert not q[np.isnan(c)].any()


def test_fewer_than_two_labels_say_nothing_about_relations():
    nan = math.nan
    for c in ([nan, nan, nan], [nan, 1.0, nan], [1.0]):
        assert not centred(np.array(c)).any()


@given(n_peers=st.integers(1, 5), n_departed=st.integers(1, 3), seed=seeds, missing=shares)
def test_peers_that_have_left_still_centre_q(n_peers, n_departed, seed, missing):
    rng = np.random.default_rng(seed)
    c = labels(rng, n_peers, missing, 0.3)
    departed = labels(rng, n_departed, 0.0, 0.3)
    expected = naive.centred(np.concatenate((c, departed)))[:n_peers]
    np.testing.assert_allclose(centred(c, departed.tolist()), expected, atol=1e-15)


@given(n_events=st.integers(1, 30), n_peers=st.integers(1, 6), seed=seeds, missing=shares)
def test_many_events_are_centred_as_one_by_one(n_events, n_peers, seed, missing):
    c = labels(np.random.default_rng(seed), (n_events, n_peers), missing, 0.3)
    np.testing.assert_allclose(centred_events(c), [centred(row) for row in c], atol=1e-15)


@given(
    n_events=st.integers(0, 120),
    n_peers=st.integers(1, 6),
    seed=seeds,
    missing=shares,
    gamma=st.sampled_from([0.3, 0.9, 0.995, 1.0]),
)
def test_G_is_that_of_the_paper(n_events, n_peers, seed, missing, gamma):
    c = labels(np.random.default_rng(seed), (n_events, n_peers), missing, 0.3)
    relation = Relation(n_peers, -math.log(gamma))
    for t, row in enumerate(c):
        relation.decayed.advance(t + 1.0)
        relation.write(centred(row), t + 1.0)
    G = relation.matrix(float(n_events), eta=0.05)
    np.testing.assert_allclose(G, naive.relation(c, gamma, 0.05), atol=1e-12)
    assert G.tobytes() == np.ascontiguousarray(G.T).tobytes()
    assert (np.diag(G) == 1.0).all()


def test_a_replaced_q_is_taken_back():
    right, wrong = np.array([1.0, -1.0, 0.0]), np.array([-0.5, 0.25, 0.25])
    corrected, clean = Relation(3, 0.2), Relation(3, 0.2)
    corrected.write(wrong, 1.0)
    corrected.write(wrong, 1.0, sign=-1.0)
    corrected.write(right, 1.0)
    clean.write(right, 1.0)
    np.testing.assert_allclose(corrected.matrix(4.0, 0.5), clean.matrix(4.0, 0.5), atol=1e-15)


def test_matrix_hands_out_a_copy():
    relation = Relation(2, 0.0)
    relation.write(np.array([1.0, -1.0]), 1.0)
    relation.matrix(1.0, 1.0)[:] = 99.0
    np.testing.assert_array_equal(relation.matrix(1.0, 1.0), [[1.0, -1.0], [-1.0, 1.0]])


def test_take_keeps_the_relations_of_those_who_stay():
    relation = Relation(3, 0.1)
    relation.write(np.array([1.0, -2.0, 1.0]), 1.0)
    G = relation.matrix(2.0, 0.3)
    moved = relation.take([2, -1, 1])
    H = moved.matrix(2.0, 0.3)
    assert H[0, 2] == H[2, 0] == G[2, 1]
    assert H[1].tolist() == [0.0, 1.0, 0.0]


def test_merge_ages_the_other_one():
    one, two = Relation(2, math.log(2.0)), Relation(2, math.log(2.0))
    one.write(np.array([1.0, -1.0]), 3.0)
    two.write(np.array([1.0, -1.0]), 1.0)
    one.decayed.merge(two.decayed, 3.0)
    assert one.matrix(3.0, 1.0)[0, 1] == pytest.approx(-1.25)


def written(n_events, seed, gamma=0.9):
    """A relation after n_events, and G of the same events without η and diagonal."""
    c = labels(np.random.default_rng(seed), (n_events, 3), 0.2, 0.3)
    relation = Relation(3, -math.log(gamma))
    for t, row in enumerate(c):
        relation.decayed.advance(t + 1.0)
        relation.write(centred(row), t + 1.0)
    return relation, naive.relation(c, gamma, 1.0)


@pytest.mark.parametrize(("first", "second"), [(3, 5), (WINDOW, WINDOW + 1), (2 * WINDOW + 3, 0)])
def test_merge_adds_both_as_they_are_now(first, second):
    (mine, G1), (theirs, G2) = written(first, 1), written(second, 2)
    now = float(max(first, second)) + 2.0
    before = theirs.matrix(now, 1.0)
    mine.merge(theirs, now)
    expected = 0.9 ** (now - first) * G1 + 0.9 ** (now - second) * G2
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(mine.matrix(now, 1.0), expected, atol=1e-12)
    assert theirs.matrix(now, 1.0).tobytes() == before.tobytes()


@pytest.mark.parametrize("n_events", [0, 5, WINDOW, WINDOW + 1])
def test_packed_arrays_continue_bit_for_bit(n_events):
    one, _ = written(n_events, 3)
    two = Relation(3, one.decayed.rate)
    two.unpack(one.pack())
    for relation in (one, two):
        for t in range(WINDOW):
            relation.write(np.array([1.0, -0.5, -0.5]), n_events + t + 1.0)
    now = n_events + WINDOW + 1.0
    assert one.matrix(now, 1.0).tobytes() == two.matrix(now, 1.0).tobytes()


@pytest.mark.parametrize("n_peers", [2, 3, 5, 8, 11])
def test_a_newcomer_changes_no_bit_between_the_others(n_peers):
    rng = np.random.default_rng(n_peers)
    relation = Relation(n_peers, rate=0.1)
    for tick in range(WINDOW + 9):
        relation.write(centred(rng.uniform(-1.0, 1.0, n_peers)), tick)
        before = relation.matrix(tick, 0.9)
        grown = relation.take(range(n_peers))
        grown.fold_window()
        after = grown.take([*range(n_peers), -1]).matrix(tick, 0.9)
        assert np.array_equal(after[:-1, :-1], before)
