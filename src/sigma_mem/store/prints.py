"""Fingerprints of what records are looked up by, apart from the indexes, so that a miss can be verified.

A flipped bit in an index hides records from lookups. Every 4,096 records their fingerprints (CRC32 of
namespace, kind and id, and of namespace and event) are sealed in a row of their own; those of the newest
records come from the rows themselves.
"""

import threading
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import StoreCorruptError
from sigma_mem.store.rows import StoredRow, checksum

SEGMENT = 4096  # records
PRINT_BYTES = 8  # of one record
Names = tuple[int, int, bytes, bytes, bytes]  # of a record: seq, namespace, kind, id, event
Read = Callable[..., list[Any]]  # a named query and its values → rows


class Tail(NamedTuple):
    """How many segments are sealed, and the fingerprints of the records after them."""

    sealed: int
    prints: bytes

    @property
    def end(self) -> int:
        """The number of the last record."""
        return self.sealed * SEGMENT + len(self.prints) // PRINT_BYTES


Written = Callable[[], tuple[int, Tail | None]]  # number of the last durable record, and the writer's tail


@lru_cache(maxsize=1024)
def _starts(namespace: int, kind: bytes) -> tuple[int, int]:
    """What the fingerprints of ids of this kind, and of events, go on from: CRC32 of what comes before."""
    return zlib.crc32(b"%d i %d %b" % (namespace, len(kind), kind)), zlib.crc32(b"%d e " % namespace)


def print_of_id(namespace: int, kind: bytes, id: bytes) -> int:
    """The fingerprint of a record's kind and id."""
    return zlib.crc32(id, _starts(namespace, kind)[0])


def print_of_event(namespace: int, event: bytes) -> int:
    """The fingerprint of an event's name."""
    return zlib.crc32(event, _starts(namespace, b"")[1])


def names_of(row: StoredRow) -> Names:
    """What a record is looked up by, as the query ``names`` gives it."""
    id = row.id.encode()
    return row.seq, row.namespace, row.kind.encode(), id, id if row.event is None else row.event.encode()


def sealed(number: int, names: Sequence[Names]) -> tuple[int, bytes, int]:
    """The row of a segment, given the names of its records."""
    return sealed_prints(number, prints_of(names))


def sealed_prints(number: int, prints: bytes) -> tuple[int, bytes, int]:
    """The row of a segment, given its fingerprints."""
    return number, prints, checksum(number, prints)


def prints_of(names: Sequence[Names]) -> bytes:
    """The fingerprints of records, as a segment keeps them."""
    return _prints(names).tobytes()


def _prints(names: Sequence[Names]) -> NDArray[np.uint32]:
    if not {tuple(map(type, row[1:])) for row in names} <= {(int, bytes, bytes, bytes)}:
        raise StoreCorruptError(
            "a record's namespace, kind, id or event is of the wrong type; restore the file from a backup"
        )
    # Numbers only: thousands of tuples would call the garbage collector.
    of_ids = [print_of_id(namespace, kind, id) for _, namespace, kind, id, _ in names]
    of_events = [print_of_event(namespace, event) for _, namespace, _, _, event in names]
    return np.stack([np.array(each, dtype="<u4") for each in (of_ids, of_events)], axis=1)


class Fingerprints:
    """Which records may have an id or belong to an event, whatever the indexes say.

    Where the writer is in this process, it tells the fingerprints of what it wrote, which spares a query. For
    a query Python gives its lock up, and beside a busy writer gets it back up to a millisecond later.
    """

    def __init__(self, read: Read, written: Written | None) -> None:
        self._read, self._written = read, written
        self._lock = threading.Lock()
        self._known: NDArray[np.uint32] = np.zeros((2, 0), dtype=np.uint32)  # of ids, of events
        self._size = 0

    def with_id(self, namespace: int, kind: bytes, id: bytes) -> list[int]:
        """Numbers of the records that may have this kind and id."""
        return self._having(0, print_of_id(namespace, kind, id))

    def of_event(self, namespace: int, event: bytes) -> list[int]:
        """Numbers of the records that may belong to this event."""
        return self._having(1, print_of_event(namespace, event))

    def _having(self, row: int, value: int) -> list[int]:
        with self._lock:
            self._catch_up()
            found: list[int] = (np.flatnonzero(self._known[row, : self._size] == value) + 1).tolist()
            return found

    def _catch_up(self) -> None:
        """Take in the fingerprints of records that were appended meanwhile."""
        last, tail = (None, None) if self._written is None else self._written()
        if last is not None and self._size >= last:
            return
        if tail is None or tail.sealed > self._size // SEGMENT:
            self._read_segments()
        if tail is not None and tail.sealed == self._size // SEGMENT:
            self._add(np.frombuffer(tail.prints, dtype="<u4").reshape(-1, 2)[self._size % SEGMENT :])
        if last is None or self._size < last:
            self._read_names()

    def _read_segments(self) -> None:
        for number, raw, crc in self._read("segments", self._size // SEGMENT):
            if number != self._size // SEGMENT + 1 or crc != checksum(number, raw):
                raise StoreCorruptError(f"fingerprints {number} are damaged; restore the file from a backup")
            self._size = (number - 1) * SEGMENT  # some may be known from before it was full
            self._add(np.frombuffer(raw, dtype="<u4").reshape(SEGMENT, 2))

    def _read_names(self) -> None:
        while names := self._read("names", self._size, SEGMENT):
            if [row[0] for row in names] != list(range(self._size + 1, self._size + len(names) + 1)):
                missing = f"a record after number {self._size} is missing"
                raise StoreCorruptError(f"{missing}; restore the file from a backup")
            self._add(_prints(names))
            if len(names) < SEGMENT:
                return

    def _add(self, prints: NDArray[np.uint32]) -> None:
        size, room = self._size + len(prints), self._known.shape[1]
        if size > room:
            grown = np.zeros((2, max(size, 2 * room, SEGMENT)), dtype=np.uint32)
            grown[:, : self._size] = self._known[:, : self._size]
            self._known = grown
        self._known[:, self._size : size] = prints.T
        self._size = size
