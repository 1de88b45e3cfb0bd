"""A memory in one SQLite file: acknowledged records survive ``kill -9`` and a power cut."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

from sigma_mem.errors import InputError, StoreCorruptError, StoreError
from sigma_mem.store.base import Record, Snapshot, Ticket
from sigma_mem.store.lockfile import LockFile
from sigma_mem.store.rows import checksum, encoded
from sigma_mem.store.tables import Tables, open_to_read, open_to_write
from sigma_mem.store.writer import Writer, refuse_other_epoch, refuse_unwritable

PAGE = 512  # records fetched at a time: a long replay holds no lock between pages, and the log can be reused


class SqliteStore:
    """The `Store` protocol on SQLite: write-ahead log, full sync, one writing thread, group commit.

    One process writes at a time, under a lock file that dies with it; any number of others may
    read beside it with ``readonly=True``. A store belongs to the process that opened it: after
    a fork the child opens its own. A file that is open for writing elsewhere raises StoreBusyError; one
    that is damaged, newer or no memory raises StoreCorruptError or StoreVersionError, and is untouched.
    """

    def __init__(self, path: str | os.PathLike[str], readonly: bool = False) -> None:
        self._path = Path(os.path.realpath(path))  # the lock is beside the file itself, whatever links to it
        self._closed = False
        self._writer: Writer | None = None
        self._lock: LockFile | None = None
        if readonly:
            self._tables = open_to_read(self._path)
            self._finalizer = weakref.finalize(self, self._tables.close)
        else:
            self._lock = LockFile(self._path)
            try:
                self._tables = open_to_write(self._path)
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
        for r in records:
            refuse_unwritable(namespace, r.kind, r.id, r.event)
        return writer.append(namespace, records, [_body(r) for r in records], epoch)

    def records(self, namespace: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Records of a namespace in order; see `Store.records`. Waits for what is queued."""
        self._settle_queue()
        last = self._tables.last()
        until = last if until is None else min(until, last)
        return self._paged("page", namespace, after=after, until=until)

    def _paged(self, query: str, *where: str, after: int = 0, until: int) -> Iterator[Record]:
        while page := self._tables.read(query, *where, after, until, PAGE):
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

    def of_source(self, namespace: str, source: str, until: int | None = None) -> Iterator[Record]:
        """Feedback of a source, in order; see `Store.of_source`. Waits for what is queued."""
        refuse_unwritable(source)
        self._settle_queue()
        last = self._tables.last()
        return self._paged(
            "page_of_source", namespace, source, until=last if until is None else min(until, last)
        )

    def sources(self, namespace: str) -> dict[str, int]:
        """Every source that gave feedback, sorted, and how many records. Waits for what is queued."""
        self._settle_queue()
        found = self._tables.read("sources", namespace)
        return dict(sorted((name.decode(), n) for name, n in found if isinstance(name, bytes)))

    def save_snapshot(self, namespace: str, snapshot: Snapshot, epoch: int | None = None) -> None:
        """Replace the namespace's snapshot; see `Store.save_snapshot`. Returns once it is durable."""
        writer = self._writable()
        refuse_unwritable(namespace)
        writer.drain()
        durable, now = writer.position()
        refuse_other_epoch(epoch, now)
        if not 0 <= snapshot.seq <= durable:
            raise InputError(f"got a snapshot of record {snapshot.seq}, the ledger ends at {durable}")
        crc = checksum(snapshot.seq, namespace.encode(), snapshot.body)
        row = namespace, snapshot.seq, crc, snapshot.body
        self._tables.write("save a snapshot in", "save_snapshot", [row])

    def load_snapshot(self, namespace: str) -> Snapshot | None:
        """The last snapshot; None where there is none, it is damaged, or the ledger ends before it."""
        self._refuse_closed()
        found = self._tables.read("load_snapshot", namespace)
        if not found or not isinstance(found[0][0], int) or not isinstance(found[0][2], bytes):
            return None
        seq, crc, body = found[0]
        whole = crc == checksum(seq, namespace.encode(), body) and seq <= self._tables.last()
        return Snapshot(seq, body) if whole else None

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


def _body(record: Record) -> bytes:
    """A record's body as JSON, made before it is queued: what cannot be written concerns nobody else."""
    try:
        return encoded(record.body)
    except (TypeError, ValueError, RecursionError) as error:
        what = f"{record.kind} {record.id!r} has a body that is not JSON: {error}"
        raise InputError(f"{what}; expected text, finite numbers, lists and mappings") from error


_opened: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_inherited: list[Tables] = []


def _leave_to_parent() -> None:
    for store in list(_opened):
        store._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
