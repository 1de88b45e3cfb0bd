"""A record as a row of a table: salted, and with a digest of every byte that is stored.

The digest is H(salt ‖ row). A line that was forgotten keeps it, and has a second one of what is stored
instead; its salt is gone, so that nobody can guess what it said.
"""

import os
import zlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from sigma_mem.store.base import Record
from sigma_mem.store.compression import packed, unpacked

DIGEST = 16  # bytes
SALT = 8
_SHORT = {"decision": "d", "feedback": "f"}  # of kinds; any other has a mark before it
_LONG = {short: kind for kind, short in _SHORT.items()}


class Queued(NamedTuple):
    """A record on its way to a table."""

    namespace: str
    record: Record
    erases: Mapping[int, bytes] = {}  # bodies of earlier lines, by their numbers


class StoredRow(NamedTuple):
    """A record as it is stored; a kind of the table's own."""

    seq: int
    namespace: int
    line: int  # position in its namespace, from 1
    kind: str
    id: str
    event: str | None  # None where it is the id
    source: int | None
    body: bytes  # salt, packed body
    digest: bytes  # and a second one where the line was forgotten

    def record(self) -> Record:
        """The record of a row that is whole."""
        kind = _LONG.get(self.kind) or self.kind[1:]
        event = self.id if self.event is None else self.event
        return Record(kind, self.id, event, unpacked(self.body[SALT:]), None, self.seq)

    def erased(self, body: bytes) -> "StoredRow":
        """The row with another body, and the digest that it had beside the new one."""
        new = self._replace(body=new_salts(1) + packed(body))
        return new._replace(digest=self.digest[:DIGEST] + new._computed())

    def _computed(self) -> bytes:
        event = None if self.event is None else self.event.encode()
        kind, id = self.kind.encode(), self.id.encode()
        return _digest(self.seq, self.namespace, self.line, kind, id, event, self.source, self.body)


def stored_row(record: Record, namespace: int, line: int, source: int | None, salt: bytes) -> StoredRow:
    """The row of a record."""
    event = None if record.event == record.id and record.kind == "decision" else record.event
    kind = short_kind(record.kind)
    body = salt + packed(record.body)
    row = StoredRow(record.seq, namespace, line, kind, record.id, event, source, body, b"")
    return row._replace(digest=row._computed())


def whole_row(values: Sequence[Any]) -> StoredRow | None:
    """A row as a database gives it, if every byte is as it was written; None for any other."""
    seq, namespace, line, kind, id, event, source, body, digest = values
    try:
        found = _digest(seq, namespace, line, kind, id, event, source, body)
        if found != digest[-DIGEST:] or len(digest) not in (DIGEST, 2 * DIGEST):
            return None
        about = None if event is None else event.decode()
        return StoredRow(seq, namespace, line, kind.decode(), id.decode(), about, source, body, digest)
    except (TypeError, AttributeError, UnicodeDecodeError):  # what should be text or bytes is a number
        return None


def short_kind(kind: str) -> str:
    """A kind as it is stored."""
    return _SHORT.get(kind, "=" + kind)


def new_salts(count: int) -> bytes:
    """Bytes for so many salts."""
    return os.urandom(SALT * count)


def checksum(*parts: int | str | bytes) -> int:
    """CRC32 of the parts of a row that is no record."""
    return zlib.crc32(repr(parts).encode())


def _digest(
    seq: int,
    namespace: int,
    line: int,
    kind: bytes,
    id: bytes,
    event: bytes | None,
    source: int | None,
    body: bytes,
) -> bytes:
    """The digest of a row: H(numbers and sizes ‖ texts ‖ body)."""
    about = event or b""
    head = f"{seq} {namespace} {line} {source} {event is None} {len(kind)} {len(id)} {len(about)} "
    return blake2b(b"".join((head.encode(), kind, id, about, body)), digest_size=DIGEST).digest()
