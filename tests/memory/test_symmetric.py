"""Packed symmetric matrices: nothing is lost, and products are those of the whole matrix."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory.symmetric import pack_symmetric, packed_size, pair_products, unpack_symmetric


@given(rank=st.integers(1, 12), seed=st.integers(0, 1000))
def test_a_packed_matrix_is_the_matrix(rank, seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(2, 3, rank, rank))
    a = a + a.swapaxes(2, 3)
    packed = pack_symmetric(a)
    assert packed.shape == (2, 3, packed_size(rank))
    assert unpack_symmetric(packed, rank).tobytes() == a.tobytes()
    x = rng.normal(size=rank)
    np.testing.assert_allclose(packed @ pair_products(x), x @ a @ x, atol=1e-12)
