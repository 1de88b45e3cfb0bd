"""Which path gives which store; files that are not for us are refused, and left as they were."""

import os
import sqlite3
import struct

import pytest

from sigma_mem.errors import InputError, StoreCorruptError, StoreError, StoreVersionError
from sigma_mem.store import InMemoryStore, PostgresStore, SqliteStore, open_store
from sigma_mem.store.file import migrations


def refused(path, error, match):
    """Both ways to open refuse it, and neither changes the file or leaves another beside it."""
    before, beside = path.read_bytes(), sorted(os.listdir(path.parent))
    for readonly in (False, True):
        with pytest.raises(error, match=match):
            SqliteStore(path, readonly)
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == beside


def test_a_text_file_is_refused(path):
    path.write_text("peers: gemma, phi\n" * 100)
    refused(path, StoreCorruptError, "is not a readable memory.*left untouched")


def test_a_short_file_is_refused(path):
    path.write_bytes(b"SQLite format 3\0")
    refused(path, StoreCorruptError, "is not a readable memory")


def test_a_database_of_another_program_is_refused(path, raw):
    raw(path, "CREATE TABLE bookmarks (url TEXT)")
    refused(path, StoreCorruptError, "another program")


def test_a_database_of_another_program_in_use_is_refused(path):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("CREATE TABLE bookmarks (url TEXT)")
    refused(path, StoreCorruptError, "another program")
    other.close()


def test_a_newer_file_is_refused_with_the_way_out(filled, raw):
    raw(filled, f"PRAGMA user_version = {len(migrations()) + 1}")
    refused(filled, StoreVersionError, "upgrade sigma-mem")


def test_a_cut_file_is_refused(filled):
    with filled.open("r+b") as file:
        file.truncate(filled.stat().st_size - 4096)
    refused(filled, StoreCorruptError, r"bytes of \d+")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match="is not a file"):
        SqliteStore(tmp_path, readonly=True)


def test_an_empty_file_and_an_unfinished_one_become_a_memory(path, record, raw):
    path.touch()
    store = SqliteStore(path)
    store.append("ns", [record(1)])
    store.close()
    path.unlink()
    raw(path, "PRAGMA journal_mode = WAL")  # as a process leaves it that died before its first commit
    assert path.stat().st_size > 0
    store = SqliteStore(path)
    assert store.append("ns", [record(1)])[0] == 1
    store.close()


def test_header_fields_are_where_the_check_reads_them(filled):
    """The check of a cut file reads SQLite's header by offset."""
    header = filled.read_bytes()[:100]
    (page,) = struct.unpack(">H", header[16:18])
    (pages,) = struct.unpack(">I", header[28:32])
    assert page * pages == filled.stat().st_size


def test_none_is_in_memory_and_a_path_is_sqlite(tmp_path):
    assert isinstance(open_store(None), InMemoryStore)
    for path in (tmp_path / "a.db", str(tmp_path / "b ?#%20.db")):
        store = open_store(path)
        assert isinstance(store, SqliteStore)
        store.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.db", "b ?#%20.db"]
    store = open_store(tmp_path / "a.db", readonly=True)
    assert store.namespaces() == []
    store.close()


def test_an_address_of_postgresql_is_one(postgres):
    for url in (postgres, postgres.replace("postgresql://", "postgres://")):
        store = open_store(url)
        assert isinstance(store, PostgresStore)
        store.close()


@pytest.mark.parametrize("path", ["", ":memory:", "sqlite:///memory.db"])
def test_other_words_for_a_path_are_refused(path):
    with pytest.raises(InputError, match="expected a file path"):
        open_store(path)


def test_reading_nothing_is_refused():
    with pytest.raises(InputError, match="nothing to read"):
        open_store(None, readonly=True)
