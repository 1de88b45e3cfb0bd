"""A record as a row of the file: packed, salted, and with a digest of every byte that is stored.

A body is packed JSON (`packing`); φ is kept as float32 where that loses nothing. The digest is H(salt ‖ row).
A line that was forgotten keeps it, and has a second one of what is stored in its place; its salt is gone, so
that nobody can guess what it said.
"""

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.store.base import Record
from sigma_mem.store.packing import SHAPED, BodyPacking
from sigma_mem.store.shapes import Shape

DIGEST = 16  # bytes
SALT = 8
_SHORT = {"decision": "d", "feedback": "f"}  # of kinds; any other has a mark before it
_LONG = {short: kind for kind, short in _SHORT.items()}
_FLOAT32 = 1  # a flag before a stored body: φ is narrow
_FLAGS = b"\0", bytes([_FLOAT32])


class Queued(NamedTuple):
    """A record on its way to the file, and its body as JSON, or packed already."""

    namespace: str
    record: Record
    body: bytes
    erases: Mapping[int, bytes] = {}  # bodies of earlier lines, by their numbers
    packed: bool = False


class StoredRow(NamedTuple):
    """A record as it is stored; a kind and an id of the table's own, bodies packed."""

    seq: int
    namespace: int
    line: int  # position in its namespace, from 1
    kind: str
    id: str
    event: str | None  # None where it is the id
    source: int | None
    body: bytes  # salt, flag, packed JSON
    phi: bytes
    digest: bytes  # and a second one where the line was forgotten

    def computed(self) -> bytes:
        """The digest of what is stored here."""
        kind, id, event = (
            self.kind.encode(),
            self.id.encode(),
            None if self.event is None else self.event.encode(),
        )
        return _digest(self.seq, self.namespace, self.line, kind, id, event, self.source, self.body, self.phi)


def _digest(
    seq: int,
    namespace: int,
    line: int,
    kind: bytes,
    id: bytes,
    event: bytes | None,
    source: int | None,
    body: bytes,
    phi: bytes,
) -> bytes:
    """The digest of a row: H(numbers and sizes ‖ texts ‖ body ‖ φ)."""
    about = event or b""
    head = (
        f"({seq}, {namespace}, {line}, {source}, {event is None}, "
        f"{len(kind)}, {len(id)}, {len(about)}, {len(body)})"
    )
    return blake2b(b"".join((head.encode(), kind, id, about, body, phi)), digest_size=DIGEST).digest()


def whole_row(values: Sequence[Any]) -> StoredRow | None:
    """A row as a database gives it, if every byte is as it was written; None for any other."""
    seq, namespace, line, kind, id, event, source, body, phi, digest = values
    try:
        found = _digest(seq, namespace, line, kind, id, event, source, body, phi)
        if found != digest[-DIGEST:] or len(digest) not in (DIGEST, 2 * DIGEST):
            return None
    except TypeError:  # what should be text or bytes is a number
        return None
    about = None if event is None else event.decode("utf-8", "replace")
    texts = kind.decode("utf-8", "replace"), id.decode("utf-8", "replace")
    return StoredRow(seq, namespace, line, *texts, about, source, body, phi, digest)


def short_kind(kind: str) -> str:
    """A kind as it is stored."""
    return _SHORT.get(kind, "=" + kind)


class Shaped(NamedTuple):
    """Bodies of one shape, their lines' numbers, and where values begin in each."""

    shape: Shape
    at: int
    places: list[int]
    bodies: list[bytes]


class Packing:
    """Packs the lines of a namespace, given the body of its first, and reads them back."""

    def __init__(self, first: bytes = b"") -> None:
        self._bodies = BodyPacking(first)

    def row(
        self, queued: Queued, namespace: int, line: int, source: int | None, salt: bytes | None = None
    ) -> StoredRow:
        """The row of a record; with a new salt, if none is given."""
        r = queued.record
        packed = queued.body if queued.packed else self._bodies.pack(queued.body)
        body, phi = _salted(packed, r.phi, salt or new_salts(1))
        event = None if r.event == r.id and r.kind == "decision" else r.event
        row = StoredRow(r.seq, namespace, line, short_kind(r.kind), r.id, event, source, body, phi, b"")
        return row._replace(digest=row.computed())

    def erased(self, row: StoredRow, body: bytes) -> StoredRow:
        """The row with another body, no φ, and the digest that it had beside the new one."""
        packed, phi = _salted(self._bodies.pack(body), b"", new_salts(1))
        new = row._replace(body=packed, phi=phi)
        return new._replace(digest=row.digest[:DIGEST] + new.computed())

    def record(self, row: StoredRow) -> Record:
        """The record of a row that is whole."""
        narrow = row.body[SALT] & _FLOAT32
        phi = np.frombuffer(row.phi, "<f4").astype("<f8").tobytes() if narrow else row.phi
        kind = _LONG.get(row.kind) or row.kind[1:]
        event = row.id if row.event is None else row.event
        return Record(kind, row.id, event, self._bodies.loads(row.body[SALT + 1 :]), phi, row.seq)

    def by_shape(self, rows: Sequence[tuple[int, StoredRow]]) -> list[Shaped]:
        """Rows by the shapes of their bodies, each with its number; those without a shape are left out."""
        found: dict[bytes, list[int]] = {}
        bodies = []
        for place, (_, row) in enumerate(rows):
            body = row.body
            bodies.append(body)
            if body[SALT + 1] == SHAPED:
                size = body[SALT + 2] - 15  # of most shapes, with the byte that says so
                key = (
                    body[SALT + 2 : SALT + 2 + size] if size < 49 else self._bodies.shape_key(body, SALT + 2)
                )
                found.setdefault(key, []).append(place)
        out = []
        for places in found.values():
            shape, at = self._bodies.shapes.shape(bodies[places[0]], SALT + 2)
            out.append(Shaped(shape, at, [rows[i][0] for i in places], [bodies[i] for i in places]))
        return out

    def word(self, number: int) -> str:
        """The string that has this number in bodies, from 1."""
        return self._bodies.shapes.word(number)

    def json(self, row: StoredRow) -> bytes:
        """The body of a row that is whole."""
        return self._bodies.unpack(row.body[SALT + 1 :])

    def packed(self, body: Mapping[str, Any]) -> bytes:
        """A body of a line, as a row keeps it behind its salt; raises what `json.dumps` does."""
        return self._bodies.pack_body(body)


def new_salts(count: int) -> bytes:
    """Bytes for so many salts. Python gives its lock up once for them all."""
    return os.urandom(SALT * count)


def _salted(packed: bytes, phi: bytes, salt: bytes) -> tuple[bytes, bytes]:
    """A packed body with its salt and flag, and φ in as few bytes as it takes."""
    narrow = _as_float32(phi)
    salted = b"".join((salt, _FLAGS[narrow is not None], packed))
    return salted, phi if narrow is None else narrow


class PackedLines(NamedTuple):
    """Lines of a namespace in order, whose bodies are read when they are asked for."""

    rows: list[StoredRow]
    packing: Packing  # of all but the namespace's first line
    record_of: Callable[[StoredRow], Record]

    def record(self, place: int) -> Record:
        """A line as a record."""
        return self.record_of(self.rows[place])

    def phis(self, places: Sequence[int]) -> FloatArray:
        """φ of lines, a row each, which `has_phi` of this size."""
        raw = b"".join([self.rows[place].phi for place in places])
        return np.frombuffer(raw, "<f4").reshape(len(places), -1).astype(np.float64)

    def has_phi(self, place: int, size: int) -> bool:
        """Whether a line has a φ of so many numbers, in half the bytes."""
        row = self.rows[place]
        return len(row.phi) == 4 * size and bool(row.body[SALT] & _FLOAT32)


def _as_float32(phi: bytes) -> bytes | None:
    """The numbers in half the bytes; None where that would change one."""
    if not phi or len(phi) % 8:
        return None
    wide = np.frombuffer(phi, "<f8")
    with np.errstate(over="ignore"):
        narrow = wide.astype("<f4")
    return narrow.tobytes() if narrow.astype("<f8").tobytes() == phi else None


def checksum(*parts: int | str | bytes) -> int:
    """CRC32 of the parts of a row that is no record."""
    return zlib.crc32(repr(parts).encode())
