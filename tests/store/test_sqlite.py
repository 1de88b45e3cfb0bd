"""The file: it continues, can be read beside its writer, and is upgraded in place."""

import gc
import os
import sqlite3
import subprocess
import threading
import weakref
from contextlib import closing

import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin import backup, export
from sigma_mem.errors import InputError, StoreError, StoreVersionError
from sigma_mem.store import InMemoryStore, Snapshot, SqliteStore
from sigma_mem.store.base import LEDGER_FORMAT
from sigma_mem.store.file import APPLICATION_ID, migrations, queries
from sigma_mem.store.postgres.tables import postgres_scripts


def test_a_reopened_file_continues(filled, record):
    with closing(SqliteStore(filled)) as store:
        assert [r.id for r in store.records("ns")] == [str(n) for n in range(1, 41)]
        assert store.load_snapshot("ns") == Snapshot(40, b"state" * 1000)
        assert store.append("ns", [record(41)])[0] == 41
        assert store.verify() == 41


def test_the_file_says_what_it_is_and_syncs_every_commit(path, raw, store):
    assert raw(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert raw(path, "PRAGMA user_version") == [(LEDGER_FORMAT,)]
    writer = store._tables._writer
    assert writer.execute("PRAGMA journal_mode").fetchone() == (b"wal",)
    assert writer.execute("PRAGMA synchronous").fetchone() == (2,)


def test_close_and_the_collector_flush_what_nobody_waited_for(path, record):
    for last in (50, 100):
        store = SqliteStore(path)
        for n in range(last - 50, last):
            store.append("ns", [record(n)])
        if last == 50:
            store.close()
    gone = weakref.ref(store)
    del store
    gc.collect()
    assert gone() is None
    with closing(SqliteStore(path, readonly=True)) as store:
        assert store.verify() == 100


def test_a_program_that_forgets_to_close_loses_nothing(path, python):
    python(
        "import sys\n"
        "from sigma_mem.store import SqliteStore, Record\n"
        "store = SqliteStore(sys.argv[1])\n"
        "for n in range(200):\n"
        "    store.append('ns', [Record('decision', str(n), '', b'')])\n",
        path,
    )
    assert os.listdir(path.parent) == ["memory.db"]  # no lock and no log
    with closing(SqliteStore(path, readonly=True)) as store:
        assert store.verify() == 200


def test_files_that_hold_texts_are_their_owners_only(tmp_path):
    """world_readable"""
    before = os.umask(0o022)
    try:
        with SigmaMem(["a"], tmp_path / "m.db", encoder="hashed") as mem:
            mem.feedback(mem.route("private"), {"a": True})
            backup(mem, tmp_path / "b.db")
            export(mem, tmp_path / "e.jsonl.gz")
            export(mem, tmp_path / "e.jsonl")
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert {"m.db", "m.db-wal", "m.db.lock", "b.db", "e.jsonl", "e.jsonl.gz"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_a_line_that_cannot_be_written_fails_alone(store, record):
    """poison_other_tenants_by_feedback_id: commits are shared by all namespaces."""
    store.append("mallory", [record(1), record(2)])[1].wait()
    with store._tables._write_lock:  # all of what follows is in one commit
        tickets = {f"tenant{n}": store.append(f"tenant{n}", [record(1)])[1] for n in range(3)}
        bad = store.append("mallory", [record(2)], store.epoch("mallory"), 2)[1]
        tickets["other"] = store.append("other", [record(1)])[1]
    for ticket in tickets.values():
        ticket.wait()
    with pytest.raises(StoreError, match="UNIQUE constraint failed"):
        bad.wait()
    assert [store.epoch(name) for name in (*tickets, "mallory")] == [0, 0, 0, 0, 1]
    assert store.append("mallory", [record(3)])[0] == 3
    assert store.verify() == 7


# ---- reading beside a writer


def test_a_reader_follows_the_writer_and_cannot_write(path, record):
    writer = SqliteStore(path)
    writer.append("ns", [record(1)])[1].wait()
    reader = SqliteStore(path, readonly=True)
    writer.append("ns", [record(2)])[1].wait()
    writer.save_snapshot("ns", Snapshot(2, b"two"))
    assert [r.seq for r in reader.records("ns")] == [1, 2]
    assert reader.find("ns", "decision", "2").seq == 2
    assert reader.load_snapshot("ns") == Snapshot(2, b"two")
    assert reader.namespaces() == ["ns"]
    assert reader.epoch("ns") == 0
    reader.flush()
    with pytest.raises(StoreError, match="readonly=True"):
        reader.append("ns", [record(3)])
    with pytest.raises(StoreError, match="readonly=True"):
        reader.save_snapshot("ns", Snapshot(1, b""))
    writer.close()
    assert reader.verify() == 2
    reader.close()
    reader.close()


def test_reading_what_is_not_there_is_an_error_and_makes_no_file(path):
    with pytest.raises(StoreError, match="holds no memory yet"):
        SqliteStore(path, readonly=True)
    assert not path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a read-only folder needs root")
def test_reading_from_a_read_only_disk(filled, tmp_path):
    mounted = tmp_path / "readonly"
    mounted.mkdir()
    command = f"mount --bind {filled.parent} {mounted} && mount -o remount,ro,bind {mounted}"
    if subprocess.run(command, shell=True, capture_output=True, check=False).returncode:
        pytest.skip("this system does not let us mount")
    try:
        with closing(SqliteStore(mounted / filled.name, readonly=True)) as store:
            assert store.verify() == 40
        with pytest.raises(StoreError, match="writable folder"):
            SqliteStore(mounted / filled.name)
    finally:
        subprocess.run(["umount", mounted], check=True)


def test_an_older_file_is_upgraded_in_place(filled, record, raw, monkeypatch):
    later = (*migrations(), "CREATE TABLE later (number INTEGER);\n")
    monkeypatch.setattr("sigma_mem.store.file.migrations", lambda: later)
    with pytest.raises(StoreVersionError, match="open it to write once"):
        SqliteStore(filled, readonly=True)
    store = SqliteStore(filled)
    assert raw(filled, "PRAGMA user_version") == [(len(later),)]
    assert raw(filled, "SELECT count(*) FROM later") == [(0,)]
    assert store.append("ns", [record(41)])[0] == 41
    store.close()


def test_a_migration_that_fails_changes_nothing(path, monkeypatch):
    SqliteStore(path).close()
    before = path.read_bytes()
    broken = (*migrations(), "CREATE TABLE extra (x);\nCREATE TABLE record (again);\n")
    monkeypatch.setattr("sigma_mem.store.file.migrations", lambda: broken)
    with pytest.raises(StoreError, match="already exists"):
        SqliteStore(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    SqliteStore(path).close()


QUERIES = {
    "page": ("record_by_seq", (1, 0, 9, 9)),
    "page_of_source": ("record_by_source", (1, "ann", 0, 9, 9)),
    "find": ("record_by_id", ("ns", "d", "1")),
    "of_event": ("record_by_event", ("ns", "1", "ns", "1")),
}


@pytest.mark.parametrize("query", QUERIES)
def test_lines_are_looked_up_in_an_index(path, query):
    SqliteStore(path).close()
    index, values = QUERIES[query]
    with closing(sqlite3.connect(path)) as db:
        plan = " ".join(row[3] for row in db.execute("EXPLAIN QUERY PLAN " + queries()[query], values))
    assert f"INDEX {index}" in plan
    assert "SCAN" not in plan
    assert "TEMP B-TREE" not in plan


def test_every_migration_is_numbered_in_order_and_whole():
    assert len(migrations()) == len(postgres_scripts()) == LEDGER_FORMAT
    for script in migrations():
        assert sqlite3.complete_statement(script)


def test_text_that_has_no_utf8_form_is_refused_before_it_is_queued(store, record):
    with pytest.raises(InputError, match="not valid Unicode"):
        store.append("ns", [record("\ud800")])
    with pytest.raises(InputError, match="expected bytes"):
        store.append("ns", [record("1", body="text")])
    assert store.append("ns", [record("1")])[0] == 1


def test_another_program_that_holds_the_file_is_named_as_the_cause(path, record, monkeypatch):
    monkeypatch.setattr("sigma_mem.store.file.BUSY_SECONDS", 0.05)
    store = SqliteStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    _, ticket = store.append("ns", [record("1")])
    told = Told()
    batch = store.when_settled("ns", told)
    with pytest.raises(StoreError, match=r"locked; the ledger is as before\. Close the other program"):
        ticket.wait()
    assert told.rang.wait(20.0)
    assert told.calls[0][0] is batch
    assert isinstance(told.calls[0][1], StoreError)
    other.execute("COMMIT")
    other.close()
    assert store.append("ns", [record("1")])[0] == 1
    store.close()


def test_a_snapshot_before_later_lines_of_its_batch_is_saved(path, record):
    store = SqliteStore(path)
    store.append("ns", [record(n) for n in range(1, 31)])[1].wait()
    seq, _ = store.append("ns", [record(31)])
    store.save_snapshot("ns", Snapshot(seq, b"state"), 0, pytest.fail)
    store.append("ns", [record(32)])[1].wait()
    store.close()
    store = SqliteStore(path)
    assert store.load_snapshot("ns") == Snapshot(31, b"state")
    assert [r.id for r in store.records("ns", after=31)] == ["32"]  # and the chain holds from there
    store.save_snapshot("ns", Snapshot(20, b"older"))
    assert store.load_snapshot("ns").seq == 31
    store.close()


# ---- batches


class Told:
    """What a store told, and when it did."""

    def __init__(self):
        self.calls, self.rang = [], threading.Event()

    def __call__(self, batch, error):
        self.calls.append((batch, error))
        self.rang.set()


def test_a_listener_is_told_once_of_a_batch_that_is_then_durable(path, record):
    store, told = SqliteStore(path), Told()
    assert store.when_settled("a", told) is InMemoryStore().when_settled("a", told) is None
    store.append("a", [record(0)])[1].wait()
    store.append("a", [record(1)])
    store.append("a", [record(2)])
    batch = store.when_settled("a", told)
    store.when_settled("a", told)
    assert told.rang.wait(20.0)
    assert told.calls == [(batch, None)]
    with closing(SqliteStore(path, readonly=True)) as reader:
        assert len(list(reader.records("a"))) == 3
    store.close()
    with pytest.raises(StoreError):
        store.when_settled("a", told)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200, 1000])
def test_any_number_of_lines_is_written_in_order(path, record, count):
    with closing(SqliteStore(path)) as store:
        store.append("a", [record(n) for n in range(count)])[1].wait()
        assert [int(r.id) for r in store.records("a")] == list(range(count))
        assert store.verify() == count
