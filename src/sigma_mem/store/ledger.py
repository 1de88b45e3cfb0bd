"""The tables of an open memory file: rows in, checked rows out."""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sigma_mem.errors import StoreCorruptError, StoreError
from sigma_mem.store.base import Record, Snapshot
from sigma_mem.store.database import store_errors
from sigma_mem.store.groupcommit import Entry
from sigma_mem.store.sql import queries

__all__ = ["Ledger"]

PAGE = 512
"""Records fetched at a time: a long replay holds no lock between pages, and pins no log."""


class Ledger:
    """Two connections to one file, one that writes and one that reads beside it; each has its lock.

    Every row carries a CRC32 over all it holds. It is checked before anything is decoded, so
    damage is found where it is read and names its record.
    """

    def __init__(
        self, path: Path, reader: sqlite3.Connection, writer: sqlite3.Connection | None = None
    ) -> None:
        self._path, self._reader, self._writer, self._sql = path, reader, writer, queries()
        self._read_lock, self._write_lock = threading.Lock(), threading.Lock()

    def commit(self, entries: Sequence[Entry]) -> None:
        """Write entries as one transaction: all of them, or none and StoreError."""
        rows = [_row(namespace, record) for namespace, record in entries]
        self._write(f"append {len(rows)} record(s) to", lambda db: db.executemany(self._sql["append"], rows))

    def save_snapshot(self, namespace: str, snapshot: Snapshot) -> None:
        """Replace the namespace's snapshot as one transaction."""
        row = namespace, snapshot.seq, _snapshot_crc(namespace, snapshot), snapshot.body
        self._write("save a snapshot in", lambda db: db.execute(self._sql["save_snapshot"], row))

    def load_snapshot(self, namespace: str) -> Snapshot | None:
        """The snapshot if there is one, its CRC holds, and the ledger reaches as far as it did."""
        found = self._read("load_snapshot", namespace)
        if not found or not isinstance(found[0][0], int) or not isinstance(found[0][2], bytes):
            return None
        seq, crc, body = found[0]
        snapshot = Snapshot(seq, body)
        whole = crc == _snapshot_crc(namespace, snapshot) and seq <= self.last()
        return snapshot if whole else None

    def last(self) -> int:
        """Sequence number of the last durable record, 0 before the first."""
        return int(self._read("last")[0][0])

    def exists(self, namespace: str, kind: str, id: str) -> bool:
        """Whether the record is durable."""
        return bool(self._read("exists", namespace, kind, id))

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The durable record of this kind and id."""
        rows = self._read("find", namespace, kind, id)
        return self._record(rows[0]) if rows else None

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """The durable records of an event, in order."""
        return [self._record(row) for row in self._read("of_event", namespace, event)]

    def records(self, namespace: str, after: int, until: int) -> Iterator[Record]:
        """The durable records of a namespace with after < seq ≤ until, in order."""
        while page := self._read("page", namespace, after, until, PAGE):
            for row in page:
                yield self._record(row)
            after = page[-1][0]

    def namespaces(self) -> list[str]:
        """Names of namespaces, sorted."""
        return sorted(name.decode() for (name,) in self._read("namespaces"))

    def verify(self) -> int:
        """Check tables, indexes and every record of the file; return how many there are.

        Raises
        ------
        StoreCorruptError
            If anything is damaged or missing.
        """
        with self._read_lock, store_errors(self._path, "check"):
            found = self._reader.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != b"ok":
            raise StoreCorruptError(f"{self._path} is damaged: {found.decode()}; restore it from a backup")
        seq = 0
        while page := self._read("page_of_all", seq, PAGE):
            for row in page:
                seq += 1
                if self._record(row).seq != seq:
                    raise StoreCorruptError(f"{self._path}: record {seq} is missing; restore a backup")
        return seq

    def close(self) -> None:
        """Close the reader, then the writer, which moves the log into the file."""
        with self._read_lock, self._write_lock:
            self._reader.close()
            if self._writer is not None:
                self._writer.close()

    def _write(self, doing: str, work: Callable[[sqlite3.Connection], object]) -> None:
        db = self._writer
        if db is None:
            raise ValueError("this ledger was opened to read")
        with self._write_lock, store_errors(self._path, doing):
            try:
                db.execute("BEGIN IMMEDIATE")
                work(db)
                db.execute("COMMIT")
            except sqlite3.Error:
                if db.in_transaction:  # SQLite has undone some failed transactions by itself
                    db.execute("ROLLBACK")
                raise

    def _read(self, query: str, *values: str | int) -> list[Any]:
        with self._read_lock, store_errors(self._path, "read"):
            return self._reader.execute(self._sql[query], values).fetchall()

    def _record(self, row: tuple[Any, ...]) -> Record:
        """Decode a row whose CRC holds; raise StoreCorruptError for any other."""
        seq, *texts, phi, crc = row
        if not all(isinstance(part, bytes) for part in (*texts, phi)) or crc != _crc(seq, *texts, phi):
            raise StoreCorruptError(
                f"{self._path}: record {seq} is damaged (CRC32 does not match); restore the file"
            )
        _, kind, id, event, body = (text.decode() for text in texts)
        return Record(kind, id, event, json.loads(body), phi, seq)


def _row(namespace: str, r: Record) -> tuple[str | int | bytes, ...]:
    """A record as the insert takes it, CRC last."""
    try:
        body = json.dumps(dict(r.body), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"{r.kind} {r.id!r} has a body that is not JSON: {error}; nothing was written"
        ) from error
    texts = (namespace, r.kind, r.id, r.event, body)
    return (r.seq, *texts, r.phi, _crc(r.seq, *(text.encode() for text in texts), r.phi))


def _crc(seq: int, *parts: bytes) -> int:
    """CRC32 of a record: seq, namespace, kind, id, event, body, φ."""
    return zlib.crc32(b"\0".join((b"%d" % seq, *parts)))


def _snapshot_crc(namespace: str, snapshot: Snapshot) -> int:
    return _crc(snapshot.seq, namespace.encode(), snapshot.body)
