"""A record as a row of a table: salted, compressed, and with a digest that is chained to the row before it.

The digest is H(digest of the line before ‖ row), so that the last one stands for all lines in order. A line
that was forgotten keeps its digest, and has a second one of what is stored instead. Its salt is gone, so that
nobody can guess its text.

Bodies are zstd with a dictionary of what lines have in common. It is part of the format, made by
``benchmarks/line_dictionary.py``, and holds no line of a memory: a line that is forgotten must not be needed
to read another.
"""

import os
import sys
import threading
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any, NamedTuple

from sigma_mem.store.base import Erased, Record

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_PLAIN, _ZSTD = b"\0", b"\1"  # first byte of what is stored
_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: 3,
    zstd.CompressionParameter.checksum_flag: 0,
    zstd.CompressionParameter.dict_id_flag: 0,
}
_OF_THREAD = threading.local()  # two threads may not use one compressor at once


def packed(body: bytes) -> bytes:
    """A body as it is stored."""
    compressor: zstd.ZstdCompressor | None = getattr(_OF_THREAD, "compressor", None)
    if compressor is None:
        compressor = zstd.ZstdCompressor(options=_OPTIONS, zstd_dict=_dictionary())
        _OF_THREAD.compressor = compressor
    small = compressor.compress(body, zstd.ZstdCompressor.FLUSH_FRAME)
    return _ZSTD + small if len(small) < len(body) else _PLAIN + body


def unpacked(stored: bytes) -> bytes:
    """The body that was stored."""
    return zstd.decompress(stored[1:], _dictionary()) if stored[:1] == _ZSTD else stored[1:]


@cache
def _dictionary() -> zstd.ZstdDict:
    return zstd.ZstdDict((files("sigma_mem.store") / "lines.zdict").read_bytes())


DIGEST = 16  # bytes
SALT = 8
START = bytes(DIGEST)  # before the first line
Row = tuple[int, int, str, str, str | None, str | None, bytes, bytes]
"""Namespace, seq, kind, id, event (None if it is the id), source, body (salt, packed), digest."""

_SHORT = {"decision": "d", "feedback": "f"}  # of kinds; any other has a mark before it
_LONG = {short.encode(): kind for kind, short in _SHORT.items()}


class Space(NamedTuple):
    """A namespace, from its row."""

    number: int
    name: str
    lines: int = 0
    head: bytes = START  # digest of the last line
    erased: int = 0  # last line that forgot others: no snapshot from before it is used

    def check(self) -> int:
        """The checksum that its row keeps."""
        return zlib.crc32(repr(tuple(self)).encode())

    @classmethod
    def read(cls, values: Sequence[Any]) -> "Space | None":
        """A namespace as a database gives it with its checksum; None if it is damaged."""
        number, name, lines, head, erased, crc = values
        if isinstance(name, bytes) and isinstance(head, bytes):
            space = cls(number, name.decode(errors="replace"), lines, head, erased)
            if crc == space.check():
                return space
        return None


def short_kind(kind: str) -> str:
    """A kind as it is stored."""
    return _SHORT.get(kind, "=" + kind)


def rows_after(space: Space, records: Iterable[Record]) -> tuple[list[Row], Space]:
    """The rows of records that follow, and the namespace after them."""
    rows: list[Row] = []
    for record in records:
        event = None if record.event == record.id and record.kind == "decision" else record.event
        kind, body = short_kind(record.kind), os.urandom(SALT) + packed(record.body)
        lines, source = space.lines + 1, record.source
        about, by = (None if text is None else text.encode() for text in (event, source))
        named = kind.encode(), record.id.encode()
        head = _digest(space.head, space.number, lines, *named, about, by, body)
        rows.append((space.number, lines, kind, record.id, event, source, body, head))
        space = space._replace(lines=lines, head=head)
    return rows, space


def erased_row(values: Sequence[Any], left: Erased) -> tuple[str, bytes, bytes]:
    """Id, body and digest of a row, as a database gives it, of which only this is left; it has no source."""
    number, seq, kind, _, event, _, _, digest, _ = values
    body, chained = os.urandom(SALT) + packed(left.body), digest[:DIGEST]
    return left.id, body, chained + _digest(chained, number, seq, kind, left.id.encode(), event, None, body)


def is_whole(values: Sequence[Any]) -> bool:
    """Whether every byte of a row, as a database gives it with the digest before it, is as it was written."""
    number, seq, kind, id, event, source, body, digest, before = values
    try:
        if len(digest) == DIGEST:
            start = START if before is None else before[:DIGEST]
            return bool(digest == _digest(start, number, seq, kind, id, event, source, body))
        erased = _digest(digest[:DIGEST], number, seq, kind, id, event, source, body)
        return len(digest) == 2 * DIGEST and bool(digest[DIGEST:] == erased)
    except TypeError:  # what should be text or bytes is a number
        return False


def record_in(values: Sequence[Any]) -> Record:
    """The record of a row that is whole."""
    _, seq, kind, id, event, source, body, _, _ = values
    name = id.decode()
    return Record(
        _LONG.get(kind) or kind[1:].decode(),
        name,
        name if event is None else event.decode(),
        unpacked(body[SALT:]),
        None if source is None else source.decode(),
        seq,
    )


def _digest(
    before: bytes,
    number: int,
    seq: int,
    kind: bytes,
    id: bytes,
    event: bytes | None,
    source: bytes | None,
    body: bytes,
) -> bytes:
    """H(digest of the line before ‖ numbers and sizes ‖ texts ‖ body)."""
    about, by = event or b"", source or b""
    sizes = f"{number} {seq} {len(kind)} {len(id)} {len(about)} {len(by)} {event is None} {source is None} "
    return blake2b(b"".join((before, sizes.encode(), kind, id, about, by, body)), digest_size=DIGEST).digest()
