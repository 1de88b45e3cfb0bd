import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.relation import centred

from . import naive
from .strategies import labels, shares

seeds = st.integers(0, 10_000)


@given(n_peers=st.integers(1, 7), seed=seeds, missing=shares)
def test_q_is_centred_over_the_labelled_peers_only(n_peers, seed, missing):
    c = labels(np.random.default_rng(seed), (4, n_peers), missing, 0.3)
    q = centred(c)
    np.testing.assert_allclose(q, [naive.centred(row) for row in c], atol=1e-15)
    assert np.abs(q.sum(axis=1)).max() < 1e-14
    assert not q[np.isnan(c)].any()


def test_fewer_than_two_labels_say_nothing_about_relations():
    nan = math.nan
    for c in ([nan, nan, nan], [nan, 1.0, nan], [1.0]):
        assert not centred(np.array([c])).any()


@given(
    n_events=st.integers(0, 60),
    n_peers=st.integers(1, 6),
    seed=seeds,
    missing=shares,
    gamma=st.sampled_from([0.3, 0.9, 0.995, 1.0]),
)
def test_G_is_that_of_the_paper(n_events, n_peers, seed, missing, gamma):
    c = labels(np.random.default_rng(seed), (n_events, n_peers), missing, 0.3)
    state = SigmaState([str(i) for i in range(n_peers)], 1, Settings(gamma_g=gamma, eta_g=0.05))
    for row in c:
        state.write(np.ones(1), row, state.begin_event())
    G = state.G
    np.testing.assert_allclose(G, naive.relation(c, gamma, 0.05), atol=1e-12)
    assert G.tobytes() == np.ascontiguousarray(G.T).tobytes()
    assert (np.diag(G) == 1.0).all()
    G[:] = 99.0
    assert not (state.G == 99.0).any()


@given(n_departed=st.integers(1, 3), seed=seeds, missing=shares)
def test_peers_that_have_left_still_centre_q(n_departed, seed, missing):
    rng = np.random.default_rng(seed)
    c = np.concatenate((labels(rng, 3, missing, 0.3), labels(rng, n_departed, 0.0, 0.3)))
    state = SigmaState(["a", "b", "c"], 1, Settings(eta_g=1.0))
    state.write(np.ones(1), c, state.begin_event())
    q = naive.centred(c)[:3]
    expected = np.outer(q, q)
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(state.G, expected, atol=1e-12)
