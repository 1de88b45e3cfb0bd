"""A record as a row of the file."""

import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from sigma_mem.store.base import Record


class Queued(NamedTuple):
    """A record on its way to the file, and its body as JSON."""

    namespace: str
    record: Record
    body: bytes


def encoded(body: Mapping[str, Any]) -> bytes:
    """A body as JSON; raises TypeError, ValueError or RecursionError where it has no such form."""
    return json.dumps(dict(body), allow_nan=False, separators=(",", ":")).encode()


def packed_row(namespace: str, r: Record, body: bytes) -> tuple[str | int | bytes, ...]:
    """A record as a row of the table."""
    texts = (namespace, r.kind, r.id, r.event, body.decode())
    return (r.seq, *texts, r.phi, checksum(r.seq, *(text.encode() for text in texts), r.phi))


def checksum(seq: int, *parts: bytes) -> int:
    """CRC32 of a record (seq, namespace, kind, id, event, body, φ) or snapshot (seq, namespace, body)."""
    return zlib.crc32(b"\0".join((b"%d" % seq, *parts)))
