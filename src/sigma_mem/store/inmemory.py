"""A memory without a file: for tests, experiments, and programs that need no durability."""

import threading
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from sigma_mem.errors import InputError, StoreError
from sigma_mem.store.base import Failed, Record, Snapshot, Ticket
from sigma_mem.store.batches import Batch, Settled
from sigma_mem.store.fork import tell_after_fork
from sigma_mem.store.writer import refuse_bad_records, refuse_known

_DURABLE = Batch()  # the ticket of all records: they need no waiting
_DURABLE.settle()


_SEQ = itemgetter(0)


@dataclass(slots=True)
class _Namespace:
    """One namespace: its records in order, with indexes by id, by event and by source.

    A signal handler may raise between any two steps. So a record is there from one step on, when ``records``
    grows, and the indexes follow before they are used.
    """

    records: list[tuple[int, Record]] = field(default_factory=list)  # with their numbers
    indexed: int = 0  # of them
    by_id: dict[tuple[str, str], int] = field(default_factory=dict)
    by_event: dict[str, tuple[int, ...]] = field(default_factory=dict)  # tuples: not tracked by the collector
    by_source: dict[str, "array[int]"] = field(default_factory=dict)  # positions of feedback
    snapshot: Snapshot | None = None

    def numbered(self, position: int) -> Record:
        """The record with its seq, built on reading, since most records are never read."""
        seq, r = self.records[position]
        return Record(r.kind, r.id, r.event, r.body, r.source, seq)

    def index(self) -> None:
        """Take the newest records into the indexes; doing it again does no harm."""
        while self.indexed < len(self.records):
            position = self.indexed
            record = self.records[position][1]
            self.by_id[record.kind, record.id] = position
            if record.event:
                known = self.by_event.get(record.event, ())
                if position not in known:
                    self.by_event[record.event] = (*known, position)
            if record.source is not None:
                positions = self.by_source.setdefault(record.source, array("q"))
                if not positions or positions[-1] < position:
                    positions.append(position)
            self.indexed = position + 1


class InMemoryStore:
    """The whole `Store` protocol in dictionaries and lists; durable as long as the process.

    >>> store = InMemoryStore()
    >>> seq, ticket = store.append("default", [Record("decision", "d1", "d1", b"what was decided")])
    >>> ticket.wait()
    >>> seq, store.find("default", "decision", "d1").body
    (1, b'what was decided')
    """

    epoch = 0  # nothing is ever dropped
    readonly = False
    turns = None  # no other process writes

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, _Namespace] = defaultdict(_Namespace)
        self._last = 0
        self._closed = False
        tell_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child, which has a copy of its own: another thread may have held the lock."""
        self._lock = threading.Lock()

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None
    ) -> tuple[int, Ticket]:
        """Keep records as one unit; see `Store.append`."""
        refuse_bad_records(namespace, records)
        with self._lock:
            held = self._open(namespace)
            if len(records) != 1 or (records[0].kind, records[0].id) in held.by_id:  # else one new record
                refuse_known(namespace, records, held.by_id.__contains__)
            first = self._last + 1
            self._last += len(records)
            held.records += list(enumerate(records, first))  # the one step from which on they are there
            return first + len(records) - 1, _DURABLE

    def records(self, namespace: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Records of a namespace in order; see `Store.records`."""
        with self._lock:
            held = self._open(namespace)
        first = bisect_right(held.records, after, key=_SEQ)
        end = len(held.records) if until is None else bisect_right(held.records, until, key=_SEQ)
        return (held.numbered(position) for position in range(first, end))

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The record of this kind and id, if any."""
        with self._lock:
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
        with self._lock:
            held = self._open(namespace)
            positions = held.by_source.get(source, array("q"))
        end = len(positions)
        if until is not None:
            end = bisect_right(positions, until, key=lambda position: held.records[position][0])
        return (held.numbered(position) for position in positions[:end])

    def sources(self, namespace: str) -> dict[str, int]:
        """Every source that gave feedback, sorted, and how many records."""
        with self._lock:
            found = self._open(namespace).by_source.items()
            return dict(sorted((name, len(positions)) for name, positions in found))

    def save_snapshot(
        self, namespace: str, snapshot: Snapshot, epoch: int | None = None, failed: Failed | None = None
    ) -> None:
        """Replace the namespace's snapshot; see `Store.save_snapshot`."""
        with self._lock:
            held = self._open(namespace)
            if not 0 <= snapshot.seq <= self._last:
                raise InputError(f"got a snapshot of record {snapshot.seq}, the ledger ends at {self._last}")
            held.snapshot = snapshot

    def load_snapshot(self, namespace: str) -> Snapshot | None:
        """The last snapshot, if any."""
        with self._lock:
            return self._open(namespace).snapshot

    def erase(self, namespace: str, bodies: Mapping[int, bytes], record: Record) -> None:
        """Replace the bodies of lines, and append the line that says so; see `Store.erase`."""
        refuse_bad_records(namespace, [record])
        with self._lock:
            held = self._open(namespace)
            refuse_known(namespace, [record], held.by_id.__contains__)
            kept = [(seq, r._replace(body=bodies[seq]) if seq in bodies else r) for seq, r in held.records]
            held.snapshot = None
            self._last += 1
            held.records = [*kept, (self._last, record)]  # the one step from which on it is done

    def namespaces(self) -> list[str]:
        """Names that have at least one record, sorted."""
        with self._lock:
            self._refuse_closed()
            return sorted(name for name, held in self._by_name.items() if held.records)

    def flush(self) -> None:
        """Return at once: there is nothing to write."""
        self._refuse_closed()

    def when_settled(self, call: Settled) -> list[Batch]:
        """Nothing is ever queued; see `Store.when_settled`."""
        self._refuse_closed()
        return []

    def close(self) -> None:
        """Forget everything; idempotent."""
        with self._lock:
            self._closed = True
            self._by_name.clear()

    def _open(self, namespace: str) -> _Namespace:
        if self._closed:
            self._refuse_closed()
        held = self._by_name[namespace]
        if held.indexed < len(held.records):
            held.index()
        return held

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError("the store is closed; open it again")
