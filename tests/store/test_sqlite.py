"""The file: it continues, can be read beside its writer, and is upgraded in place."""

import gc
import os
import sqlite3
import subprocess
import weakref
import zlib
from contextlib import closing

import pytest

from sigma_mem.errors import InputError, StoreCorruptError, StoreError, StoreVersionError
from sigma_mem.store import Snapshot, SqliteStore
from sigma_mem.store.database import APPLICATION_ID, migrations, queries
from sigma_mem.store.prints import SEGMENT


def test_a_reopened_file_continues(filled, record):
    store = SqliteStore(filled)
    assert [r.id for r in store.records("ns")] == [str(n) for n in range(1, 41)]
    assert store.load_snapshot("ns") == Snapshot(40, b"state" * 1000)
    assert store.append("ns", [record(41)])[0] == 41
    assert store.verify() == 41
    store.close()


def test_the_file_says_what_it_is_and_syncs_every_commit(path, raw):
    store = SqliteStore(path)
    assert raw(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert raw(path, "PRAGMA user_version") == [(len(migrations()),)]
    writer = store._tables._writer
    assert writer.execute("PRAGMA journal_mode").fetchone() == (b"wal",)
    assert writer.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


def test_close_and_the_collector_flush_what_nobody_waited_for(path, record):
    store = SqliteStore(path)
    for n in range(50):
        store.append("ns", [record(n)])
    store.close()
    store = SqliteStore(path)
    for n in range(50, 100):
        store.append("ns", [record(n)])
    gone = weakref.ref(store)
    del store
    gc.collect()
    assert gone() is None
    store = SqliteStore(path)
    assert store.verify() == 100
    store.close()


def test_a_program_that_forgets_to_close_loses_nothing(path, python):
    python(
        "import sys\n"
        "from sigma_mem.store import SqliteStore, Record\n"
        "store = SqliteStore(sys.argv[1])\n"
        "for n in range(200):\n"
        "    store.append('ns', [Record('decision', str(n), '', {})])\n",
        path,
    )
    assert os.listdir(path.parent) == ["memory.db"]
    store = SqliteStore(path, readonly=True)
    assert store.verify() == 200
    store.close()


def test_the_ledger_cannot_be_changed_or_removed_by_sql(filled, raw):
    for sql in ("UPDATE record SET body = '{}'", "DELETE FROM record WHERE seq = 3"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw(filled, sql)


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
    assert reader.epoch == 0
    reader.flush()
    for write in (
        lambda: reader.append("ns", [record(3)]),
        lambda: reader.save_snapshot("ns", Snapshot(1, b"")),
    ):
        with pytest.raises(StoreError, match="readonly=True"):
            write()
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
        store = SqliteStore(mounted / filled.name, readonly=True)
        assert store.verify() == 40
        store.close()
        with pytest.raises(StoreError, match="writable folder"):
            SqliteStore(mounted / filled.name)
    finally:
        subprocess.run(["umount", mounted], check=True)


def older(path, raw, version, lines):
    """A file of an earlier version, with decisions and feedback of two sources."""
    db = sqlite3.connect(path)
    for script in migrations()[:version]:
        db.executescript(script)
    for n in range(1, lines + 1):
        body = b'{"source":"s%d"}' % (n % 2)
        parts = (b"ns", b"feedback", b"%d" % n, b"e", body, b"")
        row = (n, *(part.decode() for part in parts[:5]), b"", zlib.crc32(b"\0".join((b"%d" % n, *parts))))
        db.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {version}")
    db.commit()
    db.close()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_file_is_upgraded_in_place(path, record, raw, version):
    older(path, raw, version, 9)
    with pytest.raises(StoreVersionError, match="open it to write once"):
        SqliteStore(path, readonly=True)
    store = SqliteStore(path)
    assert raw(path, "PRAGMA user_version") == [(len(migrations()),)]
    copy = path.with_name(f"{path.name}.version-{version}")
    assert raw(copy, "PRAGMA user_version") == [(version,)]
    assert raw(copy, "SELECT count(*) FROM record") == [(9,)]
    assert [r.id for r in store.of_source("ns", "s1")] == ["1", "3", "5", "7", "9"]
    assert store.sources("ns") == {"s0": 4, "s1": 5}
    assert store.append("ns", [record("10")])[0] == 10
    store.save_snapshot("ns", Snapshot(2, b"x"))
    assert store.verify() == 10
    store.close()


def test_an_older_file_that_is_damaged_is_refused_and_left_as_it_was(path, raw):
    older(path, raw, 3, 9)
    raw(path, "DROP TRIGGER record_is_never_changed", "UPDATE record SET body = '{}' WHERE seq = 4")
    before = raw(path, "SELECT * FROM record")
    with pytest.raises(StoreCorruptError, match="record 4 is damaged"):
        SqliteStore(path)
    assert raw(path, "SELECT * FROM record") == before
    assert raw(path, "PRAGMA user_version") == [(3,)]


def test_a_migration_that_fails_changes_nothing(path, monkeypatch):
    SqliteStore(path).close()
    before = path.read_bytes()
    broken = (*migrations(), "CREATE TABLE extra (x);\nCREATE TABLE record (again);\n")
    monkeypatch.setattr("sigma_mem.store.database.migrations", lambda: broken)
    with pytest.raises(StoreError, match="already exists"):
        SqliteStore(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    SqliteStore(path).close()


@pytest.mark.parametrize(
    ("query", "index"), [("page_of_source", "record_by_source"), ("page", "record_by_namespace")]
)
def test_lines_are_looked_up_in_an_index(path, query, index):
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as db:
        plan = " ".join(row[3] for row in db.execute("EXPLAIN QUERY PLAN " + queries()[query], (1, 0, 9, 9)))
    assert f"INDEX {index}" in plan
    assert "TEMP B-TREE" not in plan
    assert "SCAN" not in plan


def test_every_migration_is_numbered_in_order_and_whole():
    assert len(migrations()) >= 2
    for script in migrations():
        assert sqlite3.complete_statement(script)


def test_text_that_has_no_utf8_form_is_refused_before_it_is_queued(path, record):
    store = SqliteStore(path)
    with pytest.raises(InputError, match="not valid Unicode"):
        store.append("ns", [record("\ud800")])
    store.append("ns", [record("1", question="broken \ud800 text")])[1].wait()
    assert store.find("ns", "decision", "1").body["question"] == "broken \ud800 text"
    store.close()


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes", nested(5000)])
def test_a_body_that_is_not_json_is_refused_before_it_is_queued_and_costs_nobody_else(path, record, value):
    store = SqliteStore(path)
    _, other = store.append("other", [record("1")])
    with pytest.raises(InputError, match="'1' has a body that is not JSON"):
        store.append("ns", [record("1", value=value)])
    other.wait()
    assert store.epoch == 0
    assert list(store.records("ns")) == []
    assert store.append("ns", [record("1", value=1)])[0] == 2
    store.close()


def test_another_program_that_holds_the_file_is_named_as_the_cause(path, record, monkeypatch):
    monkeypatch.setattr("sigma_mem.store.database.BUSY_SECONDS", 0.05)
    store = SqliteStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    _, ticket = store.append("ns", [record("1")])
    with pytest.raises(StoreError, match=r"locked; the ledger is as before\. Close the other program"):
        ticket.wait()
    other.execute("COMMIT")
    other.close()
    assert store.append("ns", [record("1")])[0] == 1
    store.close()


def test_a_snapshot_before_later_lines_of_its_batch_is_saved_without_reading_the_ledger(path, record):
    store = SqliteStore(path)
    store.append("ns", [record(n) for n in range(1, 31)])[1].wait()
    asked, read = [], store._tables.read
    store._tables.read = lambda query, *values: asked.append(query) or read(query, *values)
    seq, _ = store.append("ns", [record(31)])
    store.save_snapshot("ns", Snapshot(seq, b"state"), 0, pytest.fail)
    store.append("ns", [record(32)])[1].wait()
    store.close()
    assert "page" not in asked
    store = SqliteStore(path)
    assert store.load_snapshot("ns") == Snapshot(31, b"state")
    assert [r.id for r in store.records("ns", after=31)] == ["32"]  # and the chain holds from there
    store.close()


def test_a_snapshot_of_an_earlier_batch_follows_the_chain_from_the_last_known_place(path, record):
    store = SqliteStore(path)
    tickets = [store.append("ns", [record(n)])[1] for n in range(1, 601)]
    tickets[-1].wait()
    store.append("ns", [record(601)])[1].wait()
    asked, read = [], store._tables.read
    store._tables.read = lambda query, *values: asked.append((query, values)) or read(query, *values)
    for seq in (500, 550):
        store.save_snapshot("ns", Snapshot(seq, b"state"))
    assert min(values[1] for query, values in asked if query == "page" and values[2] == 550) == 500
    store.close()
    store = SqliteStore(path)
    assert store.load_snapshot("ns") == Snapshot(550, b"state")
    assert len(list(store.records("ns", after=550))) == 51
    store.close()


def test_segments_are_sealed_without_reading_their_records_again(path, record):
    store = SqliteStore(path)
    store.append("ns", [record(n) for n in range(1, 101)])[1].wait()
    store.close()
    store = SqliteStore(path)  # in the middle of a segment
    store.append("ns", [record(n) for n in range(101, SEGMENT)])[1].wait()
    ran = []
    store._tables._writer.set_trace_callback(ran.append)
    store.append("ns", [record(n) for n in range(SEGMENT, 2 * SEGMENT + 50)])[1].wait()
    assert sum("INSERT INTO segment" in sql for sql in ran) == 2
    assert not any("FROM record" in sql for sql in ran)
    assert store.verify() == 2 * SEGMENT + 49  # which compares them with what the records say
    store.close()


def test_a_writer_looks_up_what_it_wrote_without_reading_names(path, record):
    store = SqliteStore(path)
    store.append("ns", [record(n) for n in range(1, 101)])[1].wait()
    store.close()
    store = SqliteStore(path)  # in the middle of a segment
    asked, read = [], store._prints._read
    store._prints._read = lambda query, *values: asked.append(query) or read(query, *values)
    written = 100
    for upto in (150, SEGMENT - 1, SEGMENT, 3 * SEGMENT + 7, 3 * SEGMENT + 8):
        store.append("ns", [record(n) for n in range(written + 1, upto + 1)])[1].wait()
        written = upto
        for n in (1, upto // 2, upto):
            assert store._prints.with_id(1, b"d", b"%d" % n) == [n]
        assert store.find("ns", "decision", "none") is None
    assert "names" not in asked
    assert asked.count("segments") <= 2  # once for each time that some were sealed
    store.close()


def test_a_writer_seals_what_a_commit_wrote_that_seemed_to_fail(path, record, monkeypatch):
    store = SqliteStore(path)
    store.append("ns", [record(n) for n in range(1, 51)])[1].wait()
    tables, calls = store._tables, []

    def refuse_once():
        calls.append(len(calls))
        if len(calls) == 2:  # after the commit
            raise StoreError("moved")

    monkeypatch.setattr(tables.files, "refuse_moved", refuse_once)
    tail = tables.tail
    with pytest.raises(StoreError):
        store.append("ns", [record(51)])[1].wait()
    tables.tail = tail  # as if the thread had ended right behind the commit
    assert store.find("ns", "decision", "51").seq == 51
    store.append("ns", [record(n) for n in range(52, SEGMENT + 20)])[1].wait()
    assert store.find("ns", "decision", str(SEGMENT + 1)).seq == SEGMENT + 1
    assert store.verify() == SEGMENT + 19
    store.close()
