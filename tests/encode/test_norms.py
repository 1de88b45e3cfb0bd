"""Norms of rows: quicker than numpy's, and the same to the last bit, since φ is kept in ledgers."""

import numpy as np
import pytest

from sigma_mem.encode.base import norms


@pytest.mark.parametrize("shape", [(1, 64), (1, 1), (7, 63), (300, 256)])
def test_norms_are_numpys_bit_for_bit(shape):
    rows = np.random.default_rng(0).standard_normal(shape)
    assert norms(rows).tobytes() == np.linalg.norm(rows, axis=-1, keepdims=True).tobytes()
