"""The service in this process: applications, clients with a key of every role."""

from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from sigma_mem.serve.app import create_app
from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.keys import add_key

LOCAL = "http://localhost"


@contextmanager
def served(config=None, peers=None, **options):
    """A running application and a client of it, without a socket; with peers, there is a namespace."""
    app = create_app(config or ServerConfig(**{"log": "off", **options}))
    with TestClient(app, base_url=LOCAL, raise_server_exceptions=False) as http:
        http.context = app.state.context
        if peers:
            assert http.put("/v1/memory/default", json={"peers": peers, "encoder": "hashed"}).is_success
        yield http


def bearer(key):
    return {"authorization": f"Bearer {key}"}


@pytest.fixture(scope="package")
def open_service():
    """Without keys, on loopback, in memory, with one namespace; tests share it."""
    with served(peers=["ann", "bob"]) as http:
        yield http


@pytest.fixture
def key_file(tmp_path):
    return tmp_path / "keys.json"


@pytest.fixture
def keys(key_file):
    """A key of every role in "mine", by role, and one that may everything everywhere."""
    made = {role: add_key(key_file, role, {"mine": role}, 0.0) for role in ("read", "write", "admin")}
    return made | {"root": add_key(key_file, "root", {"*": "admin"}, 0.0)}


@pytest.fixture
def locked_service(keys, key_file, tmp_path):
    """With keys, and two namespaces, of which most keys may see one."""
    with served(keys=str(key_file), audit=str(tmp_path / "audit.jsonl")) as http:
        for name in ("mine", "theirs"):
            made = http.put(
                f"/v1/memory/{name}",
                json={"peers": ["ann", "bob"], "encoder": "hashed"},
                headers=bearer(keys["root"]),
            )
            assert made.is_success
        yield http
