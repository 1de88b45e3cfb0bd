"""What the crash tests share: a way to compare states bit for bit."""

import pytest


@pytest.fixture(scope="session")
def bits():
    """Everything that a memory, or what was replayed of it, holds in its two states, as bytes."""

    def of(holder):
        parts = {"state": holder.state, "reads": holder.reads}
        return {
            (part, name): (state.peers, array.shape, array.tobytes())
            for part, state in parts.items()
            for name, array in state.pack().items()
        }

    return of
