"""A turn: the time in which one process, and no other, may append to a namespace."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sigma_mem.errors import StoreError, StoreUnavailableError
from sigma_mem.store.assembly import Assembly, Books
from sigma_mem.store.chain import Space
from sigma_mem.store.postgres.migration import advisory_key
from sigma_mem.store.postgres.tables import PostgresTables, as_bytes
from sigma_mem.store.rows import Queued, StoredRow, checksum

_ROWS = 4096  # of one statement


class NamespaceTurn:
    """The advisory lock of a namespace, held by one connection, which also writes: it cannot outlive it.

    ``books`` are the namespace and its sources as the ledger has them.
    """

    def __init__(self, tables: PostgresTables, namespace: str, known: Books) -> None:
        self._tables, self._namespace = tables, namespace
        self._key = advisory_key(tables.schema, f"namespace {namespace}")
        self.books = known
        self._db: Any = None
        self._begin()

    @property
    def space(self) -> Space | None:
        """The namespace as the ledger has it; None before its first line."""
        return self.books.spaces.get(self._namespace)

    @property
    def lines(self) -> int:
        """How many lines the namespace has."""
        return 0 if self.space is None else self.space.lines

    def commit(self, records: Sequence[Queued]) -> None:
        """Append records as one transaction: all of them, or none and StoreError.

        Where the connection breaks, the ledger is asked whether they are there, and they are written again
        if they are not and nobody else wrote meanwhile.
        """
        tables = self._tables
        made = Assembly(
            self.books,
            tables._erased,
            lambda _: self._next("next_space"),
            lambda _: self._next("next_source"),
        )
        try:
            made.add(records)
        except (MemoryError, ValueError) as error:
            raise StoreError(
                f"could not append {len(records)} record(s) to {tables.name}: {error}"
            ) from error
        try:
            self._write(records, made)
        except StoreUnavailableError:
            before = self.lines
            self._begin()
            if not self._holds(made.rows[-1]):
                if self.lines != before:
                    raise StoreError(
                        f"the connection to {tables.name} was lost, and others wrote to {self._namespace!r} "
                        f"meanwhile; {len(records)} record(s) were not written. Try again"
                    ) from None
                self._write(records, made)
        self.books.spaces.update({name: s._replace(last=s.lines) for name, s in made.changed.spaces.items()})
        self.books.sources.update(made.changed.sources)

    def end(self) -> None:
        """Let others write."""
        db, self._db = self._db, None
        if db is None:
            return
        writers = self._tables.writers
        try:
            db.execute(self._tables.statement("unlock"), [self._key])
        except writers.driver.Error:
            writers.drop(db)  # the server lets go of the lock when the connection is gone
        else:
            writers.give_back(db)

    def _begin(self) -> None:
        self._tables.writers.patiently(self._begin_once)

    def _begin_once(self) -> None:
        tables, writers = self._tables, self._tables.writers
        self._drop()
        self._db = writers.take("write to")
        try:
            # Two statements in one message: the second sees what was committed before the lock was free.
            found = self._db.execute(
                f"SELECT pg_advisory_lock({self._key}); "
                + tables.statement("space_named").replace("%s", f"'\\x{self._namespace.encode().hex()}'")
            )
            found.nextset()
            rows = found.fetchall()
        except writers.driver.Error as error:
            self._drop()
            raise writers.translated("write to", error) from None
        except BaseException:
            self._drop()
            raise
        try:
            self.books = tables.books(self._namespace, rows, self.books)
        except BaseException:
            self._drop()
            raise

    def _write(self, records: Sequence[Queued], made: Assembly) -> None:
        writers, space = self._tables.writers, made.changed.spaces[self._namespace]
        sources = [(*line, checksum(*line)) for line in made.changed.sources.values()]
        books = [*_columns(sources, 5), *space[:5], space.check()]
        marks = [(self._namespace, queued.record.seq) for queued in records if queued.erases]
        try:
            if not marks and len(made.rows) <= _ROWS:
                self._execute("append", [*_columns(made.rows, 8), *books])  # a transaction of its own
                return
            with self._db.transaction():
                for first in range(0, len(made.rows), _ROWS):
                    self._execute("append", [*_columns(made.rows[first : first + _ROWS], 8), *books])
                for row in made.erasures:
                    self._execute("erase", (row.body, row.digest, row.namespace, row.line))
                for mark in marks:
                    self._execute("mark_erasure", mark)
                if marks:
                    self._execute("drop_snapshot", [self._namespace])
        except writers.driver.Error as error:
            self._drop()  # and with it whatever the transaction did
            raise writers.translated(f"append {len(made.rows)} record(s) to", error) from None

    def _next(self, statement: str) -> int:
        """A number that no other namespace or source has."""
        writers = self._tables.writers
        try:
            return int(self._db.execute(self._tables.statement(statement)).fetchone()[0])
        except writers.driver.Error as error:
            self._drop()
            raise writers.translated("write to", error) from None

    def _execute(self, statement: str, values: Sequence[Any]) -> None:
        self._db.execute(self._tables.statement(statement), as_bytes(values), prepare=True, binary=True)

    def _holds(self, row: StoredRow) -> bool:
        """Whether the ledger has this row: digests are salted, so no other line has its digest."""
        found = self._tables.read("at", row.namespace, row.line)
        return bool(found) and self._tables.row(found[0]).digest == row.digest

    def _drop(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(StoreError):
                self._tables.writers.drop(db)


def _columns(rows: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
    """Rows as the arrays that one statement takes."""
    columns = [as_bytes(column) for column in zip(*rows, strict=True)] or [[] for _ in range(count)]
    return columns[-count:]  # a record's first value is its line's number again
