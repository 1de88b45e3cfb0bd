"""A memory in one SQLite file: acknowledged records survive ``kill -9`` and a power cut."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import weakref
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sigma_mem.errors import InputError, StoreCorruptError, StoreError, StoreVersionError
from sigma_mem.store.base import Record, Snapshot, Ticket
from sigma_mem.store.database import LockFile, check, connect, migrate, migrations, queries, store_error
from sigma_mem.store.writer import QueuedRecord, Writer, refuse_other_epoch

PAGE = 512
"""Records fetched at a time: a long replay holds no lock between pages, and lets SQLite reuse its log."""


class SqliteStore:
    """The `Store` protocol on SQLite: write-ahead log, full sync, one writing thread, group commit.

    One process writes at a time, under a lock file that dies with it; any number of others may
    read beside it with ``readonly=True``. A store belongs to the process that opened it: after
    a fork the child opens its own. A file that is open for writing elsewhere raises StoreBusyError; one
    that is damaged, newer or no memory raises StoreCorruptError or StoreVersionError, and is untouched.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = SqliteStore(folder.name + "/memory.db")
    >>> seq, ticket = store.append("default", [Record("decision", "d1", "d1", {"n": 1})])
    >>> ticket.wait()
    >>> store.close()
    >>> store = SqliteStore(folder.name + "/memory.db", readonly=True)
    >>> [record.id for record in store.records("default")]
    ['d1']
    >>> store.close()
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], readonly: bool = False) -> None:
        self._path = Path(path)
        self._closed = False
        self._writer: Writer | None = None
        self._lock: LockFile | None = None
        if readonly:
            self._tables = _open_to_read(self._path)
            self._finalizer = weakref.finalize(self, self._tables.close)
        else:
            self._lock = LockFile(self._path)
            try:
                self._tables = _open_to_write(self._path)
            except BaseException:
                self._lock.release()
                raise
            self._writer = Writer(self._tables, self._lock.release)
            self._finalizer = weakref.finalize(self, self._writer.stop)
        _opened.add(self)

    @property
    def epoch(self) -> int:
        """How often appended records had to be dropped; see `Store.epoch`."""
        return 0 if self._writer is None else self._writer.epoch

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None
    ) -> tuple[int, Ticket]:
        """Queue records as one unit; see `Store.append`. Waits while 4,096 records are queued already."""
        writer = self._writable()
        if not records:
            raise InputError("got no records to append; expected at least one")
        for r in records:
            _refuse_unwritable(namespace, r.kind, r.id, r.event)
        return writer.append(namespace, records, epoch)

    def records(self, namespace: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Records of a namespace in order; see `Store.records`. Waits for what is queued."""
        self._settle_queue()
        last = self._tables.last()
        return self._paged(namespace, after, last if until is None else min(until, last))

    def _paged(self, namespace: str, after: int, until: int) -> Iterator[Record]:
        while page := self._tables.read("page", namespace, after, until, PAGE):
            for row in page:
                yield self._tables.decode(row)
            after = page[-1][0]

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The record of this kind and id, if any, queued or durable."""
        self._refuse_closed()
        if self._writer is not None and (queued := self._writer.find(namespace, kind, id)) is not None:
            return queued
        rows = self._tables.read("find", namespace, kind, id)
        return self._tables.decode(rows[0]) if rows else None

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """All records that belong to an event, queued or durable, in order."""
        self._refuse_closed()
        queued = [] if self._writer is None else self._writer.of_event(namespace, event)
        # Read second: a record that became durable in between is seen twice, never missed.
        rows = self._tables.read("of_event", namespace, event)
        durable = {row[0]: self._tables.decode(row) for row in rows}
        return [*durable.values(), *(r for r in queued if r.seq not in durable)]

    def save_snapshot(self, namespace: str, snapshot: Snapshot, epoch: int | None = None) -> None:
        """Replace the namespace's snapshot; see `Store.save_snapshot`. Returns once it is durable."""
        writer = self._writable()
        _refuse_unwritable(namespace)
        writer.drain()
        durable, now = writer.position()
        refuse_other_epoch(epoch, now)
        if not 0 <= snapshot.seq <= durable:
            raise InputError(f"got a snapshot of record {snapshot.seq}, the ledger ends at {durable}")
        row = namespace, snapshot.seq, _snapshot_crc(namespace, snapshot), snapshot.body
        self._tables.write("save a snapshot in", "save_snapshot", [row])

    def load_snapshot(self, namespace: str) -> Snapshot | None:
        """The last snapshot; None where there is none, it is damaged, or the ledger ends before it."""
        self._refuse_closed()
        found = self._tables.read("load_snapshot", namespace)
        if not found or not isinstance(found[0][0], int) or not isinstance(found[0][2], bytes):
            return None
        seq, crc, body = found[0]
        snapshot = Snapshot(seq, body)
        whole = crc == _snapshot_crc(namespace, snapshot) and seq <= self._tables.last()
        return snapshot if whole else None

    def namespaces(self) -> list[str]:
        """Names that have at least one record, sorted. Waits for what is queued."""
        self._settle_queue()
        return sorted(name.decode() for (name,) in self._tables.read("namespaces"))

    def verify(self) -> int:
        """Check the whole file and every record in it; return how many there are."""
        self._settle_queue()
        found = self._tables.read("integrity_check")[0][0]
        if found != b"ok":
            raise StoreCorruptError(f"{self._path} is damaged: {found.decode()}; restore it from a backup")
        seq = 0
        while page := self._tables.read("page_of_all", seq, PAGE):
            for row in page:
                seq += 1
                if self._tables.decode(row).seq != seq:
                    raise StoreCorruptError(f"{self._path}: record {seq} is missing; restore a backup")
        return seq

    def flush(self) -> None:
        """Return once everything appended is durable; raise StoreError if it cannot be."""
        self._refuse_closed()
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Flush and release, also when flushing fails; idempotent."""
        if self._closed:
            return
        try:
            self.flush()
        finally:
            self._closed = True
            self._finalizer()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError(f"the store {self._path} is closed in this process; open it again")

    def _settle_queue(self) -> None:
        """Wait until everything queued is in the file or was dropped."""
        self._refuse_closed()
        if self._writer is not None:
            self._writer.drain()

    def _writable(self) -> Writer:
        self._refuse_closed()
        if self._writer is None:
            raise StoreError(f"{self._path} was opened with readonly=True; open it without, to write")
        return self._writer

    def _after_fork(self) -> None:
        """In a forked child: the file, its lock and the writing thread are the parent's."""
        self._closed = True
        self._finalizer.detach()
        _inherited.append(self._tables)  # SQLite forbids a child to close its parent's connections
        if self._lock is not None:
            self._lock.forget()


def _open_to_write(path: Path) -> _Tables:
    """Check the file before anything is written, create or migrate it, and open its tables."""
    version = check(path)
    try:
        writer = connect(path, "rw")
        try:
            migrate(writer, version)
            return _Tables(path, connect(path, "ro"), writer)
        except sqlite3.Error:
            writer.close()
            raise
    except sqlite3.Error as error:
        raise store_error(path, "open", error) from error


def _open_to_read(path: Path) -> _Tables:
    """Open the tables of an existing memory that needs no migration."""
    version = check(path)
    if version == 0:
        raise StoreError(f"{path} holds no memory yet; expected an existing file to read. Write to it first")
    if version < len(migrations()):
        raise StoreVersionError(
            f"{path} has version {version}, expected {len(migrations())}; open it to write once to upgrade it"
        )
    try:
        return _Tables(path, connect(path, "ro"))
    except sqlite3.Error as error:
        raise store_error(path, "open", error) from error


class _Tables:
    """Two connections to one file, one to write and one to read, each with a lock.

    The writing thread refers to these and not to the store, so that a store that was never closed can be
    collected. Every row carries a CRC32 that is checked before anything is decoded, so damage is found
    where it is read, and the error names the record.
    """

    def __init__(
        self, path: Path, reader: sqlite3.Connection, writer: sqlite3.Connection | None = None
    ) -> None:
        self._path, self._reader, self._writer, self._sql = path, reader, writer, queries()
        self._read_lock, self._write_lock = threading.Lock(), threading.Lock()

    def commit(self, records: Sequence[QueuedRecord]) -> None:
        """Write records as one transaction: all of them, or none and StoreError."""
        rows = [_row(namespace, record) for namespace, record in records]
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
            try:
                return self._reader.execute(self._sql[query], values).fetchall()
            except sqlite3.Error as error:
                raise store_error(self._path, "read", error) from error

    def decode(self, row: tuple[Any, ...]) -> Record:
        """The record in a row whose CRC holds; StoreCorruptError for any other."""
        seq, *texts, phi, crc = row
        if not all(isinstance(part, bytes) for part in (*texts, phi)) or crc != _crc(seq, *texts, phi):
            raise StoreCorruptError(
                f"{self._path}: record {seq} is damaged (CRC32 does not match); restore the file"
            )
        _, kind, id, event, body = (text.decode() for text in texts)
        return Record(kind, id, event, json.loads(body), phi, seq)


def _row(namespace: str, r: Record) -> tuple[str | int | bytes, ...]:
    """A record as a row of the table."""
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


def _refuse_unwritable(*texts: str) -> None:
    """Raise for text that has no UTF-8 form, before it is queued."""
    for text in texts:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise InputError(f"got text that is not valid Unicode ({error}); clean it first") from error


_opened: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_inherited: list[_Tables] = []


def _leave_to_parent() -> None:
    for store in list(_opened):
        store._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
