"""A memory in one SQLite file: acknowledged records survive ``kill -9`` and a power cut."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from sigma_mem.errors import StoreError
from sigma_mem.store.base import Failed, Record, Snapshot, Ticket
from sigma_mem.store.database import check, migrations, older_copy
from sigma_mem.store.fork import tell_after_fork
from sigma_mem.store.lockfile import LockFile
from sigma_mem.store.rows import Queued
from sigma_mem.store.table_store import TableStore
from sigma_mem.store.tables import Tables, open_to_read, open_to_write
from sigma_mem.store.writer import Writer, refuse_bad_records, refuse_other_epoch, refuse_unwritable


class SqliteStore(TableStore[Tables]):
    """The `Store` protocol on SQLite: write-ahead log, full sync, one writing thread, group commit.

    One process writes at a time, under a lock file that dies with it; any number of others may
    read beside it with ``readonly=True``. A store belongs to the process that opened it: after
    a fork the child opens its own. A file that is open for writing elsewhere raises StoreBusyError; one
    that is damaged, newer or no memory raises StoreCorruptError or StoreVersionError, and is untouched.
    """

    turns = None  # no other process writes

    def __init__(self, path: str | os.PathLike[str], readonly: bool = False) -> None:
        self._path = Path(os.path.realpath(path))  # the lock is beside the file itself, whatever links to it
        self._writer: Writer | None = None
        self._lock: LockFile | None = None
        if readonly:
            super().__init__(open_to_read(self._path))
            self._finalizer = weakref.finalize(self, self._tables.close)
        else:
            self._lock = LockFile(self._path)
            try:
                super().__init__(open_to_write(self._path))
                self._writer = Writer(self._tables, self._lock.release)
                self._finalizer = weakref.finalize(self, self._writer.stop)
                self._writer.start()
            except BaseException:  # also an interrupt: nobody would release them
                if self._writer is None or not self._writer.stop():
                    self._lock.release()
                raise
        tell_after_fork(self)

    @property
    def epoch(self) -> int:
        """How often appended records had to be dropped; see `Store.epoch`."""
        return 0 if self._writer is None else self._writer.epoch

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def readonly(self) -> bool:
        """Whether the file was opened to read only."""
        return self._writer is None

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None
    ) -> tuple[int, Ticket]:
        """Queue records as one unit; see `Store.append`. Waits while 4,096 records are queued already."""
        writer = self._writable()
        refuse_bad_records(namespace, records)
        return writer.append([Queued(namespace, record) for record in records], epoch)

    def erase(self, namespace: str, bodies: Mapping[int, bytes], record: Record) -> None:
        """Replace the bodies of lines, and append the line that says so; see `Store.erase`."""
        writer = self._writable()
        refuse_bad_records(namespace, [record])
        writer.flush()  # the lines themselves may still be queued
        writer.append([Queued(namespace, record, bodies)], None)[1].wait()
        self._tables.finish_erasure()

    def save_snapshot(
        self, namespace: str, snapshot: Snapshot, epoch: int | None = None, failed: Failed | None = None
    ) -> None:
        """Replace the namespace's snapshot; see `Store.save_snapshot`. The writing thread does it later."""
        writer = self._writable()
        refuse_unwritable(namespace)
        save = partial(self._save_snapshot, writer, namespace, snapshot, epoch)
        if failed is None or not writer.after_commit(save, failed):
            writer.drain()
            save()

    def _save_snapshot(self, writer: Writer, namespace: str, snapshot: Snapshot, epoch: int | None) -> None:
        durable, now = writer.position()
        refuse_other_epoch(epoch, now)
        row = self._snapshot_row(namespace, snapshot, durable)
        self._tables.write([], "save a snapshot in", ("save_snapshot", [row]))

    def _last(self, namespace: str) -> int:
        return self._tables.last()

    def _queues(self, namespace: str | None = None) -> list[Writer]:
        return [] if self._writer is None else [self._writer]

    def _writable(self) -> Writer:
        self._refuse_closed()
        if self._writer is None:
            raise StoreError(f"{self._path} was opened with readonly=True; open it without, to write")
        return self._writer

    def after_fork(self) -> Tables:
        """In a forked child: the file, its lock and the writing thread are the parent's."""
        self._closed = True
        self._finalizer.detach()
        if self._lock is not None:
            self._lock.forget()
        return self._tables  # SQLite forbids a child to close its parent's connections


def upgrade_file(path: Path) -> tuple[int, int, Path | None]:
    """Open a file to write, which upgrades it; return its version before and after, and where the copy is."""
    before, after = check(path), len(migrations())
    SqliteStore(path).close()
    return before, after, older_copy(path, before) if 0 < before < after else None
