"""The tables of a memory in PostgreSQL: read through a few connections, written during turns."""

from collections.abc import Sequence
from typing import Any

from sigma_mem.store.assembly import Books
from sigma_mem.store.chain import Space
from sigma_mem.store.ledger_tables import LedgerTables
from sigma_mem.store.postgres.connections import Connections
from sigma_mem.store.postgres.migration import postgres_queries

READERS = 4  # connections at most
WRITERS = 8


class PostgresTables(LedgerTables):
    """Named queries; texts are bytes in the tables, and lines have numbers of their namespace."""

    def __init__(self, readers: Connections, writers: Connections) -> None:
        super().__init__(str(readers.address), postgres_queries())
        self.readers, self.writers = readers, writers

    @property
    def schema(self) -> str:
        """Where the tables are."""
        return self.readers.address.schema

    def read(self, query: str, *values: str | int) -> list[Any]:
        """All rows of a named query; waits some seconds for a database that went away."""
        given = values * 2 if query == "of_event" else values  # it asks two questions
        return self.readers.patiently(lambda: self._read_once(query, given))

    def _read_once(self, query: str, values: Sequence[str | int]) -> list[Any]:
        with self.readers.borrow("read") as db:
            found: list[Any] = db.execute(self._sql[query], as_bytes(values), binary=True).fetchall()
            return found

    def statement(self, name: str) -> str:
        """A named statement."""
        return self._sql[name]

    def number(self, namespace: str) -> int | None:
        """The number of a namespace; None where it has no lines."""
        if namespace not in self._numbers:
            found = self.read("space_named", namespace)
            if not found:
                return None
            self._numbers[namespace] = self._space(found[0]).number
        return self._numbers[namespace]

    def spaces(self) -> list[Space]:
        """Every namespace."""
        return [self._space(row) for row in self.read("spaces")]

    def space_named(self, namespace: str) -> Space | None:
        """A namespace as it is now; None where it has no lines."""
        found = self.read("space_named", namespace)
        return self._space(found[0]) if found else None

    def lines(self, namespace: str) -> int:
        """How many lines a namespace has now."""
        space = self.space_named(namespace)
        return 0 if space is None else space.lines

    def books(self, namespace: str, rows: Sequence[Any], known: Books) -> Books:
        """What a namespace's row says, and its sources: read again where others wrote meanwhile."""
        if not rows:
            return Books()
        space = self._space(rows[0])
        if known.spaces.get(namespace) == space:
            return known
        sources = self.sources(space.number)
        return Books({namespace: space}, {(line.namespace, line.name): line for line in sources})

    def refuse_damaged(self) -> None:
        """StoreCorruptError for lines of no namespace; PostgreSQL checks its own pages and indexes."""
        if self.read("strays")[0][0]:
            raise self.damaged("there are lines of a namespace that is missing")

    def _key(self, namespace: int, seq: int) -> tuple[int, ...]:
        return namespace, seq

    def close(self) -> None:
        """Close all connections."""
        self.readers.close()
        self.writers.close()


def as_bytes(values: Sequence[Any]) -> list[Any]:
    """Values as the tables take them: every text is bytes."""
    return [value.encode() if isinstance(value, str) else value for value in values]
