"""Changes of the pool: peers that came, left, were reset, renamed or replaced; what that means for old lines.

A line of the ledger names peers as they were called when it was written, and what an event taught about a
peer counts only in part once the peer was reset or replaced. Both follow from the changes after that line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.ledger.lines import B, Line, renamed


class PeerChange(NamedTuple):
    """One change of the pool.

    ``becomes`` is the new name of a peer that was renamed or replaced; ``keep`` the share of its record that
    stays: 0 for a peer that returns, 1 for one that is renamed, joins or leaves. One that joins may be given
    a ``share`` of the record of another, which it is ``like``.
    """

    seq: int
    peer: str
    becomes: str | None = None
    keep: float = 1.0
    like: str | None = None
    share: float = 0.0


class PoolChanges:
    """All changes up to some line of the ledger, in order.

    Examples
    --------
    >>> pool = PoolChanges([PeerChange(5, "ann", keep=0.5), PeerChange(9, "ann", "eve", 0.1)])
    >>> pool.names_since(3), pool.shares_since(3, ["eve", "bob"]).tolist()
    ({'ann': 'eve'}, [[0.05, 0.0], [0.0, 1.0]])
    >>> pool.names_since(9), pool.shares_since(9, ["eve", "bob"])
    ({}, None)
    """

    def __init__(self, changes: Iterable[Sequence[Any]] = ()) -> None:
        self._changes = [PeerChange(*change) for change in changes]
        self._names: dict[int, dict[str, str]] = {}  # by the number of changes before a line

    def __iter__(self) -> Iterator[PeerChange]:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, change: PeerChange) -> None:
        """Take in the newest change."""
        self._changes.append(change)
        self._names.clear()

    def names_since(self, seq: int, until: int | None = None) -> Mapping[str, str]:
        """What peers that line `seq` names are called now, or before line `until`; only those that differ."""
        first = self._after(seq)
        if until is not None:
            return _composed(self._changes[first : self._after(until - 1)])
        if first not in self._names:
            self._names[first] = _composed(self._changes[first:])
        return self._names[first]

    def shares_since(self, seq: int, peers: Sequence[str], until: int | None = None) -> FloatArray | None:
        """What each of these peers has of what was learned of each at line `seq`, (P, P); None for its own.

        Row p has what became p's, or is p's own on the diagonal.
        """
        end = len(self._changes) if until is None else self._after(until - 1)
        later = self._changes[self._after(seq) : end]
        if all(change.keep == 1.0 and not change.share for change in later):
            return None
        found = [_traced(peer, later) for peer in peers]
        names = _composed(later)
        origin = {names.get(then, then): then for shares in found for then in shares}
        return np.array([[shares.get(origin.get(of, of), 0.0) for of in peers] for shares in found])

    def name_then(self, peer: str, seq: int, pool: Iterable[str]) -> str | None:
        """Which of this pool, which line `seq` names, is the peer that has or had a name; None if nobody."""
        names, now = self.names_since(seq), self.names_since(0).get(peer, peer)
        return next((name for name in pool if names.get(name, name) == now), None)

    def translated(self, line: Line[B], until: int | None = None) -> Line[B]:
        """The line with peers as they are called now, or before line `until`."""
        names = self.names_since(line.seq, until) if self._changes else {}
        return renamed(line, names) if names else line

    def _after(self, seq: int) -> int:
        return bisect_right(self._changes, seq, key=lambda change: change.seq)


def _composed(changes: Iterable[PeerChange]) -> dict[str, str]:
    names: dict[str, str] = {}
    for change in changes:
        if change.becomes is not None:
            for old, new in names.items():
                if new == change.peer:
                    names[old] = change.becomes
            names.setdefault(change.peer, change.becomes)
    return {old: new for old, new in names.items() if old != new}


def _traced(peer: str, changes: Sequence[PeerChange]) -> dict[str, float]:
    """Whose record before these changes a peer has after them, by the names before, and how much of each."""
    shares = {peer: 1.0}
    for change in reversed(changes):
        share = shares.pop(change.becomes or change.peer, None)
        if share is not None:
            for of, part in ((change.peer, change.keep), (change.like, change.share)):
                if of is not None and part:
                    shares[of] = shares.get(of, 0.0) + share * part
    return shares
