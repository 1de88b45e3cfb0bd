"""A memory without a file: for tests, for experiments, and for whoever needs no durability."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sigma_mem.errors import ConflictError, InputError, StoreError
from sigma_mem.store.base import Record, Snapshot, Ticket

__all__ = ["InMemoryStore"]


class _Kept:
    """The ticket of records that are where they will stay."""

    def wait(self) -> None:
        """Return: nothing is left to do."""


KEPT = _Kept()


@dataclass(slots=True)
class _Shelf:
    """One namespace: its records by position, with what finds them."""

    records: list[Record] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    by_id: dict[tuple[str, str], int] = field(default_factory=dict)
    by_event: dict[str, tuple[int, ...]] = field(default_factory=dict)  # tuples: nothing for gc to follow
    snapshot: Snapshot | None = None

    def numbered(self, position: int) -> Record:
        """The record with its seq: made when read, since most records never are."""
        r = self.records[position]
        return Record(r.kind, r.id, r.event, r.body, r.phi, self.seqs[position])


class InMemoryStore:
    """The whole `Store` protocol in dictionaries and lists; durable as long as the process.

    Examples
    --------
    >>> store = InMemoryStore()
    >>> seq, ticket = store.append("default", [Record("decision", "d1", "d1", {"n": 1})])
    >>> ticket.wait()
    >>> seq, store.find("default", "decision", "d1").body
    (1, {'n': 1})
    """

    epoch = 0  # nothing is ever dropped

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shelves: dict[str, _Shelf] = {}
        self._last = 0
        self._closed = False

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None
    ) -> tuple[int, Ticket]:
        """Keep records as one unit; see `Store.append`."""
        with self._lock:
            shelf = self._shelves.get(namespace)
            if shelf is None or self._closed:
                shelf = self._new_shelf(namespace)
            self._refuse_known(namespace, shelf, records)
            by_id, kept, seq = shelf.by_id, shelf.records, self._last
            for record in records:
                seq += 1
                position = len(kept)
                by_id[record.kind, record.id] = position
                if record.event:
                    shelf.by_event[record.event] = (*shelf.by_event.get(record.event, ()), position)
                shelf.seqs.append(seq)
                kept.append(record)
            self._last = seq
            return seq, KEPT

    def records(self, namespace: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Records of a namespace in order; see `Store.records`."""
        shelf = self._shelf(namespace)
        first = bisect_right(shelf.seqs, after)
        end = len(shelf.records) if until is None else bisect_right(shelf.seqs, until)
        return (shelf.numbered(position) for position in range(first, end))

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The record of this kind and id, if any."""
        shelf = self._shelf(namespace)
        position = shelf.by_id.get((kind, id))
        return None if position is None else shelf.numbered(position)

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """All records that belong to an event, in order."""
        with self._lock:
            shelf = self._shelf(namespace)
            return [shelf.numbered(position) for position in shelf.by_event.get(event, ())]

    def save_snapshot(self, namespace: str, snapshot: Snapshot, epoch: int | None = None) -> None:
        """Replace the namespace's snapshot; see `Store.save_snapshot`."""
        with self._lock:
            self._refuse_closed()
            if not 0 <= snapshot.seq <= self._last:
                raise InputError(f"got a snapshot of record {snapshot.seq}, the ledger ends at {self._last}")
            shelf = self._shelves.get(namespace) or self._new_shelf(namespace)
            shelf.snapshot = snapshot

    def load_snapshot(self, namespace: str) -> Snapshot | None:
        """The last snapshot, if any."""
        return self._shelf(namespace).snapshot

    def namespaces(self) -> list[str]:
        """Names that have at least one record, sorted."""
        with self._lock:
            self._refuse_closed()
            return sorted(name for name, shelf in self._shelves.items() if shelf.records)

    def flush(self) -> None:
        """Return: everything is where it will stay."""
        self._refuse_closed()

    def close(self) -> None:
        """Forget everything; calling it twice is fine."""
        with self._lock:
            self._closed = True
            self._shelves.clear()

    def _shelf(self, namespace: str) -> _Shelf:
        """The namespace's shelf to read from, empty where there is none."""
        shelf = self._shelves.get(namespace)
        if shelf is None:
            self._refuse_closed()
            return _Shelf()
        return shelf

    def _new_shelf(self, namespace: str) -> _Shelf:
        self._refuse_closed()
        return self._shelves.setdefault(namespace, _Shelf())

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError("the store is closed; open it again")

    @staticmethod
    def _refuse_known(namespace: str, shelf: _Shelf, records: Sequence[Record]) -> None:
        for record in records:
            if (record.kind, record.id) in shelf.by_id:
                raise ConflictError(
                    f"{record.kind} {record.id!r} is already in namespace {namespace!r}; use another id"
                )
        if len(records) > 1 and len({(record.kind, record.id) for record in records}) < len(records):
            raise ConflictError("the same kind and id occurs twice in one append; use another id")
        if not records:
            raise InputError("got no records to append; expected at least one")
