"""A real PostgreSQL server and a real small disk, for the tests of the product."""

import os
import subprocess
from itertools import count

import pytest

from postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres_server():
    """A real PostgreSQL server, started by the first test that needs it."""

    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def small_disk(request, tmp_path):
    """A disk of the size that the test's parameter says; skipped where this system does not let us mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", disk]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this system does not let us mount")
    yield disk
    subprocess.run(["umount", disk], check=True)


_schemas = count(1)


@pytest.fixture
def postgres(postgres_server):
    """The address of a memory of the test's own, in a schema that is dropped afterwards."""
    schema = f"test_{next(_schemas)}"
    yield postgres_server.url(schema)
    with postgres_server.connect() as db:
        db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
