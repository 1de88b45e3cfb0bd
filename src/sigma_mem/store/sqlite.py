"""A memory in one SQLite file: acknowledged records survive ``kill -9`` and a power cut."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

from sigma_mem.errors import InputError, StoreError, StoreVersionError
from sigma_mem.store.base import Record, Snapshot, Ticket
from sigma_mem.store.database import check, connect, migrate, store_errors
from sigma_mem.store.groupcommit import GroupCommit, refuse_other_epoch
from sigma_mem.store.ledger import Ledger
from sigma_mem.store.lockfile import LockFile
from sigma_mem.store.sql import migrations

__all__ = ["SqliteStore"]


class SqliteStore:
    """The `Store` protocol on SQLite: write-ahead log, full sync, one writing thread, group commit.

    One process writes at a time, under a lock file that dies with it; any number of others may
    read beside it with ``readonly=True``. A store belongs to the process that opened it: after
    a fork the child opens its own.

    Parameters
    ----------
    path : str or path
        The file; it is created where there is none.
    readonly : bool
        Open an existing file to read only; works while another process writes.

    Raises
    ------
    StoreBusyError
        If the file is open for writing already, here or in another process.
    StoreCorruptError, StoreVersionError
        If the file is not a memory, is damaged, or is newer than this package. It is untouched.

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
        self._group: GroupCommit | None = None
        self._lock: LockFile | None = None
        if readonly:
            self._ledger = _open_to_read(self._path)
            self._finalizer = weakref.finalize(self, self._ledger.close)
        else:
            self._lock = LockFile(self._path)
            try:
                self._ledger = _open_to_write(self._path)
            except BaseException:
                self._lock.release()
                raise
            self._group = GroupCommit(self._ledger, self._lock.release)
            self._finalizer = weakref.finalize(self, self._group.stop)
        _opened.add(self)

    @property
    def epoch(self) -> int:
        """How often appended records had to be dropped; see `Store.epoch`."""
        return 0 if self._group is None else self._group.epoch

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None
    ) -> tuple[int, Ticket]:
        """Queue records as one unit; see `Store.append`. Waits while 4,096 records are queued already."""
        group = self._writable()
        if not records:
            raise InputError("got no records to append; expected at least one")
        for r in records:
            _refuse_unwritable(namespace, r.kind, r.id, r.event)
        return group.append(namespace, records, epoch)

    def records(self, namespace: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Records of a namespace in order; see `Store.records`. Waits for what is queued."""
        self._readable()
        if self._group is not None:
            self._group.drain()
        last = self._ledger.last()
        return self._ledger.records(namespace, after, last if until is None else min(until, last))

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The record of this kind and id, if any, queued or durable."""
        self._readable()
        pending = None if self._group is None else self._group.find(namespace, kind, id)
        return pending or self._ledger.find(namespace, kind, id)

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """All records that belong to an event, queued or durable, in order."""
        self._readable()
        pending = [] if self._group is None else self._group.of_event(namespace, event)
        # Looked at second: a record that became durable in between is seen twice, never missed.
        durable = {r.seq: r for r in self._ledger.of_event(namespace, event)}
        return [*durable.values(), *(r for r in pending if r.seq not in durable)]

    def save_snapshot(self, namespace: str, snapshot: Snapshot, epoch: int | None = None) -> None:
        """Replace the namespace's snapshot; see `Store.save_snapshot`. Returns once it is durable."""
        group = self._writable()
        _refuse_unwritable(namespace)
        group.drain()
        durable, now = group.position()
        refuse_other_epoch(epoch, now)
        if not 0 <= snapshot.seq <= durable:
            raise InputError(f"got a snapshot of record {snapshot.seq}, the ledger ends at {durable}")
        self._ledger.save_snapshot(namespace, snapshot)

    def load_snapshot(self, namespace: str) -> Snapshot | None:
        """The last snapshot; None where there is none or it is damaged."""
        self._readable()
        return self._ledger.load_snapshot(namespace)

    def namespaces(self) -> list[str]:
        """Names that have at least one record, sorted. Waits for what is queued."""
        self._readable()
        if self._group is not None:
            self._group.drain()
        return self._ledger.namespaces()

    def verify(self) -> int:
        """Check the whole file and every record in it; return how many there are."""
        self._readable()
        if self._group is not None:
            self._group.drain()
        return self._ledger.verify()

    def flush(self) -> None:
        """Return once everything appended is durable; raise StoreError if it cannot be."""
        self._readable()
        if self._group is not None:
            self._group.flush()

    def close(self) -> None:
        """Flush and release, also when flushing fails; calling it twice is fine."""
        if self._closed:
            return
        try:
            self.flush()
        finally:
            self._closed = True
            self._finalizer()

    def _readable(self) -> None:
        if self._closed:
            raise StoreError(f"the store {self._path} is closed in this process; open it again")

    def _writable(self) -> GroupCommit:
        self._readable()
        if self._group is None:
            raise StoreError(f"{self._path} was opened with readonly=True; open it without, to write")
        return self._group

    def _after_fork(self) -> None:
        """In a forked child: the file, its lock and the writing thread are the parent's."""
        self._closed = True
        self._finalizer.detach()
        _inherited.append(self._ledger)  # SQLite forbids a child to close its parent's connections
        if self._lock is not None:
            self._lock.forget()


def _open_to_write(path: Path) -> Ledger:
    """Check the file before anything is written, create or migrate it, and open its tables."""
    version = check(path)
    with store_errors(path, "open"):
        writer = connect(path, "rw")
        try:
            migrate(writer, version)
            return Ledger(path, connect(path, "ro"), writer)
        except sqlite3.Error:
            writer.close()
            raise


def _open_to_read(path: Path) -> Ledger:
    """Open the tables of an existing memory that needs no migration."""
    version = check(path)
    if version == 0:
        raise StoreError(f"{path} holds no memory yet; expected an existing file to read. Write to it first")
    if version < len(migrations()):
        raise StoreVersionError(
            f"{path} has version {version}, expected {len(migrations())}; open it to write once to upgrade it"
        )
    with store_errors(path, "open"):
        return Ledger(path, connect(path, "ro"))


def _refuse_unwritable(*texts: str) -> None:
    """Raise for text that has no UTF-8 form, before it is queued."""
    for text in texts:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise InputError(f"got text that is not valid Unicode ({error}); clean it first") from error


_opened: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_inherited: list[Ledger] = []


def _leave_to_parent() -> None:
    for store in list(_opened):
        store._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
