"""Everything that a memory file says of itself, checked: rows, indexes, chains, sources, fingerprints."""

from collections import Counter

from sigma_mem.store.chain import START, Link, refuse_other_end
from sigma_mem.store.prints import SEGMENT, sealed
from sigma_mem.store.tables import Tables

_PAGE = 512  # records


def verify_all(tables: Tables) -> int:
    """Check the whole file, every record and every chain; return how many records there are."""
    found = tables.read("integrity_check")[0][0]
    if found != b"ok":
        raise tables.damaged(f"SQLite says {found.decode(errors='replace')!r}")
    spaces = {space.number: space for space in tables.spaces()}
    at: dict[int, Link] = {}
    of_source: Counter[int] = Counter()
    seq, last = 0, max((space.last for space in spaces.values()), default=0)
    while seq < last and (page := tables.read("page_of_all", seq, _PAGE)):
        for values in page:
            seq += 1
            row = tables.row(values)
            if row.seq != seq:
                raise tables.damaged(f"record {seq} is missing")
            tables.record(row)
            place = at.get(row.namespace, START)
            if row.line != place.lines + 1:
                raise tables.damaged(f"record {seq} is line {row.line}, expected {place.lines + 1}")
            at[row.namespace] = place.follow(row)
            if row.source is not None:
                of_source[row.source] += 1
            if seq == last:
                break
    for number, space in spaces.items():
        refuse_other_end(at.get(number, START), space, f"{tables.path}: the ledger of {space.name!r}", True)
        for line in tables.sources(number):
            if of_source[line.number] < line.lines:
                raise tables.damaged(
                    f"source {line.name!r} has {of_source[line.number]} of {line.lines} lines"
                )
    _verify_segments(tables, last)
    return last


def _verify_segments(tables: Tables, last: int) -> None:
    found = tables.read("segments", 0)
    if len(found) < last // SEGMENT:
        raise tables.damaged(f"{len(found)} segments of fingerprints were found, of {last // SEGMENT}")
    for expected, row in enumerate(found, start=1):
        if tuple(row) != sealed(expected, tables.read("names", (expected - 1) * SEGMENT, SEGMENT)):
            raise tables.damaged(f"fingerprints {expected} are damaged")
