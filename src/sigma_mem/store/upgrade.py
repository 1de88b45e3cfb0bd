"""Lines of a file that was written before there was a chain, copied into it."""

import json
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sigma_mem.errors import StoreCorruptError
from sigma_mem.store.base import Record
from sigma_mem.store.chain import START, Link, Space
from sigma_mem.store.database import queries
from sigma_mem.store.prints import SEGMENT, sealed
from sigma_mem.store.rows import Packing, Queued, checksum

_OLDER = "SELECT seq, namespace, kind, id, event, body, phi, crc FROM older_record ORDER BY seq"
_SNAPSHOTS = "SELECT namespace, seq, crc, body FROM older_snapshot"


def copy_lines(db: sqlite3.Connection) -> None:
    """Copy records, then snapshots, and remove the older tables; all in the caller's transaction."""
    sql, spaces, sources = queries(), dict[str, Space](), dict[tuple[int, str], list[int]]()
    packings: dict[str, Packing] = {}
    snapshots = {row[0].decode(): row for row in db.execute(_SNAPSHOTS)}
    places: dict[str, Link] = {}  # of the chain, where snapshots were taken
    last = 0
    for namespace, record, body in _older_records(db):
        space = spaces.get(namespace) or Space(len(spaces) + 1, namespace, 0, 0, START.head, 0)
        source, name = None, record.body.get("source") if record.kind == "feedback" else None
        if isinstance(name, str):
            count = sources.setdefault((space.number, name), [len(sources) + 1, 0])
            count[1] += 1
            source = count[0]
        packing = packings.get(namespace) or Packing()
        row = packing.row(Queued(namespace, record, body), space.number, space.lines + 1, source)
        if space.lines == 0:
            packings[namespace] = Packing(body)
        link = Link(space.lines, space.head, 0).follow(row)
        sourced = space.sourced + (source is not None)
        spaces[namespace] = space._replace(lines=link.lines, sourced=sourced, head=link.head)
        if namespace in snapshots and record.seq <= snapshots[namespace][1]:
            places[namespace] = link
        db.execute(sql["append"], row)
        last = record.seq
    for number in range(1, last // SEGMENT + 1):
        names = db.execute(sql["names"], ((number - 1) * SEGMENT, SEGMENT)).fetchall()
        db.execute(sql["save_segment"], sealed(number, names))
    for space in spaces.values():
        db.execute(sql["save_space"], (*space[:5], space.check()))
    for (of, name), (number, lines) in sources.items():
        db.execute(sql["save_source"], (number, of, name, lines, checksum(number, of, name, lines)))
    for name, place in places.items():
        _, seq, crc, state = snapshots[name]
        if crc == _crc(seq, name.encode(), state):  # a damaged one is left behind: the ledger has everything
            check = place.check_of_snapshot(name, seq, state)
            db.execute(sql["save_snapshot"], (name, seq, place.lines, place.head, check, state))
    db.execute("DROP TABLE older_record")
    db.execute("DROP TABLE older_snapshot")


def _older_records(db: sqlite3.Connection) -> Iterator[tuple[str, Record, bytes]]:
    """Every line with its namespace and its body as JSON; StoreCorruptError where one is damaged."""
    path = Path(db.execute("PRAGMA database_list").fetchone()[2].decode())
    for expected, row in enumerate(db.execute(_OLDER), start=1):
        seq, *parts, crc = row
        if seq != expected or not all(isinstance(part, bytes) for part in parts) or crc != _crc(seq, *parts):
            raise StoreCorruptError(
                f"{path}: record {expected} is damaged or missing; the file was left as it was. "
                "Restore it from a backup"
            )
        namespace, kind, id, event, body, phi = parts
        texts = (kind.decode(), id.decode(), event.decode())
        yield namespace.decode(), Record(*texts, json.loads(body), phi, seq), body


def _crc(seq: int, *parts: Any) -> int:
    """The CRC32 that versions before the chain kept."""
    return zlib.crc32(b"\0".join((b"%d" % seq, *parts)))
