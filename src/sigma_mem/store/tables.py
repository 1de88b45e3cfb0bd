"""The tables of a memory file: records and snapshots, read and written."""

import json
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sigma_mem.errors import StoreCorruptError
from sigma_mem.store.base import Record
from sigma_mem.store.database import (
    check,
    connect,
    migrate,
    queries,
    refuse_absent_or_older,
    store_error,
)
from sigma_mem.store.rows import Queued, checksum, packed_row


class Tables:
    """Two connections to one file, one to write and one to read, each with a lock.

    The writing thread refers to these and not to the store, so that a store that was never closed can be
    collected. Every row carries a CRC32 that is checked before anything is decoded, so damage is found
    where it is read, and the error names the record.
    """

    def __init__(self, path: Path, reader: sqlite3.Connection, writer: sqlite3.Connection | None) -> None:
        self._path, self._reader, self._writer, self._sql = path, reader, writer, queries()
        self._read_lock, self._write_lock = threading.Lock(), threading.Lock()

    def commit(self, records: Sequence[Queued]) -> None:
        """Write records as one transaction: all of them, or none and StoreError."""
        rows = [packed_row(*queued) for queued in records]
        self.write(f"append {len(rows)} record(s) to", "append", rows)

    def last(self) -> int:
        """Sequence number of the last durable record, 0 before the first."""
        return int(self.read("last")[0][0])

    def exists(self, namespace: str, kind: str, id: str) -> bool:
        """Whether the record is durable."""
        return bool(self.read("exists", namespace, kind, id))

    def close(self) -> None:
        """Close the reader, then the writer, which moves the log into the file."""
        with self._read_lock, self._write_lock:
            self._reader.close()
            if self._writer is not None:
                self._writer.close()

    def write(self, doing: str, statement: str, rows: Sequence[tuple[str | int | bytes, ...]]) -> None:
        """Execute a named statement for every row, in one transaction."""
        db = self._writer
        if db is None:
            raise ValueError("these tables were opened to read")
        with self._write_lock:
            try:
                if db.in_transaction:  # an interrupt came between the steps of a write
                    db.execute("ROLLBACK")
                db.execute("BEGIN IMMEDIATE")
                db.executemany(self._sql[statement], rows)
                db.execute("COMMIT")
            except sqlite3.Error as error:
                if db.in_transaction:  # SQLite has undone some failed transactions by itself
                    db.execute("ROLLBACK")
                raise store_error(self._path, doing, error) from error

    def read(self, query: str, *values: str | int) -> list[Any]:
        """All rows of a named query."""
        with self._read_lock:
            cursor = None
            try:
                cursor = self._reader.execute(self._sql[query], values)
                return cursor.fetchall()
            except sqlite3.Error as error:
                raise store_error(self._path, "read", error) from error
            finally:  # an open one would keep the connection at what it saw
                if cursor is not None:
                    cursor.close()

    def decode(self, row: tuple[Any, ...]) -> Record:
        """The record in a row whose CRC holds; StoreCorruptError for any other."""
        seq, *texts, phi, crc = row
        if not all(isinstance(part, bytes) for part in (*texts, phi)) or crc != checksum(seq, *texts, phi):
            what = f"record {seq} is damaged (CRC32 does not match)"
            raise StoreCorruptError(f"{self._path}: {what}; restore the file")
        _, kind, id, event, body = (text.decode() for text in texts)
        return Record(kind, id, event, json.loads(body), phi, seq)


def open_to_write(path: Path) -> Tables:
    """Check the file before anything is written, create or migrate it, and open its tables."""
    version = check(path)
    try:
        writer = connect(path, "rw")
        try:
            migrate(writer, version)
            return Tables(path, connect(path, "ro"), writer)
        except sqlite3.Error:
            writer.close()
            raise
    except sqlite3.Error as error:
        raise store_error(path, "open", error) from error


def open_to_read(path: Path) -> Tables:
    """Open the tables of an existing memory that needs no migration."""
    refuse_absent_or_older(path)
    try:
        return Tables(path, connect(path, "ro"), None)
    except sqlite3.Error as error:
        raise store_error(path, "open", error) from error
