"""Two memories as one: their events in the order of time, in a new ledger.

Decisions keep what they claimed, events get new places on one decay axis, and what was learned is then as if
one memory had seen them all. Peers have the names that they have now. A peer that was reset in one memory is
reset in both, and a source that one of them revoked is revoked. A peer leaves if no memory has it any more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from heapq import merge as merge_sorted
from typing import Any, NamedTuple

from msgspec.structs import replace

from sigma_mem.admin.transfer import build_store, owning
from sigma_mem.errors import ConflictError, InputError
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.journal import Journal
from sigma_mem.ledger.lines import (
    DecisionLine,
    FeedbackLine,
    ForgottenLine,
    Line,
    OpenLine,
    PeerLine,
    RenameLine,
    ResetLine,
    peer_line,
    reset_line,
    revoke_line,
)
from sigma_mem.ledger.pool import PoolChanges
from sigma_mem.ledger.records import FORGETTABLE, Ledger
from sigma_mem.session import SigmaMem
from sigma_mem.session.checks import checked_kind
from sigma_mem.store.base import Store

_NEVER = 2**62  # lines until a snapshot
_COPIED = ("decision", "ref", "served", "feedback", "price")

Forgotten = dict[str, dict[tuple[str, str], Line[Any]]]


class MergedPart(NamedTuple):
    """One memory to be merged: its lines up to one of them, and the pool and revoked sources there."""

    ledger: Ledger
    opening: OpenLine
    seq: int
    peers: tuple[str, ...]
    departed: frozenset[str]
    revoked: frozenset[str]
    pool: PoolChanges


def merge(
    one: SigmaMem, other: SigmaMem, path: str | os.PathLike[str] | None = None, *, namespace: str = "default"
) -> SigmaMem:
    """Make a new memory from two: as if one had seen the events of both, in the order of time.

    Both stay as they are. They must have the same rank, settings and encoder. Events that both have,
    being copies of one memory, are taken once.

    Parameters
    ----------
    one, other : SigmaMem
    path, namespace
        Of the new memory, as for `refold`.
    """
    parts = [_part_of(mem) for mem in (one, other)]
    opening = _merged_opening(*parts)

    def fill(store: Store) -> None:
        _append_merged(Journal(store, namespace, opening, _NEVER), *parts)

    store, _ = build_store(path, namespace, opening, one.clock(), fill)
    return owning(store, namespace, one.question_encoder)


def _part_of(mem: SigmaMem) -> MergedPart:
    checked_kind("other", mem, SigmaMem, "another memory")
    with mem.journal as fold:
        gone, revoked, pool = frozenset(fold.departed), frozenset(fold.revoked), PoolChanges(fold.pool)
        return MergedPart(mem.journal.ledger, mem.opening, fold.seq, fold.state.peers, gone, revoked, pool)


def _merged_opening(one: MergedPart, two: MergedPart) -> OpenLine:
    """What the new memory is made of: every peer that one of them ever had, by its last name."""
    for what in ("rank", "settings", "encoder"):
        mine, others = getattr(one.opening, what), getattr(two.opening, what)
        if mine != others:
            raise InputError(
                f"the memories differ in {what}: {mine} and {others}; refold one of them to the other's first"
            )
    peers = dict.fromkeys((*one.peers, *two.peers, *sorted(one.departed | two.departed)))
    texts = one.opening.keep_text or two.opening.keep_text  # lines are copied as they are
    return replace(one.opening, peers=tuple(peers), keep_text=texts)


def _append_merged(journal: Journal, one: MergedPart, two: MergedPart) -> None:
    """Fill a new memory with the lines of both."""
    last, forgotten = 0.0, _forgotten(one, two)
    for time, _, line in merge_sorted(_timed(one, 0, forgotten), _timed(two, 1, forgotten)):
        last = time
        with journal.writing() as fold:
            fitted = _fitted(journal, fold, line)
            if fitted is not None:
                journal.append(fitted)
    with journal.writing() as fold:
        staying = {*one.peers, *two.peers}
        for peer in [peer for peer in fold.state.peers if peer not in staying]:
            journal.append(peer_line(peer, False, last, len(fold.pool)))
        for source in sorted(one.revoked | two.revoked):
            journal.append(revoke_line(source, source, last))
    journal.store.flush()


def _forgotten(one: MergedPart, two: MergedPart) -> Forgotten:
    """What is left of events that were forgotten in one of the memories, by event, kind and id.

    A line that only the other one has is left out except for its place.
    """
    found: Forgotten = {}
    for part in (one, two):
        for line in part.ledger.lines(until=part.seq):
            if line.is_forgotten:
                found.setdefault(line.event, {})[line.kind, line.id] = part.pool.translated(line)
    for part in (one, two):
        for event, lines in found.items():
            for line in part.ledger.of_event(event):
                if line.kind in FORGETTABLE and (left := line.body.left()) is not None:
                    lines.setdefault((line.kind, line.id), line._replace(body=left))
    return found


def _timed(part: MergedPart, number: int, forgotten: Forgotten) -> Iterator[tuple[float, int, Line[Any]]]:
    """Lines to copy, with a time that never goes back, so that each ledger keeps its order."""
    time = 0.0
    for line in part.ledger.lines(until=part.seq):
        body = line.body
        time = max(time, getattr(body, "time", time))
        if line.kind in _COPIED:
            emptied = forgotten.get(line.event, {}).get((line.kind, line.id))
            yield time, number, emptied or part.pool.translated(line)
        elif isinstance(body, PeerLine | ResetLine | RenameLine) and body.keep < 1.0:
            peer = part.pool.names_since(line.seq - 1).get(body.peer, body.peer)
            yield time, number, reset_line(peer, body.keep, number, body.time)
        if isinstance(body, PeerLine) and body.like is not None:
            yield time, number, part.pool.translated(line)


def _fitted(journal: Journal, fold: Fold, line: Line[Any]) -> Line[Any] | None:
    """A line as the new ledger needs it; None if it is there already."""
    if isinstance(line.body, ResetLine):
        return reset_line(line.body.peer, line.body.keep, len(fold.pool), line.body.time)
    if isinstance(line.body, PeerLine):
        return line._replace(id=f"{len(fold.pool)}+{line.body.peer}", seq=0)
    if line.kind == "price":
        return line._replace(id=str(fold.costs.price_lines), seq=0)
    before = journal.ledger.find(line.kind, line.id)
    if before is not None:  # both memories are copies of one that was, or an id was used twice
        return _of_both(journal, fold, before, line)
    return replaced(fold, line)


def _of_both(journal: Journal, fold: Fold, before: Line[Any], line: Line[Any]) -> Line[Any] | None:
    one, two = before.body, line.body
    if before.event == line.event:
        if before.is_forgotten:
            return None
        if isinstance(two, FeedbackLine):
            if (one.labels, one.source) == (two.labels, two.source):
                return None
            number = 1
            while journal.ledger.find("feedback", f"{line.id}~{number}"):
                number += 1
            return replaced(fold, line._replace(id=f"{line.id}~{number}", body=replace(two, amends=True)))
        if not isinstance(two, DecisionLine) or one.phi == two.phi:
            return None
    raise ConflictError(
        f"both memories have a {line.kind} {line.id!r}, and they differ; expected memories of different "
        "events, or copies of one"
    )


def replaced(fold: Fold, line: Line[Any]) -> Line[Any] | None:
    """A decision or feedback at its place on the decay axis of another memory; None without its event."""
    body = line.body
    if isinstance(body, DecisionLine) or (isinstance(body, ForgottenLine) and line.kind == "decision"):
        tick = fold.state.next_tick(body.time)
        if line.id != line.event and not line.is_forgotten:
            event = fold.event(line.event)
            if event is None:
                return None
            tick = event.tick
        return line._replace(seq=0, body=replace(body, tick=tick, now=fold.state.moment(body.time)))
    if isinstance(body, FeedbackLine):
        event = fold.event(line.event)
        if event is None:
            return None
        tick = event.tick if event.lines else fold.state.next_label_tick(event.tick)
        return line._replace(seq=0, body=replace(body, tick=tick))
    return line._replace(seq=0)
