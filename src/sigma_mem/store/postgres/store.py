"""A memory in PostgreSQL that several processes write."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from sigma_mem.errors import InputError, StoreError
from sigma_mem.store.base import Erased, Record, Ticket, refuse_bad_records, refuse_unwritable
from sigma_mem.store.fork import tell_after_fork
from sigma_mem.store.postgres.connections import Connections, PostgresAddress
from sigma_mem.store.postgres.tables import PostgresTables, prepare_tables
from sigma_mem.store.postgres.turns import SharedTail
from sigma_mem.store.tables import TableStore

_LONGEST_NAME = 2000  # bytes: an index of PostgreSQL takes no more


class PostgresStore(TableStore[PostgresTables]):
    """The `Store` protocol on PostgreSQL: any number of processes append, one at a time per namespace.

    A call waits some seconds for a database that went away, and raises StoreUnavailableError then; the state
    after it is what the ledger says. A store belongs to the process that opened it: after a fork the child
    opens its own.
    """

    def __init__(self, url: str | os.PathLike[str], readonly: bool = False) -> None:
        connections = Connections(PostgresAddress.parse(url), readonly=readonly)
        self.readonly = readonly
        self.shared = not readonly
        try:
            prepare_tables(connections, readonly)
        except BaseException:
            connections.close()
            raise
        super().__init__(PostgresTables(connections))
        self._by_name: dict[str, SharedTail] = {}
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _stop, self._by_name, self._tables)
        tell_after_fork(self)
        if not readonly:
            with suppress(StoreError):  # the mark stays, and whoever opens it next tries again
                self._tables.finish_erasure()

    def turn(self, namespace: str, urgent: bool = False) -> AbstractContextManager[object]:
        """Keep other processes from appending meanwhile; see `Store.turn`."""
        return self._writable(namespace).turn(urgent)

    def is_current(self, namespace: str, seq: int) -> bool:
        """Whether line `seq` is the last one, queued or durable; see `Store.is_current`."""
        self._refuse_closed()
        last = self._tail(namespace).last_in_turn()
        return super().is_current(namespace, seq) if last is None else last == seq

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None, after: int | None = None
    ) -> tuple[int, Ticket]:
        """Queue records as one unit; see `Store.append`. Waits for a turn."""
        tail = self._writable(namespace)
        refuse_bad_records(namespace, records)
        for r in records:
            _refuse_long(namespace, r.kind, r.id, r.event, r.source or "")
        return tail.append_in_turn(records, epoch, after)

    def erase(self, namespace: str, lines: Mapping[int, Erased], record: Record) -> None:
        """Leave only this of some lines, and append the record that says so; see `Store.erase`."""
        tail = self._writable(namespace)
        refuse_bad_records(namespace, [record])
        with tail.turn(urgent=True):
            tail.flush()  # the lines themselves may still be queued
            ticket = tail.append_in_turn([record], None, None, lines)[1]
        ticket.wait()
        self._tables.finish_erasure()

    def after_fork(self) -> list[Any]:
        """In a forked child: connections and threads are the parent's."""
        self._closed = True
        self._finalizer.detach()
        held = [tail._db for tail in self._by_name.values()]
        return [self._tables, *held, *self._tables.connections.leave_open()]

    def _tail(self, namespace: str) -> SharedTail:
        tail = self._by_name.get(namespace)
        if tail is None:
            with self._lock:
                tail = self._by_name.setdefault(namespace, SharedTail(self._tables, namespace))
        return tail

    def _tails(self) -> list[Any]:
        return list(self._by_name.values())

    def _writable(self, namespace: str) -> SharedTail:
        self._refuse_closed()
        self._refuse_readonly()
        refuse_unwritable(namespace)
        return self._tail(namespace)


def _refuse_long(*names: object) -> None:
    for name in names:
        if isinstance(name, str) and len(name.encode()) > _LONGEST_NAME:
            raise InputError(
                f"got a name or id of {len(name.encode())} bytes; PostgreSQL indexes up to {_LONGEST_NAME}"
            )


def _stop(tails: dict[str, SharedTail], tables: PostgresTables) -> None:
    for tail in list(tails.values()):
        tail.stop()
    tables.close()
