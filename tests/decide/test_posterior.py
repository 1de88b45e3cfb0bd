import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.decide.posterior import (
    EXACT_PEERS,
    belief_propagation,
    enumerate_states,
    normalized_utility,
    posterior,
)

from . import naive

seeds = st.integers(0, 10_000)


@given(n=st.integers(1, 9), seed=seeds, scale=st.sampled_from([1e-9, 1.0, 1e4]))
def test_utilities_are_normalized_as_the_paper_says(n, seed, scale):
    utility = scale * np.random.default_rng(seed).normal(size=n) + 3.0
    np.testing.assert_allclose(
        normalized_utility(utility, 1e-8), naive.normalized(utility, 1e-8), rtol=1e-6, atol=1e-6
    )


def test_equal_utilities_say_nothing():
    assert not normalized_utility(np.full(4, 2.5)).any()


def test_ties_go_to_the_peer_listed_first_whatever_the_sum_over_states_rounds_to():
    for n in range(2, 9):
        assert posterior(np.zeros(n), np.full((n, n), 0.3), 1.0, 1.0).peer == 0
        z = np.full(n, 0.7)
        z[-1] = -1.0
        assert posterior(z, np.eye(n)).peer == 0


@given(
    n=st.integers(1, 7),
    seed=seeds,
    w_u=st.sampled_from([0.0, 0.5, 2.0]),
    w_g=st.sampled_from([-1.0, 0.0, 0.3, 1.0]),
    scale=st.sampled_from([0.1, 1.0]),
)
def test_the_posterior_is_that_of_brute_force(n, seed, w_u, w_g, scale):
    rng = np.random.default_rng(seed)
    z, G = normalized_utility(rng.normal(size=n)), naive.symmetric(rng, n, scale)
    got = posterior(z, G, w_u, w_g)
    np.testing.assert_allclose(got.expectation, naive.posterior(z, G, w_u, w_g), atol=1e-10)
    assert (got.method, got.converged) == ("exact", True)
    assert got.peer == int(got.expectation.round(12).argmax())


@given(
    n=st.integers(1, 20),
    seed=seeds,
    w_u=st.floats(0.0, 3.0),
    method=st.sampled_from(["exact", "belief-propagation"]),
)
def test_without_relations_every_peer_stands_for_itself(n, seed, w_u, method):
    """w_g = 0 ⇒ E[y] = tanh(w_u z)"""
    if method == "exact":
        n = min(n, 12)
    rng = np.random.default_rng(seed)
    z, G = normalized_utility(rng.normal(size=n)), naive.symmetric(rng, n, 1.0)
    got = posterior(z, G, w_u=w_u, w_g=0.0, method=method)
    np.testing.assert_allclose(got.expectation, np.tanh(w_u * z), atol=1e-10)
    assert got.converged


@given(n=st.integers(2, 7), seed=seeds)
def test_the_diagonal_does_not_enter(n, seed):
    rng = np.random.default_rng(seed)
    z, G = rng.normal(size=n), naive.symmetric(rng, n, 0.3)
    other = G.copy()
    np.fill_diagonal(other, 7.0)
    for method in ("exact", "belief-propagation"):
        one, two = posterior(z, G, method=method), posterior(z, other, method=method)
        assert one.expectation.tobytes() == two.expectation.tobytes()


@given(n=st.integers(1, 8), seed=seeds, method=st.sampled_from(["exact", "belief-propagation"]))
def test_permuting_peers_permutes_the_posterior(n, seed, method):
    rng = np.random.default_rng(seed)
    z, G, order = rng.normal(size=n), naive.symmetric(rng, n, 0.2), rng.permutation(n)
    one = posterior(z, G, method=method)
    two = posterior(z[order], G[np.ix_(order, order)], method=method)
    np.testing.assert_allclose(two.expectation, one.expectation[order], atol=1e-9)


def test_large_utilities_do_not_overflow():
    got = posterior(np.array([900.0, -900.0]), np.eye(2))
    assert got.expectation.tolist() == [1.0, -1.0]


def test_relations_carry_trust_from_one_peer_to_another():
    z = np.array([1.0, 0.0, 0.0])
    G = np.array([[1.0, 0.8, -0.8], [0.8, 1.0, 0.0], [-0.8, 0.0, 1.0]])
    for method in ("exact", "belief-propagation"):
        _, friend, opponent = posterior(z, G, method=method).expectation
        assert friend > 0.3
        assert opponent < -0.3


def test_enumeration_stops_at_sixteen_peers_and_says_what_it_expected():
    assert posterior(np.zeros(EXACT_PEERS), np.eye(EXACT_PEERS)).method == "exact"
    assert posterior(np.zeros(EXACT_PEERS + 1), np.eye(EXACT_PEERS + 1)).method == "belief-propagation"
    with pytest.raises(ValueError, match=r"17 peers .* at most 16"):
        enumerate_states(np.zeros(17), np.eye(17))


@given(n=st.integers(2, 10), seed=seeds)
def test_belief_propagation_is_exact_on_trees(n, seed):
    rng = np.random.default_rng(seed)
    coupling = np.zeros((n, n))
    for child in range(1, n):
        parent = rng.integers(child)
        coupling[parent, child] = coupling[child, parent] = rng.normal()
    field = rng.normal(size=n)
    got, converged = belief_propagation(field, coupling)
    assert converged
    np.testing.assert_allclose(got, enumerate_states(field, coupling), atol=1e-6)


# Largest error seen over 300 random graphs of 12 peers, doubled: it grows with the couplings.
@pytest.mark.parametrize(
    ("scale", "tolerance"), [(0.02, 1e-4), (0.05, 1e-3), (0.1, 1e-2), (0.2, 0.08), (0.3, 0.25)]
)
def test_belief_propagation_is_near_the_exact_posterior_where_couplings_are_weak(scale, tolerance):
    rng = np.random.default_rng(int(1000 * scale))
    for n in (4, 12):
        for _ in range(20):
            z, G = normalized_utility(rng.normal(size=n)), naive.symmetric(rng, n, scale)
            approximate = posterior(z, G, method="belief-propagation")
            assert approximate.converged
            exact = posterior(z, G, method="exact").expectation
            np.testing.assert_allclose(approximate.expectation, exact, atol=tolerance)


def test_a_hundred_peers_in_ten_separate_groups_are_as_exact_as_each_group():
    rng = np.random.default_rng(0)
    blocks = [naive.symmetric(rng, 10, 0.1) for _ in range(10)]
    z = rng.normal(size=100)
    G = np.zeros((100, 100))
    for k, block in enumerate(blocks):
        G[10 * k : 10 * k + 10, 10 * k : 10 * k + 10] = block
    got = posterior(z, G)
    assert (got.method, got.converged) == ("belief-propagation", True)
    exact = [enumerate_states(z[10 * k : 10 * k + 10], block) for k, block in enumerate(blocks)]
    np.testing.assert_allclose(got.expectation, np.concatenate(exact), atol=1e-2)


def test_messages_that_do_not_settle_are_reported():
    rng = np.random.default_rng(2)
    results = [posterior(rng.normal(size=20), naive.symmetric(rng, 20, 3.0)) for _ in range(10)]
    assert not all(result.converged for result in results)
    for result in results:
        assert result.method == "belief-propagation"
        assert (np.abs(result.expectation) <= 1.0).all()


@pytest.mark.parametrize("n", [1, 4, EXACT_PEERS + 1])
def test_no_relations_are_relations_without_weight_to_the_bit(n):
    rng = np.random.default_rng(n)
    z, G = normalized_utility(rng.normal(size=n)), naive.symmetric(rng, n, 1.0)
    alone, weightless = posterior(z, None), posterior(z, G, w_g=0.0)
    assert alone.expectation.tobytes() == weightless.expectation.tobytes()
    assert (alone.method, alone.converged) == (weightless.method, weightless.converged)
