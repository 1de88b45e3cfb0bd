"""The chain over a namespace's lines: how many there are, and one digest of all of them in order.

The digest after line n is H(digest after line n − 1 ‖ digest of line n). A namespace keeps the last one with
its number of lines, in the same transaction as the lines, so that a line that is missing, changed or in
another place shows when they are read, although an index that led to it was damaged.
"""

import zlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from sigma_mem.errors import StoreCorruptError
from sigma_mem.store.rows import DIGEST, StoredRow, checksum


class Link(NamedTuple):
    """A place in the chain: after so many lines, with this digest of all of them; the last one's seq."""

    lines: int
    head: bytes
    seq: int

    def follow(self, row: StoredRow) -> "Link":
        """The place after one line more."""
        return Link(row.line, blake2b(self.head + row.digest[:DIGEST], digest_size=DIGEST).digest(), row.seq)

    def check_of_snapshot(self, namespace: str, seq: int, body: bytes) -> int:
        """The checksum that the row of a snapshot keeps which was taken here."""
        return checksum(namespace, seq, self.lines, self.head, zlib.crc32(body))


START = Link(0, bytes(DIGEST), 0)


class Space(NamedTuple):
    """A namespace as its row tells it, and the number of the last record of the whole file."""

    number: int
    name: str
    lines: int
    sourced: int  # lines that have a source
    head: bytes
    last: int

    def check(self) -> int:
        """The checksum that its row keeps."""
        return checksum(self.number, self.name, self.lines, self.sourced, self.head)


def follow_all(rows: Sequence[StoredRow], start: Link, what: str) -> Link:
    """The place after all of these rows; StoreCorruptError where a line is missing."""
    line, head, seq = start
    for row in rows:
        if row.line != line + 1:
            raise StoreCorruptError(
                f"{what}: line {line + 1} is missing before record {row.seq}; restore it from a backup"
            )
        line, seq = row.line, row.seq
        head = blake2b(head + row.digest[:DIGEST], digest_size=DIGEST).digest()
    return Link(line, head, seq)


def refuse_other_end(at: Link, space: Space, what: str, chained: bool) -> None:
    """StoreCorruptError unless a chain ends where the namespace says that it does."""
    if at.lines != space.lines or (chained and at.head != space.head):
        found = f"{at.lines} lines" if at.lines != space.lines else "lines with another digest"
        raise StoreCorruptError(
            f"{what} is damaged: found {found}, expected the {space.lines} that were written; "
            "restore it from a backup"
        )
