"""Fingerprints of what records are looked up by, apart from the indexes, so that a miss can be verified.

A flipped bit in an index hides records from lookups. Every 4,096 records their fingerprints (CRC32 of
namespace, kind and id, and of namespace and event) are sealed in a row of their own; those of the newest
records come from the rows themselves.
"""

import threading
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import StoreCorruptError
from sigma_mem.store.rows import checksum

SEGMENT = 4096  # records
Read = Callable[..., list[Any]]  # a named query and its values → rows


def print_of_id(namespace: int, kind: bytes, id: bytes) -> int:
    """The fingerprint of a record's kind and id."""
    return zlib.crc32(b"%d i %d %b%b" % (namespace, len(kind), kind, id))


def print_of_event(namespace: int, event: bytes) -> int:
    """The fingerprint of an event's name."""
    return zlib.crc32(b"%d e %b" % (namespace, event))


def sealed(number: int, names: Sequence[tuple[int, int, bytes, bytes, bytes]]) -> tuple[int, bytes, int]:
    """The row of a segment, given (seq, namespace, kind, id, event) of its records."""
    raw = _prints(names).tobytes()
    return number, raw, checksum(number, raw)


def _prints(names: Sequence[tuple[int, int, bytes, bytes, bytes]]) -> NDArray[np.uint32]:
    types = (int, bytes, bytes, bytes)
    if not all(type(value) is kind for row in names for value, kind in zip(row[1:], types, strict=True)):
        raise StoreCorruptError(
            "a record's namespace, kind, id or event is of the wrong type; restore the file from a backup"
        )
    pairs = [(print_of_id(ns, kind, id), print_of_event(ns, event)) for _, ns, kind, id, event in names]
    return np.array(pairs, dtype="<u4").reshape(len(pairs), 2)


class Fingerprints:
    """Which records may have an id or belong to an event, whatever the indexes say."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._known: NDArray[np.uint32] = np.zeros((0, 2), dtype=np.uint32)
        self._size = 0

    def with_id(self, namespace: int, kind: bytes, id: bytes) -> list[int]:
        """Numbers of the records that may have this kind and id."""
        return self._having(0, print_of_id(namespace, kind, id))

    def of_event(self, namespace: int, event: bytes) -> list[int]:
        """Numbers of the records that may belong to this event."""
        return self._having(1, print_of_event(namespace, event))

    def _having(self, column: int, value: int) -> list[int]:
        with self._lock:
            self._catch_up()
            found: list[int] = (np.flatnonzero(self._known[: self._size, column] == value) + 1).tolist()
            return found

    def _catch_up(self) -> None:
        """Read the fingerprints of records that were appended meanwhile."""
        if self._size % SEGMENT == 0:
            for number, raw, crc in self._read("segments", self._size // SEGMENT):
                if number != self._size // SEGMENT + 1 or crc != checksum(number, raw):
                    raise StoreCorruptError(
                        f"fingerprints {number} are damaged; restore the file from a backup"
                    )
                self._add(np.frombuffer(raw, dtype="<u4").reshape(SEGMENT, 2))
        while names := self._read("names", self._size, SEGMENT):
            if [row[0] for row in names] != list(range(self._size + 1, self._size + len(names) + 1)):
                missing = f"a record after number {self._size} is missing"
                raise StoreCorruptError(f"{missing}; restore the file from a backup")
            self._add(_prints(names))

    def _add(self, prints: NDArray[np.uint32]) -> None:
        size = self._size + len(prints)
        if size > len(self._known):
            grown = np.zeros((max(size, 2 * len(self._known), SEGMENT), 2), dtype=np.uint32)
            grown[: self._size] = self._known[: self._size]
            self._known = grown
        self._known[self._size : size] = prints
        self._size = size
