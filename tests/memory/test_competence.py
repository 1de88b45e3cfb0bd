import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Competence
from sigma_mem.memory.competence import WINDOW

from . import naive
from .strategies import labels, unit_rows

FAST = 0.8  # the second rate of the competences below


def written(n_events, n_peers=3, rank=5, gamma=0.97, seed=0, missing=0.3):
    """A competence after n_events, and the naive M/η and N/η of the same events, also at the second rate."""
    rng = np.random.default_rng(seed)
    phis = unit_rows(rng, n_events, rank)
    c = labels(rng, (n_events, n_peers), missing, 0.3)
    competence = Competence(n_peers, rank, -math.log(gamma), -math.log(FAST))
    for t in range(n_events):
        for decayed in competence.by_rate:
            decayed.advance(t + 1.0)
        seen = ~np.isnan(c[t])
        competence.write(phis[t], np.where(seen, c[t], 0.0), seen.astype(float), t + 1.0)
    return competence, naive.competence(phis, c, gamma, 1.0), naive.competence(phis, c, FAST, 1.0)


def scores_of(competence, phi, now):
    """Score and evidence at every rate, decayed."""
    factors = [decayed.factor(now) for decayed in competence.by_rate]
    return competence.undecayed_scores(phi) * np.array(factors)[:, None, None]


def assert_scores(competence, now, *matrices):
    """What is read at some φ is that of naive M and N at every rate."""
    for phi in unit_rows(np.random.default_rng(9), 4, 5):
        expected = [[[phi @ x @ phi for x in kind] for kind in both] for both in matrices]
        scores = scores_of(competence, phi, now)
        np.testing.assert_allclose(scores, expected, atol=1e-11)
        np.testing.assert_array_equal(competence.score(phi, now), scores[0])


# Around every fold: the window is folded when it is full and another event comes.
@pytest.mark.parametrize(
    "n_events", [0, 1, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW, 2 * WINDOW + 1, 3 * WINDOW + 7]
)
@pytest.mark.parametrize("gamma", [0.6, 0.999, 1.0])
def test_every_read_is_that_of_the_dense_matrices(n_events, gamma):
    competence, (M, N), fast = written(n_events, gamma=gamma)
    now = float(n_events)
    mine = competence.matrices(now)
    np.testing.assert_allclose(mine[0], M, atol=1e-11)
    np.testing.assert_allclose(mine[1], N, atol=1e-11)
    assert_scores(competence, now, (M, N), fast)
    for phi in unit_rows(np.random.default_rng(9), 4, 5):
        np.testing.assert_allclose(competence.readout(phi, now), [m @ phi for m in M], atol=1e-11)
    total, seen = competence.trace(now)
    np.testing.assert_allclose(total, [np.trace(m) for m in M], atol=1e-11)
    np.testing.assert_allclose(seen, [np.trace(n) for n in N], atol=1e-11)


@given(n_events=st.integers(0, 200), seed=st.integers(0, 1000))
def test_trace_is_the_trace_of_the_matrices(n_events, seed):
    competence, *_ = written(n_events, seed=seed)
    now = float(n_events) + 2.5
    M, N = competence.matrices(now)
    total, seen = competence.trace(now)
    np.testing.assert_allclose(total, np.trace(M, axis1=1, axis2=2), atol=1e-11)
    np.testing.assert_allclose(seen, np.trace(N, axis1=1, axis2=2), atol=1e-11)


@given(n_events=st.integers(1, 150), rank=st.integers(1, 70), seed=st.integers(0, 1000))
def test_matrices_are_symmetric_bit_for_bit(n_events, rank, seed):
    competence, *_ = written(n_events, n_peers=2, rank=rank, seed=seed)
    for matrix in np.concatenate(competence.matrices(n_events + 0.3)):
        assert matrix.tobytes() == np.ascontiguousarray(matrix.T).tobytes()


def test_peers_with_the_same_labels_have_the_same_bits():
    competence = Competence(3, 4, 0.01)
    rng = np.random.default_rng(0)
    for t, phi in enumerate(unit_rows(rng, WINDOW + 5, 4)):
        c = rng.choice([-1.0, 1.0])
        competence.write(phi, np.array([c, -c, c]), np.ones(3), t + 1.0)
    M, N = competence.matrices(WINDOW + 5.0)
    assert M[0].tobytes() == M[2].tobytes()
    assert np.array_equal(M[0], -M[1])
    assert N[0].tobytes() == N[1].tobytes() == N[2].tobytes()


@pytest.mark.parametrize("n_events", [10, WINDOW, WINDOW + 10])
def test_take_reorders_and_adds_strangers(n_events):
    competence, (M, N), (fast, fast_seen) = written(n_events, n_peers=3)
    other = competence.take([2, -1, 0])
    now = float(n_events)
    mine, theirs = competence.matrices(now), other.matrices(now)
    for kind, naive_kind in ((0, M), (1, N)):
        assert theirs[kind][0].tobytes() == mine[kind][2].tobytes()
        assert theirs[kind][2].tobytes() == mine[kind][0].tobytes()
        assert not theirs[kind][1].any()
        np.testing.assert_allclose(theirs[kind][0], naive_kind[2], atol=1e-11)
    taken = [[np.stack((x[2], 0.0 * x[0], x[0])) for x in both] for both in ((M, N), (fast, fast_seen))]
    assert_scores(other, now, *taken)
    np.testing.assert_array_equal(
        np.array(other.trace(now))[:, [0, 2]], np.array(competence.trace(now))[:, [2, 0]]
    )


def test_a_copy_moves_on_by_itself():
    competence, *_ = written(20)
    before = competence.matrices(20.0)[0]
    copy = competence.take(range(3))
    for decayed in copy.by_rate:
        decayed.advance(1e6)
    copy.write(np.eye(5)[0], np.ones(3), np.ones(3), 1e6)
    assert competence.matrices(20.0)[0].tobytes() == before.tobytes()


@pytest.mark.parametrize(("first", "second"), [(5, 9), (WINDOW + 3, 4), (WINDOW, 2 * WINDOW)])
def test_merge_adds_both_as_they_are_now(first, second):
    mine, (M1, N1), fast1 = written(first, gamma=0.7, seed=1)
    theirs, (M2, N2), fast2 = written(second, gamma=0.7, seed=2)
    now = float(max(first, second)) + 3.0
    mine.merge(theirs, now)
    M, N = mine.matrices(now)
    np.testing.assert_allclose(M, 0.7 ** (now - first) * M1 + 0.7 ** (now - second) * M2, atol=1e-11)
    np.testing.assert_allclose(N, 0.7 ** (now - first) * N1 + 0.7 ** (now - second) * N2, atol=1e-11)
    np.testing.assert_allclose(mine.trace(now)[1], np.trace(N, axis1=1, axis2=2), atol=1e-11)
    fast = FAST ** (now - first) * np.array(fast1) + FAST ** (now - second) * np.array(fast2)
    assert_scores(mine, now, (M, N), fast)
    np.testing.assert_allclose(theirs.matrices(float(second))[0], M2, atol=1e-11)  # and leaves it alone


@pytest.mark.parametrize("n_events", [0, 7, WINDOW, WINDOW + 1])
def test_packed_arrays_continue_bit_for_bit(n_events):
    one, *_ = written(n_events)
    two = Competence(3, 5, one.decayed.rate, -math.log(FAST))
    two.unpack(one.pack())
    for competence in (one, two):
        for t, phi in enumerate(unit_rows(np.random.default_rng(1), WINDOW, 5)):
            competence.write(phi, np.ones(3), np.ones(3), n_events + t + 1.0)
    now, phi = n_events + WINDOW + 1.0, np.eye(5)[0]
    assert one.empty == two.empty
    assert scores_of(one, phi, now).tobytes() == scores_of(two, phi, now).tobytes()
    assert one.pack().keys() == two.pack().keys()
