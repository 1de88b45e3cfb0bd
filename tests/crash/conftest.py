"""What the crash tests share: a way to compare states."""

import pytest

from learned import all_learned


@pytest.fixture(scope="session")
def bits():
    """Everything that a memory, or what was replayed of it, has learned."""
    return all_learned
