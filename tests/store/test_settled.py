"""Being told when a batch is on disk or was dropped, for who cannot wait."""

import sqlite3
import threading
from contextlib import closing

import pytest

from sigma_mem.errors import StoreError
from sigma_mem.store import InMemoryStore, SqliteStore
from sigma_mem.store.base import Record


def line(n):
    return Record("decision", f"d{n}", f"d{n}", b"%d" % n)


class Told:
    """What a store told, and when it did."""

    def __init__(self):
        self.calls, self.rang = [], threading.Event()

    def __call__(self, batch, error):
        self.calls.append((batch, error))
        self.rang.set()


def test_nothing_queued_is_nothing_to_wait_for(tmp_path):
    told = Told()
    with_file, without = SqliteStore(tmp_path / "m.db"), InMemoryStore()
    without.append("a", [line(1)])
    assert with_file.when_settled("a", told) is without.when_settled("a", told) is None
    assert told.calls == []
    with_file.close()
    with pytest.raises(StoreError):
        with_file.when_settled("a", told)


def test_a_listener_is_told_once_of_a_batch_that_is_then_durable(tmp_path):
    store, told = SqliteStore(tmp_path / "m.db"), Told()
    store.append("a", [line(0)])[1].wait()
    store.append("a", [line(1)])
    store.append("a", [line(2)])
    batch = store.when_settled("a", told)
    store.when_settled("a", told)
    assert told.rang.wait(20.0)
    assert told.calls == [(batch, None)]
    reader = SqliteStore(tmp_path / "m.db", readonly=True)
    assert len(list(reader.records("a"))) == 3
    reader.close()
    store.close()


def test_a_listener_is_told_why_a_batch_was_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr("sigma_mem.store.file.BUSY_SECONDS", 0.05)
    store, told = SqliteStore(tmp_path / "m.db"), Told()
    store.append("a", [line(0)])[1].wait()
    with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.append("a", [line(1)])
        batch = store.when_settled("a", told)
        assert told.rang.wait(20.0)
    assert told.calls[0][0] is batch
    assert isinstance(told.calls[0][1], StoreError)
    store.close()


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200, 1000])
def test_any_number_of_lines_is_written_in_order(tmp_path, count):
    store = SqliteStore(tmp_path / "m.db")
    store.append("a", [line(n) for n in range(count)])[1].wait()
    assert [int(record.body) for record in store.records("a")] == list(range(count))
    assert store.verify() == count
    store.close()
