"""What the store's tests share: rows to write, and other processes to write them."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from crash.conftest import bits  # noqa: F401
from sigma_mem.store import Record, Snapshot, SqliteStore


@pytest.fixture
def record():
    def make(id, kind="decision", event=None, source=None, body=b"what it says"):
        return Record(kind, str(id), str(id) if event is None else event, body, source)

    return make


@pytest.fixture
def python():
    """Run a Python program in another process and give its output, or leave it running."""
    running = []

    def run(program, *arguments, wait=True):
        child = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(child)
        return child.communicate(timeout=60)[0].strip() if wait else child

    yield run
    for child in running:
        child.kill()
        child.communicate()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def store(path):
    with closing(SqliteStore(path)) as opened:
        yield opened


@pytest.fixture
def filled(path, record):
    """A closed file with 40 records and a snapshot of all of them."""
    with closing(SqliteStore(path)) as store:
        store.append("ns", [record(n, body=b"x" * 300) for n in range(1, 41)])
        store.save_snapshot("ns", Snapshot(40, b"state" * 1000))
    return path


@pytest.fixture
def raw():
    """Run SQL on a file behind the store's back."""

    def run(path, *statements):
        with closing(sqlite3.connect(path)) as db, db:
            return [db.execute(sql).fetchall() for sql in statements][-1]

    return run
