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
from sigma_mem.store.batches import Batch, Settled
from sigma_mem.store.chain import START, Link, follow, refuse_other_end
from sigma_mem.store.forking import left_to_parent
from sigma_mem.store.postgres.address import PostgresAddress
from sigma_mem.store.postgres.connections import Connections
from sigma_mem.store.postgres.migrating import prepare_tables
from sigma_mem.store.postgres.tables import READERS, WRITERS, PostgresTables, as_bytes
from sigma_mem.store.postgres.writing import Epochs, NamespaceWriter, Seat
from sigma_mem.store.rows import short_kind
from sigma_mem.store.table_store import TableStore
from sigma_mem.store.writer import refuse_other_epoch, refuse_unwritable

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
        self._epochs = Epochs()
        self._writers: dict[str, NamespaceWriter] = {}
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _stop, self._writers, self._tables)
        left_to_parent(self)
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

    def last_line(self, namespace: str) -> int:
        """The number of a namespace's last line, queued or durable."""
        self._refuse_closed()
        newest = self._writer(namespace).newest()
        return self._tables.lines(namespace) if newest is None else newest

    def append_after(
        self, namespace: str, records: Sequence[Record], epoch: int | None, after: int | None
    ) -> tuple[int, Ticket]:
        """Queue records as one unit if line `after` is still the last one; see `Turns.append_after`."""
        writer = self._writer(namespace)
        for r in records:
            _refuse_long(namespace, r.kind, r.id, r.event, r.body.get("source", ""))
        queued = [self._queued(namespace, r) for r in records]
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

    def erase(self, namespace: str, bodies: Mapping[int, Mapping[str, Any]], record: Record) -> None:
        """Replace the bodies of lines, and append the line that says so; see `Store.erase`."""
        writer = self._writer(namespace)
        queued = self._queued(namespace, record, bodies)
        seat = writer.enter(urgent=True)
        try:
            writer.flush()  # the lines themselves may still be queued
            ticket = writer.append([queued], None, None)[1]
        finally:
            writer.leave(seat)
        ticket.wait()
        self._finish_erasures()

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The record of this kind and id, if any, queued or durable."""
        self._refuse_closed()
        refuse_unwritable(namespace, kind, id)
        writer = self._writers.get(namespace)
        if writer is not None and (queued := writer.find(namespace, kind, id)) is not None:
            return queued
        number = self._tables.number(namespace)
        if number is None:
            return None
        rows = self._tables.read("find", number, short_kind(kind), id)
        return self._tables.record(self._tables.row(rows[0])) if rows else None

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """All records of an event, queued or durable, in order."""
        self._refuse_closed()
        refuse_unwritable(namespace, event)
        writer = self._writers.get(namespace)
        queued = [] if writer is None else writer.of_event(namespace, event)
        # Read second: a record that became durable in between is seen twice, never missed.
        number = self._tables.number(namespace)
        if number is None or not event:
            return queued
        rows = [self._tables.row(x) for x in self._tables.read("of_event", number, event, number, event)]
        durable = {row.seq: self._tables.record(row) for row in rows}
        return [*durable.values(), *(r for r in queued if r.seq not in durable)]

    def save_snapshot(
        self, namespace: str, snapshot: Snapshot, epoch: int | None = None, failed: Failed | None = None
    ) -> None:
        """Keep the namespace's snapshot unless there is a later one; see `Store.save_snapshot`."""
        self._refuse_closed()
        refuse_unwritable(namespace)
        if self.readonly:
            raise self._written_readonly()
        if (writer := self._writers.get(namespace)) is not None:
            writer.drain()
        refuse_other_epoch(epoch, self.epoch)
        durable = self._tables.lines(namespace)
        if not 0 <= snapshot.seq <= durable:
            raise InputError(f"got a snapshot of record {snapshot.seq}, the ledger ends at {durable}")
        place = self._place(namespace, snapshot.seq)
        crc = place.check_of_snapshot(namespace, snapshot.seq, snapshot.body)
        row = namespace, snapshot.seq, place.lines, place.head, crc, snapshot.body
        with self._tables.writers.borrow("save a snapshot in") as db:
            db.execute(self._tables.statement("save_snapshot"), as_bytes(row))

    def verify(self) -> int:
        """Check every line, chain and count; return how many lines there are.

        Indexes and pages are PostgreSQL's own to check (data checksums, amcheck).
        """
        self._settle_queue()
        tables, lines = self._tables, 0
        for space in tables.spaces():
            at: Link = START
            what = f"{tables.name}: the ledger of {space.name!r}"
            rows = self._rows("page", space.number, until=space.lines)
            for row, place in follow(rows, START, what):
                tables.record(row)
                at = place
            refuse_other_end(at, space, what, True)
            for line in tables.sources(space.number):
                found = tables.read("count_of_source", line.number)[0][0]
                if found < line.lines:
                    raise tables.damaged(f"source {line.name!r} has {found} of {line.lines} lines")
            lines += at.lines
        if tables.read("strays")[0][0]:
            raise tables.damaged("there are lines of a namespace that is missing")
        return lines

    def flush(self) -> None:
        """Return once everything appended is durable; raise StoreError if it cannot be."""
        self._refuse_closed()
        for writer in list(self._writers.values()):
            writer.flush()

    def when_settled(self, call: Settled) -> list[Batch]:
        """What is queued now; see `Store.when_settled`."""
        self._refuse_closed()
        found = [writer.when_settled(call) for writer in list(self._writers.values())]
        return [batch for batch in found if batch is not None]

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

    def _settle_queue(self, namespace: str | None = None) -> None:
        self._refuse_closed()
        for name, writer in list(self._writers.items()):
            if namespace in (None, name):
                writer.drain()

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

    def leave_to_parent(self) -> list[Any]:
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
