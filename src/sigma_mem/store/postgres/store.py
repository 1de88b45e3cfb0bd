"""A memory in PostgreSQL that several processes write."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sigma_mem.errors import InputError, StoreError
from sigma_mem.store.base import Failed, Record, Snapshot, Ticket
from sigma_mem.store.fork import tell_after_fork
from sigma_mem.store.postgres.address import PostgresAddress
from sigma_mem.store.postgres.connections import Connections
from sigma_mem.store.postgres.migration import prepare_tables
from sigma_mem.store.postgres.tables import READERS, WRITERS, PostgresTables, as_bytes
from sigma_mem.store.postgres.writer import Epochs, NamespaceWriter, Seat
from sigma_mem.store.rows import Queued
from sigma_mem.store.table_store import TableStore
from sigma_mem.store.writer import refuse_bad_records, refuse_other_epoch, refuse_unwritable

_LONGEST_NAME = 2000  # bytes: an index of PostgreSQL takes no more


class PostgresStore(TableStore[PostgresTables]):
    """The `Store` protocol on PostgreSQL: any number of processes append, one at a time per namespace.

    Lines have numbers of their own in every namespace. A call waits some seconds for a database that went
    away, and raises StoreUnavailableError then; the state after it is what the ledger says. A store belongs
    to the process that opened it: after a fork the child opens its own.
    """

    def __init__(self, url: str | os.PathLike[str], readonly: bool = False) -> None:
        address = PostgresAddress.parse(url)
        self.readonly = readonly
        readers = Connections(address, READERS, readonly=True)
        writers = Connections(address, WRITERS, readonly=readonly, for_turns=True)
        try:
            prepare_tables(writers, readonly)
        except BaseException:
            writers.close()
            raise
        super().__init__(PostgresTables(readers, writers))
        self._epochs = Epochs(self._places)
        self._writers: dict[str, NamespaceWriter] = {}
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _stop, self._writers, self._tables)
        tell_after_fork(self)
        if not readonly:
            with suppress(StoreError):  # the mark stays, and whoever opens it next tries again
                self._finish_erasures()

    @property
    def epoch(self) -> int:
        """How often appended records had to be dropped; see `Store.epoch`."""
        return self._epochs.now

    @property
    def turns(self) -> PostgresStore | None:
        """Who gives turns; see `Store.turns`."""
        return None if self.readonly else self

    # --- turns ---------------------------------------------------------------------------

    def enter_turn(self, namespace: str, urgent: bool = False) -> Seat:
        """Wait until this process may append to a namespace; see `Turns.enter_turn`."""
        return self._writer(namespace).enter(urgent)

    def leave_turn(self, namespace: str, seat: Seat) -> None:
        """Let others append once what was queued is written."""
        self._writer(namespace).leave(seat)

    def is_current(self, namespace: str, seq: int) -> bool:
        """Whether line `seq` is the last one, queued or durable; see `Turns.is_current`.

        A database that failed over to a standby may have other lines under the same numbers.
        """
        self._refuse_closed()
        newest = self._writer(namespace).newest()
        if newest is None and self._epochs.lost_lines(namespace, self._tables.space_named(namespace)):
            return False
        return (self._tables.lines(namespace) if newest is None else newest) == seq

    def append_after(
        self, namespace: str, records: Sequence[Record], epoch: int | None, after: int | None
    ) -> tuple[int, Ticket]:
        """Queue records as one unit if line `after` is still the last one; see `Turns.append_after`."""
        writer = self._writer(namespace)
        refuse_bad_records(namespace, records)
        for r in records:
            _refuse_long(namespace, r.kind, r.id, r.event, r.source or "")
        queued = [Queued(namespace, r) for r in records]
        seat = writer.enter(urgent=True)
        try:
            return writer.append(queued, epoch, after)
        finally:
            writer.leave(seat)

    # --- the store -----------------------------------------------------------------------

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None
    ) -> tuple[int, Ticket]:
        """Queue records as one unit; see `Store.append`. Waits for a turn."""
        return self.append_after(namespace, records, epoch, None)

    def erase(self, namespace: str, bodies: Mapping[int, bytes], record: Record) -> None:
        """Replace the bodies of lines, and append the line that says so; see `Store.erase`."""
        writer = self._writer(namespace)
        refuse_bad_records(namespace, [record])
        queued = Queued(namespace, record, bodies)
        seat = writer.enter(urgent=True)
        try:
            writer.flush()  # the lines themselves may still be queued
            ticket = writer.append([queued], None, None)[1]
        finally:
            writer.leave(seat)
        ticket.wait()
        self._finish_erasures()

    def save_snapshot(
        self, namespace: str, snapshot: Snapshot, epoch: int | None = None, failed: Failed | None = None
    ) -> None:
        """Keep the namespace's snapshot unless there is a later one; see `Store.save_snapshot`."""
        self._refuse_closed()
        refuse_unwritable(namespace)
        if self.readonly:
            raise self._written_readonly()
        self._settle_queue(namespace)
        refuse_other_epoch(epoch, self.epoch)
        row = self._snapshot_row(namespace, snapshot, self._tables.lines(namespace))
        with self._tables.writers.borrow("save a snapshot in") as db:
            db.execute(self._tables.statement("save_snapshot"), as_bytes(row))

    # --- inside --------------------------------------------------------------------------

    def _finish_erasures(self) -> None:
        """Write the table anew if bytes of forgotten lines may be left in it."""
        marks = self._tables.read("erasures")
        if marks:
            with self._tables.writers.borrow("erase forgotten lines from") as db:
                db.execute("VACUUM FULL record")
                for mark in marks:
                    db.execute(self._tables.statement("finish_erasure"), mark)

    def _last(self, namespace: str) -> int:
        return self._tables.lines(namespace)

    def _queues(self, namespace: str | None = None) -> list[NamespaceWriter]:
        return [writer for name, writer in list(self._writers.items()) if namespace in (None, name)]

    def _writer(self, namespace: str) -> NamespaceWriter:
        self._refuse_closed()
        if self.readonly:
            raise self._written_readonly()
        refuse_unwritable(namespace)
        with self._lock:
            writer = self._writers.get(namespace)
            if writer is None:
                writer = self._writers[namespace] = NamespaceWriter(self._tables, namespace, self._epochs)
            return writer

    def _written_readonly(self) -> StoreError:
        return StoreError(f"{self._tables.name} was opened with readonly=True; open it without, to write")

    def after_fork(self) -> list[Any]:
        """In a forked child: connections and threads are the parent's."""
        self._closed = True
        self._finalizer.detach()
        tables = self._tables
        return [tables, *tables.readers.leave_open(), *tables.writers.leave_open()]


def _refuse_long(*names: object) -> None:
    for name in names:
        if isinstance(name, str) and len(name.encode()) > _LONGEST_NAME:
            raise InputError(
                f"got a name or id of {len(name.encode())} bytes; PostgreSQL indexes up to {_LONGEST_NAME}"
            )


def _stop(writers: dict[str, NamespaceWriter], tables: PostgresTables) -> None:
    for writer in list(writers.values()):
        writer.stop()
    tables.close()
