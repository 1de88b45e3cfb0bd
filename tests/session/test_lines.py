"""What a line of the ledger means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sigma_mem.errors import StoreCorruptError
from sigma_mem.session.lines import phi_from_bytes, phi_to_bytes


@given(hnp.arrays(np.float64, st.integers(0, 70)))
def test_phi_round_trip_is_bitwise(phi):
    back = phi_from_bytes(phi_to_bytes(phi))
    assert back.tobytes() == phi.tobytes()
    assert back.flags.writeable


def test_phi_of_odd_length_is_corrupt():
    with pytest.raises(StoreCorruptError, match="multiple of 8"):
        phi_from_bytes(b"\0" * 7)
