"""A memory in one SQLite file: acknowledged records survive ``kill -9`` and a power cut."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from sigma_mem.errors import StoreBusyError, StoreError
from sigma_mem.store.base import tell_after_fork
from sigma_mem.store.file import (
    SQLITE_ERRORS,
    LockFile,
    check,
    connect,
    migrate,
    migrations,
    queries,
    refuse_absent_or_older,
    store_error,
)
from sigma_mem.store.rows import Row, Space, rows_after
from sigma_mem.store.tables import Tables, TableStore, holds
from sigma_mem.store.writer import Batch, Tail, Writer

_TOGETHER = 64  # rows that one statement appends


class SqliteTables(Tables):
    """Two connections to one file, one to write and one to read, each with a lock.

    The writing thread refers to these and not to the store, so that a store that was never closed can be
    collected.
    """

    def __init__(self, path: Path, reader: sqlite3.Connection, writer: sqlite3.Connection | None) -> None:
        super().__init__(str(path))
        self.path, self._reader, self._writer = path, reader, writer
        self._read_lock, self._write_lock = threading.Lock(), threading.Lock()
        self._file = os.stat(path)
        self._replaced = False  # whether the file is no longer the one that was opened

    # --- read ----------------------------------------------------------------------------

    def read(self, query: str, *values: str | int | bytes) -> list[Any]:
        """All rows of a named query."""
        with self._read_lock:
            try:
                return self._reader.execute(queries()[query], values).fetchall()
            except SQLITE_ERRORS as error:
                raise store_error(self.path, "read", error) from error

    def refuse_damaged(self) -> None:
        """StoreCorruptError if SQLite finds its own pages or indexes damaged, or lines have no namespace."""
        with self._read_lock:
            try:
                found = self._reader.execute("PRAGMA integrity_check(1)").fetchone()[0]
            except SQLITE_ERRORS as error:
                raise store_error(self.path, "read", error) from error
        if found != b"ok":
            raise self.damaged(f"SQLite says {found.decode(errors='replace')!r}")
        super().refuse_damaged()

    def lost(self, tail: Tail) -> None:
        """A reader continues with the file as it is; nothing more is written into one that was replaced."""
        if self._writer is not None:
            self._replaced = True
            raise self._other_file()

    # --- write ---------------------------------------------------------------------------

    def commit(self, taken: Sequence[tuple[Tail, Batch]]) -> list[Space]:
        """Write the batches of some namespaces as one transaction; return the namespaces after it."""
        lines = sum(len(batch.records) for _, batch in taken)
        spaces: list[Space] = self._write(
            f"append {lines} record(s) to", lambda db: [self._append(db, *each) for each in taken]
        )
        return spaces

    def save_snapshot(self, *values: str | int | bytes) -> bool:
        """Keep a snapshot; whether it was kept."""
        sql = queries()["save_snapshot"]
        return bool(self._write("save a snapshot in", lambda db: db.execute(sql, values).rowcount > 0))

    def finish_erasure(self) -> None:
        """Rewrite the file if bytes of forgotten lines may be left in it or in its log.

        A kill at any moment leaves the mark, and the next writer finishes.
        """
        db = self._writer
        if db is None or not self.read("erasures"):
            return
        with self._write_lock:
            try:
                db.execute("PRAGMA secure_delete = ON")  # of pages that VACUUM builds, too
                db.execute("VACUUM")
                busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                if busy:
                    raise StoreBusyError(
                        f"the lines are forgotten, but another process reads {self.path}, so their bytes "
                        "are still in its log; they leave with the next forget, or the next opening to write"
                    )
                db.execute("DELETE FROM erasure")
            except sqlite3.Error as error:
                raise store_error(self.path, "erase forgotten lines from", error) from error
            finally:
                db.execute("PRAGMA secure_delete = OFF")

    def close(self) -> None:
        """Close the reader, then the writer, which moves the log into the file."""
        with self._read_lock, self._write_lock:
            self._reader.close()
            if self._writer is not None:
                self._writer.close()

    def _write(self, doing: str, write: Callable[[sqlite3.Connection], Any]) -> Any:
        """Do something in one transaction: all of it, or nothing and StoreError."""
        db = self._writer
        if db is None:
            raise ValueError("these tables were opened to read")
        with self._write_lock:
            try:
                if db.in_transaction:  # an interrupt came between the steps of a write
                    db.execute("ROLLBACK")
                db.execute("PRAGMA shrink_memory")  # what SQLite remembers may not be in the file
                db.execute("BEGIN IMMEDIATE")
                if self._replaced or not os.path.samestat(self._file, os.stat(self.path)):
                    raise self._other_file()
                done = write(db)
                db.execute("COMMIT")
                return done
            except (*SQLITE_ERRORS, StoreError, MemoryError, OverflowError, ValueError, OSError) as error:
                with suppress(sqlite3.Error):
                    if db.in_transaction:  # SQLite has undone some failed transactions by itself
                        db.execute("ROLLBACK")
                if isinstance(error, StoreError):
                    raise
                if isinstance(error, FileNotFoundError):
                    raise self._other_file() from None
                raise store_error(self.path, doing, error) from error

    def _append(self, db: sqlite3.Connection, tail: Tail, batch: Batch) -> Space:
        sql, name, first = queries(), tail.namespace, next(iter(batch.records.values())).seq
        found = db.execute(sql["space"], (tail.durable, name)).fetchall()
        if not holds(found, tail.space):
            self._replaced = True
            raise self._other_file()
        space = self.space(found[0][:-1]) if found else None
        if space is None:
            if any(known.name == name for known in self.spaces()):
                raise self.damaged(f"the index of namespaces does not lead to {name!r}")
            number = db.execute("SELECT coalesce(max(number), 0) + 1 FROM namespace").fetchone()[0]
            space = Space(number, name)
        if first != space.lines + 1:
            raise StoreError(f"{self.path} has {space.lines} lines of {name!r}, got line {first}; try again")
        rows, space = rows_after(space, batch.records.values())
        _insert(db, sql["append"], rows)
        if batch.erases:
            space = space._replace(erased=space.lines)
            self.erase(lambda name, values: db.execute(sql[name], values), space, batch.erases)
        db.execute(sql["save_space"], (*space, space.check()))
        return space

    def _other_file(self) -> StoreError:
        return StoreError(
            f"{self.path} was changed, replaced or removed by another program while it was open; nothing "
            "more goes into it. Close the memory, restore the file, and open it again"
        )


def _insert(db: sqlite3.Connection, sql: str, rows: Sequence[Row]) -> None:
    """Append rows, many with one statement.

    Python releases the GIL at every step of a statement, and a busy thread returns it late. Row by row,
    a concurrent commit would take a millisecond a row. Sizes are powers of two, so that
    few statements are prepared.
    """
    row = sql[sql.rindex("(") :]
    start, size = 0, _TOGETHER
    while start < len(rows):
        while start + size > len(rows):
            size //= 2
        values = [value for each in rows[start : start + size] for value in each]
        db.execute(sql + f", {row}" * (size - 1), values)
        start += size


class SqliteStore(TableStore[SqliteTables, Tail]):
    """The `Store` protocol on SQLite: write-ahead log, full sync, one writing thread, group commit.

    One process writes at a time, under a lock file that dies with it. Any number of others may
    read meanwhile with ``readonly=True``. A store belongs to the process that opened it: after
    a fork the child opens its own. A file that is open for writing elsewhere raises StoreBusyError; one
    that is damaged, newer or no memory raises StoreCorruptError or StoreVersionError, and is untouched.
    """

    def __init__(self, path: str | os.PathLike[str], readonly: bool = False) -> None:
        self.path = Path(os.path.realpath(path))  # the lock is next to the file itself, whatever links to it
        self.readonly = readonly
        self._lock: LockFile | None = None
        self._writer: Writer | None = None
        if readonly:
            refuse_absent_or_older(self.path)
            super().__init__(_opened(self.path, None), partial(Tail, bell=SimpleQueue()))
            self._finalizer = weakref.finalize(self, self._tables.close)
        else:
            self._lock = LockFile(self.path)
            try:
                tables = _opened(self.path, check(self.path))
                self._writer = Writer(tables.commit, partial(_release, tables, self._lock))
                super().__init__(tables, self._writer.new_tail)
                self._finalizer = weakref.finalize(self, self._writer.stop)
                self._writer.start()
            except BaseException:  # also an interrupt: nobody would release them
                if self._writer is None or not self._writer.stop():
                    self._lock.release()
                raise
        tell_after_fork(self)

    def after_fork(self) -> SqliteTables:
        """In a forked child: the file, its lock and the writing thread are the parent's."""
        self._closed = True
        self._finalizer.detach()
        if self._lock is not None:
            self._lock.forget()
        return self._tables  # SQLite forbids a child to close its parent's connections


def _opened(path: Path, version: int | None) -> SqliteTables:
    """The tables of a file: to write, if they have this version, or with None to read."""
    try:
        with ExitStack() as opened:  # what is open by then is closed if the rest fails
            writer = None
            if version is not None:
                writer = opened.enter_context(closing(connect(path, "rw")))
                migrate(writer, version)
            tables = SqliteTables(path, opened.enter_context(closing(connect(path, "ro"))), writer)
            if writer is not None:
                with suppress(StoreError):  # a reader is there, or the disk is full: the mark stays
                    tables.finish_erasure()
            opened.pop_all()
        return tables
    except SQLITE_ERRORS as error:
        raise store_error(path, "open", error) from error


def _release(tables: SqliteTables, lock: LockFile) -> None:
    tables.close()
    lock.release()


def upgrade_file(path: Path) -> tuple[int, int]:
    """Open a file to write, which upgrades it; return its version before and after."""
    before = check(path)
    SqliteStore(path).close()
    return before, len(migrations())
