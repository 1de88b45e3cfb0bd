"""What a line of the ledger means."""

from base64 import b64decode, b64encode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sigma_mem import SigmaMem
from sigma_mem.errors import StoreCorruptError
from sigma_mem.session.lines import phi_from_bytes, phi_to_bytes
from sigma_mem.store.inmemory import InMemoryStore


@given(hnp.arrays(np.float64, st.integers(0, 70)))
def test_phi_round_trip_is_bitwise(phi):
    back = phi_from_bytes(phi_to_bytes(phi))
    assert back.tobytes() == phi.tobytes()
    assert back.flags.writeable


def test_phi_of_odd_length_is_corrupt():
    with pytest.raises(StoreCorruptError, match="multiple of 8"):
        phi_from_bytes(b"\0" * 7)


def test_lines_from_before_there_was_a_local_claim_still_fold():
    peers = ["ann", "bob", "cat"]
    one, old = SigmaMem(peers, rank=2, clock=lambda: 1.0), InMemoryStore()
    for _ in range(40):
        one.feedback(one.vote("?", {"ann": "1", "bob": "1", "cat": "2"}, phi=[0.6, 0.8]).id, {"ann": True})
    for line in one.store.records("default"):
        body = dict(line.body)
        if "claims" in body:
            kept = np.frombuffer(b64decode(body["claims"]), "<f2").reshape(3, -1)[:, :-1]
            body["claims"] = b64encode(kept.tobytes()).decode()
        old.append("default", [line._replace(body=body)])
    two = SigmaMem(store=old)
    assert two.events == 40
    assert two.state.read(np.array([0.6, 0.8])).prob == pytest.approx(
        one.state.read(np.array([0.6, 0.8])).prob, abs=0.05
    )
