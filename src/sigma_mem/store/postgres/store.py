"""A memory in PostgreSQL that several processes write."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

from sigma_mem.errors import InputError, StoreError
from sigma_mem.store.base import Record, Ticket
from sigma_mem.store.fork import tell_after_fork
from sigma_mem.store.postgres.tables import Connections, PostgresAddress, PostgresTables, prepare_tables
from sigma_mem.store.postgres.turns import SharedTail
from sigma_mem.store.tables import TableStore

_LONGEST_NAME = 2000  # bytes: an index of PostgreSQL takes no more


class PostgresStore(TableStore[PostgresTables, SharedTail]):
    """The `Store` protocol on PostgreSQL: any number of processes append, one at a time per namespace.

    A call waits some seconds for a database that went away, and then raises StoreUnavailableError. The state
    after it is that of the ledger. A store belongs to the process that opened it: after a fork the child
    opens its own.
    """

    def __init__(
        self, url: str | os.PathLike[str], readonly: bool = False, patience: float | None = None
    ) -> None:
        connections = Connections(PostgresAddress.parse(url), readonly=readonly, patience=patience)
        self.readonly = readonly
        self.shared = not readonly
        try:
            prepare_tables(connections, readonly)
        except BaseException:
            connections.close()
            raise
        tables = PostgresTables(connections)
        super().__init__(tables, partial(SharedTail, tables))
        self._finalizer = weakref.finalize(self, _stop, self._tails, tables)
        tell_after_fork(self)
        if not readonly:
            with suppress(StoreError):  # the mark stays, and the next process that opens it tries again
                self._tables.finish_erasure()

    def turn(self, namespace: str, urgent: bool = False) -> AbstractContextManager[object]:
        """Keep other processes from appending meanwhile; see `Store.turn`."""
        return self._writable(namespace).turn(urgent)

    def is_current(self, namespace: str, seq: int) -> bool:
        """Whether line `seq` is the last one, queued or durable; see `Store.is_current`."""
        last = self._tail(namespace).last_in_turn()
        return super().is_current(namespace, seq) if last is None else last == seq

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None, after: int | None = None
    ) -> tuple[int, Ticket]:
        """Queue records as one unit; see `Store.append`. Waits for a turn."""
        for r in records:
            _refuse_long(namespace, r.kind, r.id, r.event, r.source or "")
        return super().append(namespace, records, epoch, after)

    def after_fork(self) -> list[Any]:
        """In a forked child: connections and threads are the parent's."""
        self._closed = True
        self._finalizer.detach()
        held = [tail._db for tail in self._tails.values()]
        return [self._tables, *held, *self._tables.connections.leave_open()]


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
