"""A real PostgreSQL server for the tests of the product."""

from itertools import count

import pytest

from postgres_server import PostgresServer


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
