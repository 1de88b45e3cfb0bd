"""The tables of a ledger, whatever database they are in: what rows say, each checked before it is used."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from sigma_mem.errors import StoreCorruptError, StoreError
from sigma_mem.store.assembly import SourceLines
from sigma_mem.store.base import Record
from sigma_mem.store.chain import Link, Space
from sigma_mem.store.rows import StoredRow, checksum, short_kind, whole_row


class LedgerTables(ABC):
    """Named queries over records, namespaces, sources and snapshots.

    Every row carries a digest or a CRC32 that is checked before anything is decoded, so damage is found where
    it is read, and the error names the record.

    Parameters
    ----------
    name : str
        What errors call it.
    sql : Mapping[str, str]
        The queries.
    """

    def __init__(self, name: str, sql: Mapping[str, str]) -> None:
        self.name, self._sql = name, sql
        self._numbers: dict[str, int] = {}  # of namespaces
        self._source_names: dict[int, str] = {}
        self.last_places: Mapping[tuple[str, int], Link] = {}  # of chains, after each line of the last commit

    @abstractmethod
    def read(self, query: str, *values: str | int) -> list[Any]:
        """All rows of a named query; texts are bytes, to be checked before decoding."""

    @abstractmethod
    def refuse_damaged(self) -> None:
        """StoreCorruptError for damage that the database itself finds."""

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
        rows = self.read("sources", number)
        found: list[SourceLines] = []
        for source, namespace, name, lines, crc, _ in rows:
            if source is not None:
                line = SourceLines(source, namespace, bytes(name or b"").decode(errors="replace"), lines)
                if crc != checksum(*line) or namespace != number or (found and source <= found[-1].number):
                    raise self.damaged(f"source {source} is damaged")
                found.append(line)
        if not rows or sum(line.lines for line in found) != rows[0][-1]:
            raise self.damaged(f"a source of namespace {number} is missing")
        return found

    # --- records ---------------------------------------------------------------------------

    def exists(self, namespace: str, kind: str, id: str) -> bool:
        """Whether an index knows the record."""
        number = self.number(namespace)
        return number is not None and bool(self.read("exists", number, short_kind(kind), id))

    def row(self, values: Sequence[Any]) -> StoredRow:
        """A row whose digest holds; StoreCorruptError for any other."""
        row = whole_row(values)
        if row is None:
            raise self.damaged(f"record {values[0]} is damaged (its digest does not match)")
        return row

    def record(self, row: StoredRow) -> Record:
        """The record in a row that is whole."""
        record = row.record()
        if row.source is None:
            return record
        return record._replace(source=self._source_name(row.namespace, row.source))

    def _source_name(self, namespace: int, source: int) -> str:
        if source not in self._source_names:
            self._source_names |= {line.number: line.name for line in self.sources(namespace)}
        if source not in self._source_names:
            raise self.damaged(f"source {source} is missing")
        return self._source_names[source]

    def damaged(self, what: str) -> StoreCorruptError:
        """The error that says what is damaged."""
        return StoreCorruptError(f"{self.name}: {what}; restore it from a backup")

    def _key(self, namespace: int, seq: int) -> tuple[int, ...]:
        """What the query of one record takes: its number, where it is one of the whole ledger."""
        return (seq,)

    def _erased(self, seq: int, body: bytes, namespace: int) -> StoredRow:
        """The row of a line with another body."""
        found = self.read("at", *self._key(namespace, seq))
        row = self.row(found[0]) if found else None
        if row is None or row.namespace != namespace or row.line == 1:
            raise StoreError(f"got record {seq} to erase; expected a line of the namespace after its first")
        return row.erased(body)
