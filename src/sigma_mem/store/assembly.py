"""Rows of a batch of records, and what they make of namespaces, sources and chains; no SQL."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sigma_mem.store.base import Record
from sigma_mem.store.chain import START, Link, Space
from sigma_mem.store.rows import SALT, Queued, StoredRow, new_salts, stored_row


class SourceLines(NamedTuple):
    """How many lines a source has."""

    number: int
    namespace: int
    name: str
    lines: int


@dataclass(slots=True)
class Books:
    """Namespaces by name, and sources by namespace and name."""

    spaces: dict[str, Space] = field(default_factory=dict)
    sources: dict[tuple[int, str], SourceLines] = field(default_factory=dict)

    def next_space_number(self, changed: "Books") -> int:
        """The number of a namespace that is new, where one process gives them."""
        return len(self.spaces) + sum(name not in self.spaces for name in changed.spaces) + 1

    def next_source_number(self, changed: "Books") -> int:
        """The number of a source that is new, where one process gives them."""
        return len(self.sources) + sum(key not in self.sources for key in changed.sources) + 1


@dataclass(slots=True)
class Assembly:
    """A batch as rows: given the books before it, the books' changes after it.

    Parameters
    ----------
    known : Books
        As the last commit left them.
    erased : callable
        The row of an earlier line with another body, by its number, the body and the namespace.
    new_space, new_source : callable
        The number of a namespace or source that is not in the books; they get the changes so far.

    Attributes
    ----------
    places : mapping of namespace and seq
        Where chains are after each row.
    """

    known: Books
    erased: Callable[[int, bytes, int], StoredRow]
    new_space: Callable[[Books], int]
    new_source: Callable[[Books], int]
    changed: Books = field(default_factory=Books)
    rows: list[StoredRow] = field(default_factory=list)
    erasures: list[StoredRow] = field(default_factory=list)
    places: dict[tuple[str, int], Link] = field(default_factory=dict)

    def add(self, records: Sequence[Queued]) -> None:
        """Make the rows of records."""
        salts = new_salts(len(records))
        for place, queued in enumerate(records):
            space = self._open_space(queued.namespace)
            source = self._next_source(queued.record, space.number)
            salt = salts[SALT * place : SALT * (place + 1)]
            row = stored_row(queued.record, space.number, space.lines + 1, source, salt)
            link = Link(space.lines, space.head, 0).follow(row)
            sourced = space.sourced + (source is not None)
            self.changed.spaces[queued.namespace] = space._replace(
                lines=link.lines, sourced=sourced, head=link.head
            )
            self.places[queued.namespace, row.seq] = link
            self.rows.append(row)
            self.erasures += [self.erased(seq, body, space.number) for seq, body in queued.erases.items()]

    def _open_space(self, name: str) -> Space:
        space = self.changed.spaces.get(name) or self.known.spaces.get(name)
        return space or Space(self.new_space(self.changed), name, 0, 0, START.head, 0)

    def _next_source(self, record: Record, namespace: int) -> int | None:
        """Count one line more of a feedback's source; return its number."""
        if record.source is None:
            return None
        key = namespace, record.source
        line = self.changed.sources.get(key) or self.known.sources.get(key)
        if line is None:
            line = SourceLines(self.new_source(self.changed), namespace, record.source, 0)
        self.changed.sources[key] = line._replace(lines=line.lines + 1)
        return line.number
