"""What every test shares: one thread a process, hypothesis settings, and real streams."""

import os
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before numpy and torch are imported, and for every process that a test starts: a sum over two threads is
# rounded differently, and test processes that run side by side would fight for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from postgres_server import PostgresServer
from sigma_mem.streams import Stream, load_stream

# The machine may be busy, so no example has a deadline.
settings.register_profile(
    "sigma-mem",
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("endurance", settings.get_profile("sigma-mem"), max_examples=2000)
settings.load_profile("sigma-mem")

DATA = Path(__file__).parents[2] / "shared" / "data"


def _recorded(name: str) -> Stream:
    file = DATA / f"{name}.jsonl.gz"
    if not file.exists():
        pytest.skip(f"{file} is absent: the recorded streams are not part of the package")
    return load_stream(file)


@pytest.fixture(scope="session")
def mmlu_pro() -> Stream:
    return _recorded("mmlu-pro")


@pytest.fixture(scope="session")
def zeroeval() -> Stream:
    return _recorded("zeroeval")


@pytest.fixture(scope="session")
def postgres_server():
    """A real PostgreSQL server, started by the first test that needs it."""

    server = PostgresServer()
    yield server
    server.close()


_schemas = count(1)


@pytest.fixture
def postgres(postgres_server):
    """The address of a memory of the test's own, in a schema that is dropped afterwards."""
    schema = f"test_{next(_schemas)}"
    yield postgres_server.url(schema)
    with postgres_server.connect() as db:
        db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
