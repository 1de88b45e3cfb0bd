"""The tables of a memory file: records, namespaces, sources and snapshots, read and written."""

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sigma_mem.errors import StoreBusyError, StoreError
from sigma_mem.store.assembly import Assembly, Books
from sigma_mem.store.chain import Space
from sigma_mem.store.database import (
    SQLITE_ERRORS,
    check,
    connect,
    keep_older,
    migrate,
    queries,
    refuse_absent_or_older,
    store_error,
)
from sigma_mem.store.ledger_tables import LedgerTables
from sigma_mem.store.rows import Queued, checksum

Values = tuple[str | int | bytes | None, ...]
_TOGETHER = 64  # rows that one statement appends


class Tables(LedgerTables):
    """Two connections to one file, one to write and one to read, each with a lock.

    The writing thread refers to these and not to the store, so that a store that was never closed can be
    collected.
    """

    def __init__(self, path: Path, reader: sqlite3.Connection, writer: sqlite3.Connection | None) -> None:
        super().__init__(str(path), queries())
        self.path, self._reader, self._writer = path, reader, writer
        self._read_lock, self._write_lock = threading.Lock(), threading.Lock()
        self._known: Books | None = None  # as the last commit left them
        self._replaced = False  # whether the file is no longer the one that was opened

    # --- write ---------------------------------------------------------------------------

    def commit(self, records: Sequence[Queued]) -> None:
        """Write records as one transaction: all of them, or none and StoreError."""
        known = self._load_books()
        made = Assembly(known, self._erased, known.next_space_number, known.next_source_number)
        try:
            made.add(records)
        except (MemoryError, ValueError) as error:
            raise StoreError(f"could not append {len(records)} record(s) to {self.path}: {error}") from error
        forgetful = dict.fromkeys(queued.namespace for queued in records if queued.erases)
        marks = [(queued.record.seq,) for queued in records if queued.erases]
        spaces, sources = made.changed.spaces, made.changed.sources
        self._known = None  # until it is known to be written
        self.write(
            [(space.number, known.spaces.get(name)) for name, space in spaces.items()],
            f"append {len(made.rows)} record(s) to",
            ("append", made.rows),
            ("save_space", [(*space[:5], space.check()) for space in spaces.values()]),
            ("save_source", [(*line, checksum(*line)) for line in sources.values()]),
            ("erase", [(row.body, row.digest, row.seq) for row in made.erasures]),
            ("drop_snapshot", [(name,) for name in forgetful]),
            ("mark_erasure", marks),
        )
        known.spaces.update(spaces)
        known.sources.update(sources)
        self._known, self.last_places = known, made.places
        self._numbers |= {space.name: space.number for space in spaces.values()}

    def _load_books(self) -> Books:
        """Namespaces and sources as the last commit left them."""
        if self._known is None:
            spaces = {space.name: space for space in self.spaces()}
            found = [line for space in spaces.values() for line in self.sources(space.number)]
            self._known = Books(spaces, {(line.namespace, line.name): line for line in found})
        return self._known

    def write(
        self,
        expected: Sequence[tuple[int, Space | None]],
        doing: str,
        *statements: tuple[str, Sequence[Values]],
    ) -> None:
        """Execute named statements, each for every row, in one transaction.

        Namespaces must be as `expected`, by number: None for one that is not there yet.
        """
        db = self._writer
        if db is None:
            raise ValueError("these tables were opened to read")
        with self._write_lock:
            try:
                if db.in_transaction:  # an interrupt came between the steps of a write
                    db.execute("ROLLBACK")
                db.execute("BEGIN IMMEDIATE")
                self._replaced = self._replaced or self._has_other_heads(db, expected)
                if self._replaced:
                    raise StoreError(
                        f"{self.path} was changed or replaced by another program while it was open; nothing "
                        "more goes into it. Close the memory, restore the file, and open it again"
                    )
                for statement, rows in statements:
                    if statement == "append":
                        self._append(db, rows)
                    elif rows:
                        db.executemany(self._sql[statement], rows)
                db.execute("COMMIT")
            except StoreError:
                db.execute("ROLLBACK")
                raise
            except (*SQLITE_ERRORS, MemoryError, OverflowError, ValueError) as error:  # the writer goes on
                if db.in_transaction:  # SQLite has undone some failed transactions by itself
                    db.execute("ROLLBACK")
                raise store_error(self.path, doing, error) from error

    def _has_other_heads(self, db: sqlite3.Connection, expected: Sequence[tuple[int, Space | None]]) -> bool:
        """Whether another program has written to the file, or copied another one over it."""
        if expected:
            db.execute("PRAGMA shrink_memory")  # what SQLite remembers of the file may no longer be there
        return any(
            db.execute(self._sql["head"], (number,)).fetchone()
            != (None if space is None else (space.lines, space.head))
            for number, space in expected
        )

    def _append(self, db: sqlite3.Connection, rows: Sequence[Values]) -> None:
        """Append rows, many with one statement.

        Python gives its lock up for every step of a statement, and a busy thread gives it back late: one row
        after the other, a commit beside it would take a millisecond a row. Sizes are powers of two, so that
        few statements are prepared.
        """
        sql = self._sql["append"]
        row = sql[sql.rindex("(") :]
        start, size = 0, _TOGETHER
        while start < len(rows):
            while start + size > len(rows):
                size //= 2
            values = [value for each in rows[start : start + size] for value in each]
            db.execute(sql + f", {row}" * (size - 1), values)
            start += size

    def finish_erasure(self) -> None:
        """Write the file anew if bytes of forgotten lines may be left in it or in its log.

        A kill at any moment leaves the mark, and the next writer finishes.
        """
        db = self._writer
        if db is None or not self.read("erasures"):
            return
        with self._write_lock:
            usual = db.execute("PRAGMA secure_delete").fetchone()[0]
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
                db.execute(f"PRAGMA secure_delete = {usual:d}")

    def refuse_damaged(self) -> None:
        """StoreCorruptError where SQLite finds its own pages or indexes damaged."""
        found = self.read("integrity_check")[0][0]
        if found != b"ok":
            raise self.damaged(f"SQLite says {found.decode(errors='replace')!r}")

    # --- read ----------------------------------------------------------------------------

    def last(self) -> int:
        """Sequence number of the last durable record, 0 before the first."""
        return int(self.read("last")[0][0])

    def read(self, query: str, *values: str | int) -> list[Any]:
        """All rows of a named query."""
        with self._read_lock:
            cursor = None
            try:
                cursor = self._reader.execute(self._sql[query], values)
                return cursor.fetchall()
            except SQLITE_ERRORS as error:
                raise store_error(self.path, "read", error) from error
            finally:  # an open one would keep the connection at what it saw
                if cursor is not None:
                    cursor.close()

    def close(self) -> None:
        """Close the reader, then the writer, which moves the log into the file."""
        with self._read_lock, self._write_lock:
            self._reader.close()
            if self._writer is not None:
                self._writer.close()


def open_to_write(path: Path) -> Tables:
    """Check the file before anything is written, create or migrate it, and open its tables."""
    version = check(path)
    keep_older(path, version)
    try:
        writer = connect(path, "rw")
        try:
            migrate(writer, version)
            tables = Tables(path, connect(path, "ro"), writer)
            with suppress(StoreError):  # a reader is there, or the disk is full: the mark stays
                tables.finish_erasure()
            return tables
        except BaseException:
            writer.close()
            raise
    except SQLITE_ERRORS as error:
        raise store_error(path, "open", error) from error


def open_to_read(path: Path) -> Tables:
    """Open the tables of an existing memory that needs no migration."""
    refuse_absent_or_older(path)
    try:
        return Tables(path, connect(path, "ro"), None)
    except SQLITE_ERRORS as error:
        raise store_error(path, "open", error) from error
