"""Files that are not for us are refused with one clear error, and left as they were."""

import os
import sqlite3
import struct

import pytest

from sigma_mem.errors import StoreCorruptError, StoreError, StoreVersionError
from sigma_mem.store import SqliteStore
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
