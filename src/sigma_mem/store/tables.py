"""The tables of a memory file: records, namespaces, sources and snapshots, read and written."""

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sigma_mem.errors import StoreBusyError, StoreCorruptError, StoreError
from sigma_mem.store.base import Record
from sigma_mem.store.chain import START, Link, Space
from sigma_mem.store.database import (
    SQLITE_ERRORS,
    OpenFiles,
    check,
    connect,
    migrate,
    queries,
    refuse_absent_or_older,
    store_error,
)
from sigma_mem.store.prints import SEGMENT, sealed
from sigma_mem.store.rows import Packing, Queued, StoredRow, checksum, short_kind
from sigma_mem.store.upgrade import copy_lines

Values = tuple[str | int | bytes | None, ...]


class SourceLines(NamedTuple):
    """How many lines a source has."""

    number: int
    namespace: int
    name: str
    lines: int


@dataclass(slots=True)
class _Books:
    """Namespaces by name, and sources by namespace and name."""

    spaces: dict[str, Space]
    sources: dict[tuple[int, str], SourceLines]


class Tables:
    """Two connections to one file, one to write and one to read, each with a lock.

    The writing thread refers to these and not to the store, so that a store that was never closed can be
    collected. Every row carries a digest or a CRC32 that is checked before anything is decoded, so damage is
    found where it is read, and the error names the record.
    """

    def __init__(self, path: Path, reader: sqlite3.Connection, writer: sqlite3.Connection | None) -> None:
        self.path, self._reader, self._writer, self._sql = path, reader, writer, queries()
        self._read_lock, self._write_lock = threading.Lock(), threading.Lock()
        self.files = OpenFiles(path)
        self._numbers: dict[str, int] = {}  # of namespaces
        self._packings: dict[int, Packing] = {0: Packing()}  # 0 packs first lines
        self._known: _Books | None = None  # as the last commit left them

    # --- namespaces and sources ----------------------------------------------------------

    def number(self, namespace: str) -> int | None:
        """The number of a namespace; None where it has no lines."""
        if namespace not in self._numbers:
            self._numbers = {space.name: space.number for space in self.spaces()}
        return self._numbers.get(namespace)

    def spaces(self) -> list[Space]:
        """Every namespace; StoreCorruptError where one is missing."""
        rows = self.read("spaces")
        found = [self._space(row) for row in rows if row[0] is not None]
        numbers, lines, last = [s.number for s in found], sum(s.lines for s in found), rows[0][-1]
        if numbers != list(range(1, len(found) + 1)) or lines != last:
            raise self.damaged(f"it has {len(found)} namespaces with {lines} lines, and {last} records")
        return found

    def space(self, number: int) -> Space:
        """A namespace as it is now."""
        found = self.read("space", number)
        if not found:
            raise self.damaged(f"namespace {number} is missing")
        return self._space(found[0])

    def _space(self, row: Sequence[Any]) -> Space:
        number, name, lines, sourced, head, crc, last = row
        if isinstance(name, bytes) and isinstance(head, bytes):
            space = Space(number, name.decode(errors="replace"), lines, sourced, head, last)
            if crc == space.check():
                return space
        raise self.damaged(f"namespace {number} is damaged")

    def sources(self, number: int) -> list[SourceLines]:
        """Every source of a namespace; StoreCorruptError where one is missing."""
        rows, found = self.read("sources", number), []
        for source, namespace, name, lines, crc, _ in rows:
            if source is not None:
                line = SourceLines(source, namespace, bytes(name or b"").decode(errors="replace"), lines)
                if crc != checksum(*line):
                    raise self.damaged(f"source {source} is damaged")
                found.append(line)
        if not rows or sum(line.lines for line in found) != rows[0][-1]:
            raise self.damaged(f"a source of namespace {number} is missing")
        return found

    # --- write ---------------------------------------------------------------------------

    def commit(self, records: Sequence[Queued]) -> None:
        """Write records as one transaction: all of them, or none and StoreError."""
        self._load_books()
        spaces: dict[str, Space] = {}  # as they will be
        sources: dict[tuple[int, str], SourceLines] = {}
        packings: dict[int, Packing] = {}
        rows, erased = [], []
        try:
            for queued in records:
                space = self._open_space(queued.namespace, spaces)
                source = self._next_source(queued.record, space.number, sources)
                packing = packings.get(space.number) or self._packing(space.number, space.lines)
                row = packing.row(queued, space.number, space.lines + 1, source)
                if space.lines == 0:
                    packings[space.number] = Packing(queued.body)
                link = Link(space.lines, space.head, 0).follow(row)
                sourced = space.sourced + (source is not None)
                spaces[queued.namespace] = space._replace(lines=link.lines, sourced=sourced, head=link.head)
                rows.append(row)
                erased += [self._erased(seq, body, space.number) for seq, body in queued.erases.items()]
        except (MemoryError, ValueError) as error:
            raise StoreError(f"could not append {len(records)} record(s) to {self.path}: {error}") from error
        forgetful = dict.fromkeys(queued.namespace for queued in records if queued.erases)
        marks = [(queued.record.seq,) for queued in records if queued.erases]
        known, self._known = self._known, None  # until it is known to be written
        self.write(
            f"append {len(rows)} record(s) to",
            ("append", rows),
            ("save_space", [(*space[:5], space.check()) for space in spaces.values()]),
            ("save_source", [(*line, checksum(*line)) for line in sources.values()]),
            ("erase", [(row.body, row.phi, row.digest, row.seq) for row in erased]),
            ("drop_snapshot", [(name,) for name in forgetful]),
            ("mark_erasure", marks),
            seal=(rows[0].seq, rows[-1].seq),
        )
        self._packings |= packings
        if known is not None:
            known.spaces.update(spaces)
            known.sources.update(sources)
            self._known = known
        self._numbers |= {space.name: space.number for space in spaces.values()}

    def _load_books(self) -> _Books:
        """Namespaces and sources as the last commit left them."""
        if self._known is None:
            spaces = {space.name: space for space in self.spaces()}
            found = [line for space in spaces.values() for line in self.sources(space.number)]
            self._known = _Books(spaces, {(line.namespace, line.name): line for line in found})
        return self._known

    def _open_space(self, name: str, changed: dict[str, Space]) -> Space:
        known = self._load_books().spaces
        space = changed.get(name) or known.get(name)
        if space is None:
            number = len(known) + sum(other not in known for other in changed) + 1
            space = Space(number, name, 0, 0, START.head, 0)
        return space

    def _next_source(
        self, record: Record, namespace: int, changed: dict[tuple[int, str], SourceLines]
    ) -> int | None:
        """Count one line more of a feedback's source; return its number."""
        name = record.body.get("source") if record.kind == "feedback" else None
        if not isinstance(name, str):
            return None
        known, key = self._load_books().sources, (namespace, name)
        line = changed.get(key) or known.get(key)
        if line is None:
            number = len(known) + sum(other not in known for other in changed) + 1
            line = SourceLines(number, namespace, name, 0)
        changed[key] = line._replace(lines=line.lines + 1)
        return line.number

    def _erased(self, seq: int, body: bytes, namespace: int) -> StoredRow:
        """The row of a line with another body."""
        found = self.read("at", seq)
        row = self.row(found[0]) if found else None
        if row is None or row.namespace != namespace or row.line == 1:
            raise StoreError(f"got record {seq} to erase; expected a line of the namespace after its first")
        return self._packing(row.namespace, row.line - 1).erased(row, body)

    def write(
        self, doing: str, *statements: tuple[str, Sequence[Values]], seal: tuple[int, int] | None = None
    ) -> None:
        """Execute named statements, each for every row, in one transaction; seal segments that are full."""
        db = self._writer
        if db is None:
            raise ValueError("these tables were opened to read")
        with self._write_lock:
            self.files.refuse_moved()
            try:
                if db.in_transaction:  # an interrupt came between the steps of a write
                    db.execute("ROLLBACK")
                db.execute("BEGIN IMMEDIATE")
                for statement, rows in statements:
                    db.executemany(self._sql[statement], rows)
                if seal is not None:
                    self.seal(db, *seal)
                db.execute("COMMIT")
                self.files.remember_log()
                self.files.refuse_moved()
            except SQLITE_ERRORS as error:
                if db.in_transaction:  # SQLite has undone some failed transactions by itself
                    db.execute("ROLLBACK")
                raise store_error(self.path, doing, error) from error

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

    def seal(self, db: sqlite3.Connection, first: int, last: int) -> None:
        """Write the segments that records ``first`` to ``last`` have filled."""
        for number in range((first - 1) // SEGMENT + 1, last // SEGMENT + 1):
            names = db.execute(self._sql["names"], ((number - 1) * SEGMENT, SEGMENT)).fetchall()
            db.execute(self._sql["save_segment"], sealed(number, names))

    # --- read ----------------------------------------------------------------------------

    def last(self) -> int:
        """Sequence number of the last durable record, 0 before the first."""
        return int(self.read("last")[0][0])

    def exists(self, namespace: str, kind: str, id: str) -> bool:
        """Whether an index knows the record."""
        number = self.number(namespace)
        return number is not None and bool(self.read("exists", number, short_kind(kind), id))

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

    def row(self, values: Sequence[Any]) -> StoredRow:
        """A row whose digest holds; StoreCorruptError for any other."""
        seq, namespace, line, kind, id, event, source, body, phi, digest = values
        blobs = (kind, id, b"" if event is None else event, body, phi, digest)
        if all(isinstance(part, bytes) for part in blobs):
            texts = (kind.decode(errors="replace"), id.decode(errors="replace"))
            about = None if event is None else event.decode(errors="replace")
            row = StoredRow(seq, namespace, line, *texts, about, source, body, phi, digest)
            if row.is_whole():
                return row
        raise self.damaged(f"record {seq} is damaged (its digest does not match)")

    def record(self, row: StoredRow) -> Record:
        """The record in a row that is whole."""
        return self._packing(row.namespace, row.line - 1).record(row)

    def _packing(self, number: int, lines: int) -> Packing:
        """What packs the lines of a namespace after so many: its first line's body has the words."""
        if lines == 0:
            return self._packings[0]
        if number not in self._packings:
            found = self.read("page", number, 0, 1 << 62, 1)
            if not found or (row := self.row(found[0])).line != 1:
                raise self.damaged(f"the first line of namespace {number} is missing")
            self._packings[number] = Packing(self._packings[0].json(row))
        return self._packings[number]

    def damaged(self, what: str) -> StoreCorruptError:
        """The error that says what is damaged."""
        return StoreCorruptError(f"{self.path}: {what}; restore the file from a backup")

    def close(self) -> None:
        """Close the reader, then the writer, which moves the log into the file."""
        with self._read_lock, self._write_lock:
            self._reader.close()
            if self._writer is not None:
                self._writer.close()


def open_to_write(path: Path) -> Tables:
    """Check the file before anything is written, create or migrate it, and open its tables."""
    version = check(path)
    try:
        writer = connect(path, "rw")
        try:
            migrate(writer, version, copy_lines)
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
