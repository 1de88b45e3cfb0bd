"""A memory in PostgreSQL: threads of a process queue records, and one thread takes turns and commits them.

A turn is the time in which this process, and no other, may append: it has the namespace's advisory lock,
held by the connection that also writes, so that the lock cannot outlive it. A commit waits for the disk while
the next batch fills, as on SQLite. A turn ends when nothing is queued and nobody is about to append, and
after a while in any case, so that other processes get theirs.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

from sigma_mem.errors import InputError, StoreError, StoreUnavailableError
from sigma_mem.store.base import Erased, Record, Ticket, tell_after_fork
from sigma_mem.store.postgres.tables import (
    Connections,
    PostgresAddress,
    PostgresTables,
    advisory_key,
    as_bytes,
    postgres_queries,
    prepare_tables,
)
from sigma_mem.store.rows import Row, Space, rows_after
from sigma_mem.store.tables import TableStore
from sigma_mem.store.writer import Batch, Tail, rang

_LONGEST_NAME = 2000  # bytes: an index of PostgreSQL takes no more
FAIR_SECONDS = 0.02  # and commits, after which a turn takes no more threads in: other processes may wait
FAIR_COMMITS = 4
LINGER_SECONDS = 0.002  # that a turn waits for a thread that may append next
LONGEST_SECONDS = 10.0  # that a thread can hold up the end of a turn
_IDLE_SECONDS = 5.0  # after which the thread ends
_ROWS = 4096  # of one statement


class Seat:
    """A thread's part in a turn; that of a thread that was interrupted is collected, and holds up nobody."""


class _Waiting(Batch):
    """Threads that wait for the next turn."""

    def __init__(self, bell: SimpleQueue[None]) -> None:
        super().__init__(bell)
        self.seats: weakref.WeakSet[Seat] = weakref.WeakSet()


class SharedTail(Tail):
    """The end of a namespace that other processes append to as well, and the thread that takes turns."""

    def __init__(self, tables: PostgresTables, namespace: str) -> None:
        super().__init__(namespace, SimpleQueue())
        self._tables = tables
        self._key = advisory_key(tables.connections.address.schema, f"namespace {namespace}")
        self._db: Any = None  # has the lock
        self._seats: weakref.WeakSet[Seat] = weakref.WeakSet()
        self._waiting = _Waiting(self.bell)
        self._open = self._full = False  # whether there is a turn, and takes no more threads in
        self._thread: threading.Thread | None = None

    # --- threads that append -------------------------------------------------------------

    @contextmanager
    def turn(self, urgent: bool = False) -> Iterator[None]:
        """Wait for a turn and take part in it; `urgent` joins one that is to end."""
        seat = self._enter(urgent)
        try:
            yield
        finally:
            with self.lock:
                self._seats.discard(seat)
            self.bell.put(None)

    def append(
        self,
        records: Sequence[Record],
        epoch: int | None,
        after: int | None,
        exists: Callable[[str, str, str], bool],
        erases: Mapping[int, Erased] | None = None,
    ) -> tuple[int, Batch]:
        """Queue records in a turn of this process; see `Tail.append`."""
        with self.turn(urgent=True):
            added = super().append(records, epoch, after, exists, erases)
            self.bell.put(None)
            return added

    def refuse_closed_queue(self) -> None:
        """StoreError if the store is closed, or the turn has ended."""
        super().refuse_closed_queue()
        if not self._open:
            raise StoreError(
                f"others appended to {self.namespace!r} meanwhile; nothing was changed. Try again"
            )

    def last_in_turn(self) -> int | None:
        """The last line, if it is this process's turn; otherwise others may be appending."""
        with self.lock:
            return self.newest() if self._open else None

    def stop(self) -> None:
        """Write what is queued, then end the thread; later appends are refused."""
        with self.lock:
            self.stopped = True
            thread = self._thread
        self.bell.put(None)
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join()

    def _enter(self, urgent: bool) -> Seat:
        while True:
            seat = Seat()
            with self.lock:
                super().refuse_closed_queue()
                if self._open and (urgent or not self._full):
                    self._seats.add(seat)
                    return seat
                waiting = self._waiting
                waiting.seats.add(seat)
                self._wake()
            waiting.wait()
            with self.lock:
                if seat in self._seats:
                    return seat

    def _wake(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # an interrupt may come before it starts
            name = f"sigma-mem-turns-{self.namespace}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        self.bell.put(None)

    # --- the thread that takes turns -----------------------------------------------------

    def _run(self) -> None:
        try:
            self._take_turns()
        except BaseException:  # however this thread ended, nobody may wait for it forever
            error = StoreError(f"the writer of {self.namespace!r} has ended; close the store, open it again")
            with self.lock:
                self.stopped, self._thread = True, None
            self._next_waiting().settle(error)
            self.drop(error)
            raise

    def _take_turns(self) -> None:
        called = True
        while True:
            with self.lock:
                if self._thread is not threading.current_thread():
                    return  # an interrupt came while it was started, and another one was started since
                wanted = bool(self._waiting.seats)
                if not wanted and (self.stopped or not called):
                    self._thread = None
                    return
            if wanted:
                with self._tables.connections.turns:
                    self._take_turn()
            else:
                called = rang(self.bell, _IDLE_SECONDS)

    def _take_turn(self) -> None:
        try:
            self._begin()
        except StoreError as error:
            self._next_waiting().settle(error)
            return
        try:
            with self.lock:
                waiting = self._next_waiting()
                self._seats = waiting.seats
                self._open, self._full = True, False
            waiting.settle()
            self._hold()
        except StoreError as error:
            with self.lock:
                self._open = False
                self.drop(error)
        finally:
            with self.lock:
                self._open = False
            self._end()

    def _next_waiting(self) -> _Waiting:
        with self.lock:
            waiting, self._waiting = self._waiting, _Waiting(self.bell)
            return waiting

    def _hold(self) -> None:
        """Commit what is queued until the turn ends."""
        start, commits, lingered = time.monotonic(), 0, False
        while True:
            with self.lock:
                held = time.monotonic() - start
                self._full = held > FAIR_SECONDS and commits >= FAIR_COMMITS
                batch, taken = self.take(), bool(self._seats)
                if batch is None and (held > LONGEST_SECONDS or (not taken and (lingered or self._full))):
                    self._open = False
                    return
            if batch is None:
                called = rang(self.bell, 0.05 if taken else LINGER_SECONDS)
                lingered = not taken and not called
                continue
            self.written(self._commit(batch))
            commits, lingered = commits + 1, False

    # --- the database --------------------------------------------------------------------

    def _begin(self) -> Space | None:
        """Take the lock, and see what others wrote; waits some seconds for a database that went away."""
        self._tables.connections.patiently(self._lock_once)
        return self._tables.sync(self)

    def _lock_once(self) -> None:
        connections = self._tables.connections
        self._drop()
        with connections.errors("write to"):
            db = connections.take()
            try:
                db.execute("SELECT pg_advisory_lock(%s)", [self._key])
            except BaseException:
                connections.drop(db)
                raise
            self._db = db

    def _end(self) -> None:
        """Let others write."""
        db, self._db = self._db, None
        if db is None:
            return
        try:
            db.execute(postgres_queries()["unlock"], [self._key])
        except self._tables.connections.driver.Error:
            self._tables.connections.drop(db)  # the server releases the lock when the connection is gone
        else:
            self._tables.connections.give_back(db)

    def _drop(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            self._tables.connections.drop(db)

    def _commit(self, batch: Batch) -> Space:
        """Append records as one transaction: all of them, or none and StoreError.

        If the connection breaks, the ledger is checked for them, and they are written again if
        they are not and nobody else wrote meanwhile.
        """
        records, before = list(batch.records.values()), self.space
        try:
            rows, space = rows_after(before or self._new_space(), records)
        except (MemoryError, ValueError) as error:
            raise StoreError(f"could not append {len(records)} record(s): {error}") from error
        if batch.erases:
            space = space._replace(erased=space.lines)
        if records[0].seq != rows[0][1]:
            raise StoreError(f"others appended to {self.namespace!r} meanwhile; try again")
        try:
            self._write(rows, space, batch.erases)
        except StoreUnavailableError:
            now = self._begin()
            if now != space:
                if now != before:
                    raise StoreError(
                        f"the connection to {self._tables.name} was lost, and {self.namespace!r} has others' "
                        f"lines since; {len(records)} record(s) were not written. Try again"
                    ) from None
                self._write(rows, space, batch.erases)
        return space

    def _new_space(self) -> Space:
        with self._errors("write to"):
            return Space(self._db.execute(postgres_queries()["next_space"]).fetchone()[0], self.namespace)

    def _write(self, rows: Sequence[Row], space: Space, erases: Mapping[int, Erased]) -> None:
        values = [*space, space.check()]
        with self._errors(f"append {len(rows)} record(s) to"):
            if not erases and len(rows) <= _ROWS:
                self._execute("append", [*_columns(rows), *values])  # a transaction of its own
                return
            with self._db.transaction():
                for first in range(0, len(rows), _ROWS):
                    self._execute("append", [*_columns(rows[first : first + _ROWS]), *values])
                if erases:
                    self._tables.erase(self._execute, space, erases)

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Drop the connection after an error, and with it whatever its transaction did."""
        try:
            with self._tables.connections.errors(doing):
                yield
        except BaseException:
            self._drop()
            raise

    def _execute(self, statement: str, values: Sequence[Any]) -> Any:
        return self._db.execute(postgres_queries()[statement], as_bytes(values), prepare=True, binary=True)


def _columns(rows: Sequence[Row]) -> list[list[Any]]:
    """Rows as the arrays that one statement takes."""
    return [as_bytes(column) for column in zip(*rows, strict=True)]


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
