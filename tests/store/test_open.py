"""Which path gives which store; files that are not for us are refused, and left as they were."""

import os
import sqlite3
from contextlib import closing

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


@pytest.mark.parametrize("held", [b"peers: gemma, phi\n" * 100, b"SQLite format 3\0"])
def test_another_file_is_refused(path, held):
    path.write_bytes(held)
    refused(path, StoreCorruptError, "is not a readable memory.*left untouched")


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


def test_an_empty_file_and_an_unfinished_one_become_a_memory(path, record, raw):
    path.touch()
    SqliteStore(path).close()
    path.unlink()
    raw(path, "PRAGMA journal_mode = WAL")  # as a process leaves it that died before its first commit
    assert path.stat().st_size > 0
    with closing(SqliteStore(path)) as store:
        assert store.append("ns", [record(1)])[0] == 1


def test_none_is_in_memory_and_a_path_is_sqlite(tmp_path):
    assert isinstance(open_store(None), InMemoryStore)
    for path in (tmp_path / "a.db", str(tmp_path / "b ?#%20.db")):
        with closing(open_store(path)) as store:
            assert isinstance(store, SqliteStore)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.db", "b ?#%20.db"]
    with closing(open_store(tmp_path / "a.db", readonly=True)) as store:
        assert store.namespaces() == []


def test_an_address_of_postgresql_is_one(postgres):
    for url in (postgres, postgres.replace("postgresql://", "postgres://")):
        with closing(open_store(url)) as store:
            assert isinstance(store, PostgresStore)


@pytest.mark.parametrize("path", ["", ":memory:", "sqlite:///memory.db"])
def test_other_words_for_a_path_are_refused(path):
    with pytest.raises(InputError, match="expected a file path"):
        open_store(path)
    with pytest.raises(InputError, match="nothing to read"):
        open_store(None, readonly=True)
    with pytest.raises(StoreError, match="is not a file"):
        SqliteStore(os.curdir, readonly=True)
