"""A memory without a file: for tests, experiments, and programs that need no durability."""

import threading
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sigma_mem.errors import InputError, StoreError
from sigma_mem.store.base import Record, Snapshot, Ticket
from sigma_mem.store.writer import Batch, refuse_known

_DURABLE = Batch()  # the ticket of all records: they need no waiting
_DURABLE.settle()


@dataclass(slots=True)
class _Namespace:
    """One namespace: its records in order, with indexes by id, by event and by source."""

    records: list[Record] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    by_id: dict[tuple[str, str], int] = field(default_factory=dict)
    by_event: dict[str, tuple[int, ...]] = field(default_factory=dict)  # tuples: not tracked by the collector
    by_source: dict[Any, "array[int]"] = field(default_factory=dict)  # positions of feedback
    snapshot: Snapshot | None = None

    def numbered(self, position: int) -> Record:
        """The record with its seq, built on reading, since most records are never read."""
        r = self.records[position]
        return Record(r.kind, r.id, r.event, r.body, r.phi, self.seqs[position])


class InMemoryStore:
    """The whole `Store` protocol in dictionaries and lists; durable as long as the process.

    >>> store = InMemoryStore()
    >>> seq, ticket = store.append("default", [Record("decision", "d1", "d1", {"n": 1})])
    >>> ticket.wait()
    >>> seq, store.find("default", "decision", "d1").body
    (1, {'n': 1})
    """

    epoch = 0  # nothing is ever dropped
    readonly = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, _Namespace] = defaultdict(_Namespace)
        self._last = 0
        self._closed = False

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None
    ) -> tuple[int, Ticket]:
        """Keep records as one unit; see `Store.append`."""
        with self._lock:
            held = self._open(namespace)
            if len(records) != 1 or (records[0].kind, records[0].id) in held.by_id:  # else one new record
                refuse_known(namespace, records, held.by_id.__contains__)
            for position, record in enumerate(records, len(held.records)):
                self._last += 1
                held.by_id[record.kind, record.id] = position
                if record.event:
                    held.by_event[record.event] = (*held.by_event.get(record.event, ()), position)
                if record.kind == "feedback":
                    source = record.body.get("source")
                    if source not in held.by_source:
                        held.by_source[source] = array("q")
                    held.by_source[source].append(position)
                held.seqs.append(self._last)
                held.records.append(record)
            return self._last, _DURABLE

    def records(self, namespace: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Records of a namespace in order; see `Store.records`."""
        held = self._open(namespace)
        first = bisect_right(held.seqs, after)
        end = len(held.records) if until is None else bisect_right(held.seqs, until)
        return (held.numbered(position) for position in range(first, end))

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The record of this kind and id, if any."""
        held = self._open(namespace)
        position = held.by_id.get((kind, id))
        return None if position is None else held.numbered(position)

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """All records that belong to an event, in order."""
        with self._lock:
            held = self._open(namespace)
            return [held.numbered(position) for position in held.by_event.get(event, ())]

    def of_source(self, namespace: str, source: str, until: int | None = None) -> Iterator[Record]:
        """Feedback of a source, in order; see `Store.of_source`."""
        held = self._open(namespace)
        positions = held.by_source.get(source, array("q"))
        end = len(positions)
        if until is not None:
            end = bisect_right(positions, until, key=held.seqs.__getitem__)
        return (held.numbered(position) for position in positions[:end])

    def sources(self, namespace: str) -> dict[str, int]:
        """Every source that gave feedback, sorted, and how many records."""
        with self._lock:
            found = self._open(namespace).by_source.items()
            return dict(sorted((name, len(positions)) for name, positions in found if isinstance(name, str)))

    def save_snapshot(self, namespace: str, snapshot: Snapshot, epoch: int | None = None) -> None:
        """Replace the namespace's snapshot; see `Store.save_snapshot`."""
        with self._lock:
            held = self._open(namespace)
            if not 0 <= snapshot.seq <= self._last:
                raise InputError(f"got a snapshot of record {snapshot.seq}, the ledger ends at {self._last}")
            held.snapshot = snapshot

    def load_snapshot(self, namespace: str) -> Snapshot | None:
        """The last snapshot, if any."""
        return self._open(namespace).snapshot

    def namespaces(self) -> list[str]:
        """Names that have at least one record, sorted."""
        with self._lock:
            self._refuse_closed()
            return sorted(name for name, held in self._by_name.items() if held.records)

    def flush(self) -> None:
        """Return at once: there is nothing to write."""
        self._refuse_closed()

    def close(self) -> None:
        """Forget everything; idempotent."""
        with self._lock:
            self._closed = True
            self._by_name.clear()

    def _open(self, namespace: str) -> _Namespace:
        if self._closed:
            self._refuse_closed()
        return self._by_name[namespace]

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError("the store is closed; open it again")
