"""Sums of φφᵀ: every read is that of the dense matrices, whatever is still in the window."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Sums
from sigma_mem.memory.kernel import (
    WINDOW,
    add_events,
    fold_window,
    kernel,
    matrices,
    pack_symmetric,
    packed_size,
    pair_products,
    scores,
    unpack_symmetric,
)
from sigma_mem.memory.sums import PEERS

from .strategies import unit_rows

RATE = -math.log(0.9)


def written(n_events, batch=1, n_peers=3, rank=5, seed=0):
    """Sums after so many events, and the dense matrices, as of the anchors."""
    rng = np.random.default_rng(seed)
    phis, coefficients = unit_rows(rng, n_events, rank), rng.normal(size=(n_events, 2, n_peers))
    sums = Sums(n_peers, kernel("k", (2, PEERS), RATE, rank))
    for start in range(0, n_events, batch):
        some = slice(start, start + batch)
        add_events(sums, "k", phis[some], coefficients[some])
    return sums, np.einsum("tkp,ti,tj->kpij", coefficients, phis, phis)


# Around every fold: the window is folded when it is full and another event comes.
@pytest.mark.parametrize("n_events", [0, 1, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW + 7])
@pytest.mark.parametrize("batch", [1, 5, 2 * WINDOW + 3])
def test_every_read_is_that_of_the_dense_matrices(n_events, batch):
    sums, dense = written(n_events, batch)
    for place in (0, 1):
        np.testing.assert_allclose(matrices(sums, "k", place, 5), dense[place], atol=1e-11)
    np.testing.assert_allclose(matrices(sums, "k", (1, 2), 5), dense[1, 2], atol=1e-11)
    for phi in unit_rows(np.random.default_rng(9), 3, 5):
        found = scores(sums, "k", phi, pair_products(phi))
        np.testing.assert_allclose(found, phi @ dense @ phi, atol=1e-11)


def test_folding_changes_nothing():
    sums, dense = written(WINDOW // 2)
    fold_window(sums, "k")
    assert not sums["k.recent"].any()
    np.testing.assert_allclose(matrices(sums, "k", 0, 5), dense[0], atol=1e-11)


@given(n_events=st.integers(1, 80), rank=st.integers(1, 40), seed=st.integers(0, 1000))
def test_matrices_are_symmetric_bit_for_bit(n_events, rank, seed):
    sums, _ = written(n_events, rank=rank, seed=seed, n_peers=2)
    for matrix in matrices(sums, "k", 0, rank):
        assert matrix.tobytes() == np.ascontiguousarray(matrix.T).tobytes()


@pytest.mark.parametrize("n_peers", [1, 2, 3, 5, 7, 9])
def test_equal_peers_have_equal_bits(n_peers):
    sums = Sums(n_peers, kernel("k", (3, PEERS), RATE, 17))
    for phi in unit_rows(np.random.default_rng(0), 2 * WINDOW + 9, 17):
        add_events(sums, "k", phi[None], np.full((1, 3, n_peers), phi[0]))
        found = scores(sums, "k", phi, pair_products(phi))
        assert all(len(set(row)) == 1 for row in found.tolist())


@given(rank=st.integers(1, 12), seed=st.integers(0, 1000))
def test_a_packed_matrix_is_the_matrix(rank, seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(2, 3, rank, rank))
    a = a + a.swapaxes(2, 3)
    packed = pack_symmetric(a)
    assert packed.shape == (2, 3, packed_size(rank))
    assert unpack_symmetric(packed, rank).tobytes() == a.tobytes()
    x = rng.normal(size=(4, rank))
    for row, products in zip(x, pair_products(x), strict=True):
        assert products.tobytes() == pair_products(row).tobytes()
        np.testing.assert_allclose(packed @ products, row @ a @ row, atol=1e-12)
