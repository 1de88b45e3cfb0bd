"""A memory without a file: for tests, experiments, and programs that need no durability."""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

from sigma_mem.errors import StoreError
from sigma_mem.store.base import (
    Erased,
    Failed,
    Record,
    Snapshot,
    Store,
    Ticket,
    refuse_absent_line,
    refuse_bad_records,
    refuse_known,
    refuse_older_state,
    tell_after_fork,
)
from sigma_mem.store.writer import Batch, Settled

_DURABLE = Batch(SimpleQueue())  # the ticket of all records: they need no waiting
_DURABLE.settle()


@dataclass(slots=True)
class _Namespace:
    """One namespace: its records in order, with indexes by id and by event.

    A signal handler may raise between any two steps. So a record is there from one step on, when ``records``
    grows, and the indexes follow before they are used.
    """

    records: list[Record] = field(default_factory=list)  # without their numbers: most are never read
    indexed: int = 0  # of them
    by_id: dict[tuple[str, str], int] = field(default_factory=dict)  # numbers
    by_event: dict[str, tuple[int, ...]] = field(default_factory=dict)  # tuples: not tracked by the collector
    snapshot: Snapshot | None = None

    def numbered(self, seq: int) -> Record:
        """The record with its number."""
        r = self.records[seq - 1]
        return Record(r.kind, r.id, r.event, r.body, r.source, seq)

    def index(self) -> None:
        """Take the newest records into the indexes; doing it again does no harm."""
        while self.indexed < len(self.records):
            seq, record = self.indexed + 1, self.records[self.indexed]
            self.by_id[record.kind, record.id] = seq
            if record.event:
                known = self.by_event.get(record.event, ())
                if seq not in known:
                    self.by_event[record.event] = (*known, seq)
            self.indexed = seq


class InMemoryStore(Store):
    """The whole `Store` protocol in dictionaries and lists; durable as long as the process.

    >>> store = InMemoryStore()
    >>> seq, ticket = store.append("default", [Record("decision", "d1", "d1", b"what was decided")])
    >>> ticket.wait()
    >>> seq, store.find("default", "decision", "d1").body
    (1, b'what was decided')
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, _Namespace] = defaultdict(_Namespace)
        self._closed = False
        tell_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child, which has a copy of its own: another thread may have held the lock."""
        self._lock = threading.Lock()

    def is_current(self, namespace: str, seq: int) -> bool:
        """Whether line `seq` of a namespace is the last one."""
        with self._lock:
            return len(self._open(namespace).records) == seq

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None, after: int | None = None
    ) -> tuple[int, Ticket]:
        """Keep records as one unit; see `Store.append`."""
        refuse_bad_records(namespace, records)
        with self._lock:
            held = self._open(namespace)
            refuse_older_state(namespace, epoch, 0, after, len(held.records))
            refuse_known(namespace, records, held.by_id)
            held.records += records  # the one step from which on they are there
            return len(held.records), _DURABLE

    def records(self, namespace: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Records of a namespace in order; see `Store.records`."""
        with self._lock:
            held = self._open(namespace)
        last = len(held.records)
        end = last if until is None else min(until, last)
        return (held.numbered(seq) for seq in range(after + 1, end + 1))

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The record of this kind and id, if any."""
        with self._lock:
            held = self._open(namespace)
            seq = held.by_id.get((kind, id))
            return None if seq is None else held.numbered(seq)

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """All records that belong to an event, in order."""
        with self._lock:
            held = self._open(namespace)
            return [held.numbered(seq) for seq in held.by_event.get(event, ())]

    def of_source(self, namespace: str, source: str, until: int | None = None) -> Iterator[Record]:
        """Feedback of a source, in order; see `Store.of_source`."""
        with self._lock:
            held = self._open(namespace)
        records = enumerate(held.records[:until], 1)
        return (held.numbered(seq) for seq, record in records if record.source == source)

    def sources(self, namespace: str) -> dict[str, int]:
        """Every source that gave feedback, sorted, and how many records."""
        with self._lock:
            found = Counter(r.source for r in self._open(namespace).records if r.source is not None)
        return dict(sorted(found.items()))

    def save_snapshot(
        self, namespace: str, snapshot: Snapshot, epoch: int | None = None, failed: Failed | None = None
    ) -> None:
        """Replace the namespace's snapshot; see `Store.save_snapshot`."""
        with self._lock:
            held = self._open(namespace)
            refuse_absent_line(snapshot.seq, len(held.records))
            held.snapshot = snapshot

    def load_snapshot(self, namespace: str) -> Snapshot | None:
        """The last snapshot, if any."""
        with self._lock:
            return self._open(namespace).snapshot

    def erase(self, namespace: str, lines: Mapping[int, Erased], record: Record) -> None:
        """Leave only this of some lines, and append the record of that; see `Store.erase`."""
        refuse_bad_records(namespace, [record])
        with self._lock:
            held = self._open(namespace)
            refuse_known(namespace, [record], held.by_id)
            kept = [
                r._replace(id=lines[seq].id, body=lines[seq].body, source=None) if seq in lines else r
                for seq, r in enumerate(held.records, 1)
            ]
            self._by_name[namespace] = _Namespace([*kept, record])

    def namespaces(self) -> list[str]:
        """Names that have at least one record, sorted."""
        with self._lock:
            self._refuse_closed()
            return sorted(name for name, held in self._by_name.items() if held.records)

    def verify(self) -> int:
        """How many lines there are; there is nothing that could be damaged."""
        with self._lock:
            self._refuse_closed()
            return sum(len(held.records) for held in self._by_name.values())

    def flush(self, namespace: str | None = None) -> None:
        """Return at once: there is nothing to write."""
        self._refuse_closed()

    def when_settled(self, namespace: str, call: Settled) -> None:
        """Nothing is ever queued; see `Store.when_settled`."""
        self._refuse_closed()

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
