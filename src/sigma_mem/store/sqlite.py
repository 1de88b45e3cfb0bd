"""A memory in one SQLite file: acknowledged records survive ``kill -9`` and a power cut."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sigma_mem.errors import InputError, StoreError
from sigma_mem.store.base import Failed, Record, Snapshot, Ticket
from sigma_mem.store.batches import Batch, Settled
from sigma_mem.store.checking import verify_all
from sigma_mem.store.database import check, migrations, older_copy
from sigma_mem.store.forking import left_to_parent
from sigma_mem.store.lockfile import LockFile
from sigma_mem.store.prints import Fingerprints, Tail
from sigma_mem.store.rows import short_kind
from sigma_mem.store.table_store import TableStore
from sigma_mem.store.tables import Tables, open_to_read, open_to_write
from sigma_mem.store.writer import Writer, refuse_other_epoch, refuse_unwritable


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
        written = None if self._writer is None else partial(_written, self._writer, self._tables)
        self._prints = Fingerprints(self._tables.read, written)
        left_to_parent(self)

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
        return writer.append([self._queued(namespace, r) for r in records], epoch)

    def erase(self, namespace: str, bodies: Mapping[int, Mapping[str, Any]], record: Record) -> None:
        """Replace the bodies of lines, and append the line that says so; see `Store.erase`."""
        writer = self._writable()
        queued = self._queued(namespace, record, bodies)
        writer.flush()  # the lines themselves may still be queued
        writer.append([queued], None)[1].wait()
        self._tables.finish_erasure()

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The record of this kind and id, if any, queued or durable; that there is none is verified."""
        self._refuse_closed()
        refuse_unwritable(namespace, kind, id)
        if self._writer is not None and (queued := self._writer.find(namespace, kind, id)) is not None:
            return queued
        number, short = self._tables.number(namespace), short_kind(kind)
        if number is None:
            return None
        rows = [self._tables.row(values) for values in self._tables.read("find", number, short, id)]
        if rows and (rows[0].namespace, rows[0].kind, rows[0].id) == (number, short, id):
            return self._tables.record(rows[0])
        for seq in self._prints.with_id(number, short.encode(), id.encode()):
            row = self._tables.row(self._tables.read("at", seq)[0])
            if (row.namespace, row.kind, row.id) == (number, short, id):
                if self._tables.read("find", number, short, id):  # it became durable meanwhile
                    return self._tables.record(row)
                raise self._tables.damaged(f"record {seq} is missing in an index")
        return None

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """All records of an event, queued or durable, in order; that these are all is verified."""
        self._refuse_closed()
        refuse_unwritable(namespace, event)
        queued = [] if self._writer is None else self._writer.of_event(namespace, event)
        # Read second: a record that became durable in between is seen twice, never missed.
        number = self._tables.number(namespace)
        if number is None or not event:
            return queued
        rows = [self._tables.row(values) for values in self._tables.read("of_event", number, event)]
        durable = {row.seq: self._tables.record(row) for row in rows}
        mine = {r.seq for r in queued}
        for seq in self._prints.of_event(number, event.encode()):
            if seq not in durable and seq not in mine:
                row = self._tables.row(self._tables.read("at", seq)[0])
                if (row.namespace, row.id if row.event is None else row.event) == (number, event):
                    if any(values[0] == seq for values in self._tables.read("of_event", number, event)):
                        return self.of_event(namespace, event)  # it became durable meanwhile
                    raise self._tables.damaged(f"record {seq} is missing in an index")
        return [*durable.values(), *(r for r in queued if r.seq not in durable)]

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
        if not 0 <= snapshot.seq <= durable:
            raise InputError(f"got a snapshot of record {snapshot.seq}, the ledger ends at {durable}")
        place = self._place(namespace, snapshot.seq)
        crc = place.check_of_snapshot(namespace, snapshot.seq, snapshot.body)
        row = namespace, snapshot.seq, place.lines, place.head, crc, snapshot.body
        self._tables.write("save a snapshot in", ("save_snapshot", [row]))

    def verify(self) -> int:
        """Check the whole file and every record in it; return how many there are."""
        self._settle_queue()
        return verify_all(self._tables)

    def flush(self) -> None:
        """Return once everything appended is durable; raise StoreError if it cannot be."""
        self._refuse_closed()
        if self._writer is not None:
            self._writer.flush()
            self._tables.files.refuse_moved()

    def when_settled(self, call: Settled) -> list[Batch]:
        """What is queued now; see `Store.when_settled`."""
        self._refuse_closed()
        found = None if self._writer is None else self._writer.when_settled(call)
        return [] if found is None else [found]

    def _last(self, namespace: str) -> int:
        return self._tables.last()

    def _settle_queue(self, namespace: str | None = None) -> None:
        """Wait until everything queued is in the file or was dropped; a reader's file must still be there."""
        self._refuse_closed()
        if self._writer is None:
            self._tables.files.refuse_moved()
        else:
            self._writer.drain()

    def _writable(self) -> Writer:
        self._refuse_closed()
        if self._writer is None:
            raise StoreError(f"{self._path} was opened with readonly=True; open it without, to write")
        return self._writer

    def leave_to_parent(self) -> Tables:
        """In a forked child: the file, its lock and the writing thread are the parent's."""
        self._closed = True
        self._finalizer.detach()
        if self._lock is not None:
            self._lock.forget()
        return self._tables  # SQLite forbids a child to close its parent's connections


def _written(writer: Writer, tables: Tables) -> tuple[int, Tail | None]:
    """Number of the last durable record, and the fingerprints that the writer has."""
    last = writer.position()[0]
    return last, tables.tail  # in this order: a commit changes the tail first


def upgrade_file(path: Path) -> tuple[int, int, Path | None]:
    """Open a file to write, which upgrades it; return its version before and after, and where the copy is."""
    before, after = check(path), len(migrations())
    SqliteStore(path).close()
    return before, after, older_copy(path, before) if 0 < before < after else None
