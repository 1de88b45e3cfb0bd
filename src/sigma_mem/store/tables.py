"""A ledger in the tables of a database: what SQLite and PostgreSQL have in common."""

from __future__ import annotations

import re
import threading
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from operator import itemgetter
from typing import Any, Generic, TypeVar

from sigma_mem.errors import StoreCorruptError, StoreEmptyError, StoreError, StoreVersionError
from sigma_mem.store.base import (
    Erased,
    Failed,
    Record,
    Snapshot,
    Store,
    Ticket,
    refuse_absent_line,
    refuse_bad_records,
    refuse_older_state,
    refuse_unwritable,
)
from sigma_mem.store.rows import DIGEST, START, Space, erased_row, is_whole, record_in, short_kind
from sigma_mem.store.writer import Batch, Settled, Tail

_FIRST_PAGE = 8
PAGE = 512  # records fetched at a time: a long replay holds no lock between pages, and the log can be reused


def numbered_scripts(folder: Traversable) -> tuple[str, ...]:
    """Texts of ``NNN_*.sql``; number k (from 1) takes a ledger from version k − 1 to k."""
    found = sorted(file.name for file in folder.iterdir() if re.match(r"\d{3}_.*\.sql$", file.name))
    return tuple((folder / name).read_text("utf-8") for name in found)


def named_queries(*folders: Traversable) -> dict[str, str]:
    """The statements of ``queries.sql`` by the name in the line ``-- name --`` above each.

    ``{line}`` stands for the rows of the ledger with the digest before each.
    """
    texts = "\n".join((folder / "queries.sql").read_text("utf-8") for folder in folders)
    _, *parts = re.split(r"^-- (\w+) --$", texts, flags=re.MULTILINE)
    found = {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return {name: sql.replace("{line}", f"({found['line']}) AS line") for name, sql in found.items()}


def refuse_version(name: object, version: int, newest: int, remedy: str) -> None:
    """Raise unless tables have the version that the scripts lead to."""
    if version == 0:
        raise StoreEmptyError(f"{name} holds no memory yet; expected one to read. Write to it first")
    if version < newest:
        raise StoreVersionError(f"{name} has version {version}, this sigma-mem needs {newest}; {remedy}")
    if version > newest:
        raise StoreVersionError(
            f"{name} has version {version}, this version of sigma-mem reads up to {newest}; "
            "upgrade sigma-mem (pip install -U sigma-mem)"
        )


class Tables(ABC):
    """Named queries over a ledger's tables; rows are checked before anything is decoded.

    Parameters
    ----------
    name : str
        What errors call it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def read(self, query: str, *values: str | int | bytes) -> list[Any]:
        """All rows of a named query; texts are bytes, to be checked before decoding."""

    @abstractmethod
    def save_snapshot(self, *values: str | int | bytes) -> bool:
        """Keep a snapshot; whether it was kept."""

    @abstractmethod
    def finish_erasure(self) -> None:
        """Rewrite the database's files if bytes of forgotten lines may be left in them."""

    @abstractmethod
    def close(self) -> None:
        """Release the database."""

    def refuse_damaged(self) -> None:
        """StoreCorruptError for lines of no namespace."""
        if self.read("strays")[0][0]:
            raise self.damaged("there are lines that no namespace counts")

    def lost(self, tail: Tail) -> None:  # noqa: B027
        """Called when the ledger no longer holds lines that this process knew; the epoch has moved."""

    def sync(self, tail: Tail) -> Space | None:
        """A namespace as it is now; None before its first line.

        The chain shows whether what this process knew of it is still there: a database that failed over to a
        standby, or a file that was replaced, may have other lines under the same numbers.
        """
        known = tail.space
        found = self.read("space", 0 if known is None else known.lines, tail.namespace)
        space = self.space(found[0][:-1]) if found else None
        if not tail.seen(known, space, holds(found, known)):
            self.lost(tail)
        return space

    def spaces(self) -> list[Space]:
        """Every namespace."""
        return [self.space(row) for row in self.read("spaces")]

    def space(self, values: Sequence[Any]) -> Space:
        """A namespace in a row; StoreCorruptError if it is damaged."""
        space = Space.read(values)
        if space is None:
            raise self.damaged(f"namespace {values[0]} is damaged")
        return space

    def exists(self, namespace: str, kind: str, id: str) -> bool:
        """Whether an index knows the record."""
        return bool(self.read("find", namespace, short_kind(kind), id))

    def whole(self, values: Sequence[Any]) -> Sequence[Any]:
        """A row whose digest holds; StoreCorruptError for any other."""
        if not is_whole(values):
            raise self.damaged(f"record {values[1]} is damaged (its digest does not match)")
        return values

    def erase(
        self, execute: Callable[[str, Sequence[Any]], Any], space: Space, erases: Mapping[int, Erased]
    ) -> None:
        """Leave only this of some lines, by named statements in a transaction, and mark that it was done."""
        for seq, left in erases.items():
            found = execute("at", (space.number, seq)).fetchone()
            if found is None or seq == 1:
                raise StoreError(f"got line {seq} to erase; expected one after the first")
            execute("erase", (*erased_row(self.whole(found), left), space.number, seq))
        execute("drop_snapshot", (space.number,))
        execute("mark_erasure", (space.number, space.lines))

    def lines(self, space: Space, after: int, until: int) -> Iterator[Sequence[Any]]:
        """Rows of a namespace in order; StoreCorruptError unless all are there, each after the last."""
        seq, head = after, START if after == 0 else None
        for values in self.pages("page", space.number, after=after, until=until):
            if values[1] != seq + 1:
                raise self.damaged(f"line {seq + 1} of {space.name!r} is missing")
            self.whole(values)
            if head not in (None, START if seq == 0 else values[8][:DIGEST]):
                raise self.damaged(f"line {seq + 1} of {space.name!r} is not the one after line {seq}")
            seq, head = values[1], values[7][:DIGEST]
            yield values
        if seq < until:
            raise self.damaged(f"line {seq + 1} of {space.name!r} is missing")
        if seq == space.lines and head not in (None, space.head):
            raise self.damaged(f"line {seq} of {space.name!r} is not the last one that was written")

    def pages(self, query: str, *where: str | int, after: int = 0, until: int) -> Iterator[Sequence[Any]]:
        """Rows, fetched page by page; the first ones are small, since many callers want a few rows only."""
        size = _FIRST_PAGE
        while page := self.read(query, *where, after, until, size):
            yield from page
            if len(page) < size:
                return
            after, size = page[-1][1], min(PAGE, 8 * size)

    def damaged(self, what: str) -> StoreCorruptError:
        """The error that names what is damaged."""
        return StoreCorruptError(f"{self.name}: {what}; restore it from a backup")


def holds(found: Sequence[Sequence[Any]], known: Space | None) -> bool:
    """Whether the chain of a namespace, as the query ``space`` found it, has the last line that was known."""
    if known is None:
        return True
    return bool(found) and found[0][0] == known.number and bytes(found[0][-1] or b"")[:DIGEST] == known.head


T = TypeVar("T", bound=Tables)
L = TypeVar("L", bound=Tail)


class TableStore(Store, Generic[T, L]):
    """The half of a store that reads tables, and what it knows of the end of every namespace."""

    _finalizer: weakref.finalize[..., Any]  # releases what the store holds, once

    def __init__(self, tables: T, new_tail: Callable[[str], L]) -> None:
        self._tables, self._new_tail = tables, new_tail
        self._tails: dict[str, L] = {}
        self._tails_lock = threading.RLock()
        self._closed = False

    def _tail(self, namespace: str) -> L:
        """The end of a namespace; StoreError once the store is closed."""
        if self._closed:
            self._refuse_closed()
        tail = self._tails.get(namespace)
        if tail is None:
            refuse_unwritable(namespace)
            with self._tails_lock:
                tail = self._tails.get(namespace) or self._new_tail(namespace)
                self._tails[namespace] = tail
        return tail

    # --- what is queued ------------------------------------------------------------------

    def epoch(self, namespace: str) -> int:
        """How often records of a namespace were dropped or lost; see `Store.epoch`."""
        return self._tail(namespace).epoch

    def flush(self, namespace: str | None = None) -> None:
        """Return once everything appended is durable; raise StoreError if it cannot be."""
        self._refuse_closed()
        for tail in list(self._tails.values()) if namespace is None else [self._tail(namespace)]:
            tail.flush()

    def when_settled(self, namespace: str, call: Settled) -> Batch | None:
        """What is queued now; see `Store.when_settled`."""
        return self._tail(namespace).listen(call, urgent=True)

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

    # --- append --------------------------------------------------------------------------

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None, after: int | None = None
    ) -> tuple[int, Ticket]:
        """Queue records as one unit; see `Store.append`. Waits while 4,096 records are queued already."""
        tail = self._writable(namespace)
        refuse_bad_records(namespace, records)
        return tail.append(records, epoch, after, self._tables.exists)

    def erase(self, namespace: str, lines: Mapping[int, Erased], record: Record) -> None:
        """Leave only this of some lines, and append the record of that; see `Store.erase`."""
        tail = self._writable(namespace)
        refuse_bad_records(namespace, [record])
        with self.turn(namespace, urgent=True):
            tail.flush()  # the lines themselves may still be queued
            ticket = tail.append([record], None, None, self._tables.exists, lines)[1]
        ticket.wait()
        self._tables.finish_erasure()

    def _writable(self, namespace: str) -> L:
        """The end of a namespace, to append to it."""
        if self.readonly:
            self._refuse_closed()
            raise StoreError(f"{self._tables.name} was opened with readonly=True; open it without, to write")
        tail = self._tail(namespace)
        if tail.space is None and not self.shared:  # before this process's first line, or any
            self._tables.sync(tail)
        return tail

    # --- records -------------------------------------------------------------------------

    def is_current(self, namespace: str, seq: int) -> bool:
        """Whether line `seq` is the last one, queued or durable; see `Store.is_current`."""
        tail = self._tail(namespace)
        self._tables.sync(tail)
        return tail.newest() == seq

    def records(self, namespace: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Records of a namespace in order; see `Store.records`. Waits for what is queued."""
        space = self._settled(namespace)
        if space is None:
            return iter(())
        end = space.lines if until is None else min(until, space.lines)
        return map(record_in, self._tables.lines(space, after, end))

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The record of this kind and id, if any, queued or durable."""
        refuse_unwritable(kind, id)
        if (queued := self._tail(namespace).find(kind, id)) is not None:
            return queued
        rows = self._tables.read("find", namespace, short_kind(kind), id)
        return record_in(self._tables.whole(rows[0])) if rows else None

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """All records of an event, queued or durable, in order."""
        refuse_unwritable(event)
        queued = self._tail(namespace).of_event(event)
        if not event:
            return []
        # The tables are read second: a record that became durable in between is seen twice, never missed.
        rows = sorted(self._tables.read("of_event", namespace, event, namespace, event), key=itemgetter(1))
        durable = {values[1]: record_in(self._tables.whole(values)) for values in rows}
        return [*durable.values(), *(r for r in queued if r.seq not in durable)]

    def of_source(self, namespace: str, source: str, until: int | None = None) -> Iterator[Record]:
        """Feedback of a source, in order; see `Store.of_source`. Waits for what is queued."""
        refuse_unwritable(source)
        space = self._settled(namespace)
        if space is None:
            return iter(())
        end = space.lines if until is None else min(until, space.lines)
        rows = self._tables.pages("page_of_source", space.number, source, until=end)
        return (record_in(self._tables.whole(values)) for values in rows)

    def sources(self, namespace: str) -> dict[str, int]:
        """Every source that gave feedback, sorted, and how many records. Waits for what is queued."""
        if self._settled(namespace) is None:
            return {}
        found = {}
        for name, lines in self._tables.read("sources", namespace):  # from an index alone
            if not isinstance(name, bytes):
                raise self._tables.damaged(f"{name!r} is not a source of {namespace!r}")
            found[name.decode(errors="replace")] = lines
        return dict(sorted(found.items()))

    def namespaces(self) -> list[str]:
        """Names that have at least one record, sorted. Waits for what is queued."""
        self._refuse_closed()
        for tail in list(self._tails.values()):
            tail.drain()
        return sorted(space.name for space in self._tables.spaces())

    def verify(self) -> int:
        """Check every line, chain and count, and the database's own integrity; return how many lines."""
        self.namespaces()
        self._tables.refuse_damaged()
        spaces = self._tables.spaces()
        for space in spaces:
            for values in self._tables.lines(space, 0, space.lines):
                record_in(values)
        return sum(space.lines for space in spaces)

    def _settled(self, namespace: str) -> Space | None:
        """A namespace once everything queued of it is durable or was dropped."""
        tail = self._tail(namespace)
        tail.drain()
        return self._tables.sync(tail)

    # --- snapshots -----------------------------------------------------------------------

    def save_snapshot(
        self, namespace: str, snapshot: Snapshot, epoch: int | None = None, failed: Failed | None = None
    ) -> None:
        """Replace the namespace's snapshot; see `Store.save_snapshot`. The writing thread does it later."""
        tail, tables = self._writable(namespace), self._tables

        def save(batch: Batch | None, error: StoreError | None) -> None:
            try:
                if error is None:
                    _save_snapshot(tables, tail, snapshot, epoch)
            except StoreError as late:
                if batch is None or failed is None:
                    raise
                failed(late)

        if failed is None or tail.listen(save) is None:
            tail.drain()
            save(None, None)

    def load_snapshot(self, namespace: str) -> Snapshot | None:
        """The last snapshot; None if there is none, it is damaged, or it is not of this ledger."""
        self._tables.sync(self._tail(namespace))
        found = self._tables.read("load_snapshot", namespace)
        if not found or not isinstance(found[0][2], bytes) or zlib.crc32(found[0][2]) != found[0][1]:
            return None
        return Snapshot(found[0][0], found[0][2])


def _save_snapshot(tables: Tables, tail: Tail, snapshot: Snapshot, epoch: int | None) -> None:
    """Save a snapshot of a state that was derived in an epoch, if the ledger still has its lines."""
    if tail.space is None:
        tables.sync(tail)
    known = tail.space
    refuse_older_state(tail.namespace, epoch, tail.epoch, None, 0)
    refuse_absent_line(snapshot.seq, tail.durable)
    if known is not None:
        body = snapshot.body
        kept = tables.save_snapshot(
            zlib.crc32(body), body, tail.namespace, snapshot.seq, known.lines, known.head
        )
        if not kept:  # there is a later one, or the ledger has other lines
            tables.sync(tail)
            refuse_older_state(tail.namespace, epoch, tail.epoch, None, 0)
