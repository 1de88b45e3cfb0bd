"""A full disk is a clear error, the ledger is as before, and all works again when there is room."""

import os
import threading

import pytest

from sigma_mem.errors import StoreError
from sigma_mem.store import Snapshot, SqliteStore


def noise(size):
    """Bytes that do not get smaller."""
    return os.urandom(size)


def fill(store, record, first):
    """Append until it fails; return how many were acknowledged."""
    n = first

    def append_for_ever():
        nonlocal n
        while True:
            store.append("ns", [record(n, body=noise(2000))])[1].wait()
            n += 1

    with pytest.raises(StoreError, match="full; the ledger is as before"):
        append_for_ever()
    return n - first


def works_again(store, record, acknowledged, epoch=1):
    assert [r.seq for r in store.records("ns")] == list(range(1, acknowledged + 1))
    assert store.epoch("ns") == epoch
    seq, ticket = store.append("ns", [record("after", body=noise(2000))])
    ticket.wait()
    assert seq == acknowledged + 1
    assert store.verify() == acknowledged + 1


def test_a_full_database_fails_cleanly_and_works_again(store, record):
    writer = store._tables._writer
    writer.execute("PRAGMA max_page_count = 45")
    acknowledged = fill(store, record, 1)
    assert acknowledged > 10
    with pytest.raises(StoreError, match="full"):
        store.save_snapshot("ns", Snapshot(1, b"s" * 100_000))
    assert store.load_snapshot("ns") is None
    writer.execute("PRAGMA max_page_count = 100000")
    works_again(store, record, acknowledged)


def test_what_rests_on_dropped_records_is_refused_by_its_epoch(store, record):
    store.append("ns", [record("1")])[1].wait()
    epoch = store.epoch("ns")
    writer = store._tables._writer
    writer.execute("PRAGMA max_page_count = 1")
    _, ticket = store.append("ns", [record("2", body=noise(50_000))])
    with pytest.raises(StoreError):
        ticket.wait()
    writer.execute("PRAGMA max_page_count = 100000")
    with pytest.raises(StoreError, match="Rebuild from the ledger"):
        store.append("ns", [record("of 2", kind="feedback", event="2")], epoch=epoch)
    store.append("ns", [record("3")], epoch=epoch + 1)[1].wait()  # has the number that "2" had
    with pytest.raises(StoreError, match="Rebuild from the ledger"):
        store.save_snapshot("ns", Snapshot(2, b"state with 2 in it"), epoch=epoch)
    assert store.load_snapshot("ns") is None
    store.save_snapshot("ns", Snapshot(2, b"rebuilt"), epoch=store.epoch("ns"))


def test_close_reports_what_it_could_not_flush_and_releases_anyway(path, record):
    store = SqliteStore(path)
    store.append("ns", [record("kept")])[1].wait()
    store._tables._writer.execute("PRAGMA max_page_count = 1")
    store._tables._write_lock.acquire()  # hold the writer, so that the append is still queued at close
    store.append("ns", [record("lost", body=noise(50_000))])
    threading.Timer(0.1, store._tables._write_lock.release).start()
    with pytest.raises(StoreError, match="full"):
        store.close()
    store.close()
    store = SqliteStore(path)
    assert [r.id for r in store.records("ns")] == ["kept"]
    store.close()


@pytest.mark.parametrize("small_disk", ["64k"], indirect=True)
def test_opening_on_a_full_disk_is_one_clear_error(small_disk):
    (small_disk / "ballast").write_bytes(b"b" * 50_000)
    with pytest.raises(StoreError, match=r"memory\.db"):
        SqliteStore(small_disk / "memory.db")
