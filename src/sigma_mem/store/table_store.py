"""The half of a store that reads tables, whatever database they are in."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from sigma_mem.errors import InputError, StoreError
from sigma_mem.store.assembly import SourceLines
from sigma_mem.store.base import Record, Snapshot
from sigma_mem.store.batches import Batch, BatchQueue, Settled
from sigma_mem.store.chain import START, Link, Space, follow_all, refuse_other_end
from sigma_mem.store.ledger_tables import LedgerTables
from sigma_mem.store.rows import StoredRow, short_kind
from sigma_mem.store.writer import refuse_unwritable

_FIRST_PAGE = 8
PAGE = 512  # records fetched at a time: a long replay holds no lock between pages, and the log can be reused
T = TypeVar("T", bound=LedgerTables)


class TableStore(ABC, Generic[T]):
    """Reads of a ledger in tables; the chain is followed, so that what is missing or changed shows."""

    _finalizer: weakref.finalize[..., Any]  # releases what the store holds, once

    def __init__(self, tables: T) -> None:
        self._tables = tables
        self._closed = False
        self._places: dict[str, Link] = {}  # where chains were last known

    @abstractmethod
    def _queues(self, namespace: str | None = None) -> Sequence[BatchQueue]:
        """Where records may be queued, of a namespace or of all."""

    def flush(self) -> None:
        """Return once everything appended is durable; raise StoreError if it cannot be."""
        self._refuse_closed()
        for queue in self._queues():
            queue.flush()

    def when_settled(self, call: Settled) -> list[Batch]:
        """What is queued now; see `Store.when_settled`."""
        self._refuse_closed()
        found = [queue.when_settled(call) for queue in self._queues()]
        return [batch for batch in found if batch is not None]

    def _settle_queue(self, namespace: str | None = None) -> None:
        """Wait until everything queued, of a namespace, is durable or was dropped; StoreError if closed."""
        self._refuse_closed()
        for queue in self._queues(namespace):
            queue.drain()

    def close(self) -> None:
        """Flush and release, also when flushing fails; idempotent."""
        if self._closed:
            return
        try:
            self.flush()
        finally:
            self._closed = True
            self._finalizer()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError(f"the store {self._tables.name} is closed in this process; open it again")

    @abstractmethod
    def _last(self, namespace: str) -> int:
        """The number of the last durable record that may be one of the namespace."""

    def records(self, namespace: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Records of a namespace in order; see `Store.records`. Waits for what is queued."""
        self._settle_queue(namespace)
        return (self._tables.record(row) for row in self._lines(namespace, after, until))

    def _lines(self, namespace: str, after: int = 0, until: int | None = None) -> Iterator[StoredRow]:
        """Rows of a namespace in order; StoreCorruptError unless all of them are there.

        The chain is followed from its start, or from the place where it was last known, to its end.
        """
        number = self._tables.number(namespace)
        if number is None:
            return iter(())
        space = self._tables.space(number)  # as of now: what is appended meanwhile is not read
        pages = self._chained(space, after, space.last if until is None else min(until, space.last))
        return (row for page in pages for row in page)

    def _chained(self, space: Space, after: int, until: int) -> Iterator[list[StoredRow]]:
        tables, what = self._tables, f"{self._tables.name}: the ledger of {space.name!r}"
        at, chained = self._places.get(space.name, START), True
        if after == 0:
            at = START
        elif at.seq != after:
            before = tables.read("line_before", space.number, after)
            at, chained = Link(tables.row(before[0]).line if before else 0, b"", after), False
        for rows in self._pages("page", space.number, after=after, until=until):
            at = follow_all(rows, at, what)
            yield rows
        if until == space.last:
            refuse_other_end(at, space, what, chained)
            if chained:
                self._places[space.name] = at._replace(seq=max(at.seq, after))
        else:
            later = tables.read("line_after", space.number, until)
            if at.lines + 1 != (tables.row(later[0]).line if later else space.lines + 1):
                raise tables.damaged(f"line {at.lines + 1} of {space.name!r} is missing")

    def _rows(self, query: str, *where: int, after: int = 0, until: int) -> Iterator[StoredRow]:
        return (row for page in self._pages(query, *where, after=after, until=until) for row in page)

    def _pages(self, query: str, *where: int, after: int = 0, until: int) -> Iterator[list[StoredRow]]:
        """The same, page by page; the first ones are small, since many callers want a few rows only."""
        row, now = self._tables.row, _FIRST_PAGE
        while page := self._tables.read(query, *where, after, until, now):
            yield [row(values) for values in page]
            if len(page) < now:
                return
            after, now = page[-1][0], min(PAGE, 8 * now)

    def of_source(self, namespace: str, source: str, until: int | None = None) -> Iterator[Record]:
        """Feedback of a source, in order; see `Store.of_source`. Waits for what is queued."""
        refuse_unwritable(namespace, source)
        self._settle_queue(namespace)
        number = self._tables.number(namespace)
        found = [] if number is None else [x for x in self._tables.sources(number) if x.name == source]
        last = self._last(namespace)
        end = last if until is None else until
        rows = (row for line in found for row in self._rows_of_source(line, last))
        return (self._tables.record(row) for row in rows if row.seq <= end)

    def _rows_of_source(self, line: SourceLines, last: int) -> Iterator[StoredRow]:
        """All rows of a source; StoreCorruptError unless the index leads to each of them once.

        Also to those after the ones that are wanted: an entry that was damaged may stand among them.
        """
        found, before = 0, 0
        for row in self._rows("page_of_source", line.number, until=last):
            if row.source != line.number or row.seq <= before:
                break
            found, before = found + 1, row.seq
            yield row
        if found < line.lines:
            raise self._tables.damaged(f"feedback of source {line.name!r} is missing in an index")

    def sources(self, namespace: str) -> dict[str, int]:
        """Every source that gave feedback, sorted, and how many records. Waits for what is queued."""
        self._settle_queue(namespace)
        number = self._tables.number(namespace)
        found = [] if number is None else self._tables.sources(number)
        return dict(sorted((line.name, line.lines) for line in found))

    def _place(self, namespace: str, seq: int) -> Link:
        """Where the chain of a namespace was after a record: in the last commit or at its end, most often."""
        number = self._tables.number(namespace)
        if number is None or seq == 0:
            return START
        at = self._tables.last_places.get((namespace, seq))
        if at is None:
            space = self._tables.space(number)
            if not self._tables.read("line_after", number, seq):
                at = Link(space.lines, space.head, seq)
            else:
                at = self._followed(number, self._places.get(namespace, START), seq)
        self._places[namespace] = at
        return at

    def _followed(self, number: int, at: Link, seq: int) -> Link:
        """The place of a chain after a record, from an earlier one on where that is known."""
        if at.seq > seq:
            at = START
        for rows in self._pages("page", number, after=at.seq, until=seq):
            at = follow_all(rows, at, self._tables.name)
        return at

    def _snapshot_row(self, namespace: str, snapshot: Snapshot, durable: int) -> tuple[Any, ...]:
        """The row of a snapshot of a ledger that has so many durable records."""
        if not 0 <= snapshot.seq <= durable:
            raise InputError(f"got a snapshot of record {snapshot.seq}, the ledger ends at {durable}")
        place = self._place(namespace, snapshot.seq)
        crc = place.check_of_snapshot(namespace, snapshot.seq, snapshot.body)
        return namespace, snapshot.seq, place.lines, place.head, crc, snapshot.body

    def load_snapshot(self, namespace: str) -> Snapshot | None:
        """The last snapshot; None where there is none, it is damaged, or the ledger ends before it."""
        self._refuse_closed()
        refuse_unwritable(namespace)
        found = self._tables.read("load_snapshot", namespace)
        if not found or not isinstance(found[0][4], bytes):
            return None
        seq, lines, head, crc, body = found[0]
        place = Link(lines, head, seq)
        if crc != place.check_of_snapshot(namespace, seq, body) or seq > self._last(namespace):
            return None
        self._places[namespace] = place
        return Snapshot(seq, body)

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The record of this kind and id, if any, queued or durable."""
        self._refuse_closed()
        refuse_unwritable(namespace, kind, id)
        for queue in self._queues(namespace):
            if (queued := queue.find(namespace, kind, id)) is not None:
                return queued
        number = self._tables.number(namespace)
        rows = [] if number is None else self._tables.read("find", number, short_kind(kind), id)
        return self._tables.record(self._tables.row(rows[0])) if rows else None

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """All records of an event, queued or durable, in order."""
        self._refuse_closed()
        refuse_unwritable(namespace, event)
        queued = [r for queue in self._queues(namespace) for r in queue.of_event(namespace, event)]
        # The tables are read second: a record that became durable in between is seen twice, never missed.
        number = self._tables.number(namespace)
        if number is None or not event:
            return queued
        rows = [self._tables.row(values) for values in self._tables.read("of_event", number, event)]
        durable = {row.seq: self._tables.record(row) for row in rows}
        return [*durable.values(), *(r for r in queued if r.seq not in durable)]

    def verify(self) -> int:
        """Check every line, chain and count, and what the database says of itself; return how many lines."""
        self._settle_queue()
        self._tables.refuse_damaged()
        total = 0
        for space in self._tables.spaces():
            of_source: Counter[int | None] = Counter()
            for rows in self._chained(space, 0, space.last):
                of_source.update(self._checked(row).source for row in rows)
            for line in self._tables.sources(space.number):
                if (found := of_source[line.number]) < line.lines:
                    raise self._tables.damaged(f"source {line.name!r} has {found} of {line.lines} lines")
            total += space.lines
        return total

    def _checked(self, row: StoredRow) -> StoredRow:
        """A row whose body can be unpacked."""
        row.record()
        return row

    def namespaces(self) -> list[str]:
        """Names that have at least one record, sorted. Waits for what is queued."""
        self._settle_queue()
        return sorted(space.name for space in self._tables.spaces())
