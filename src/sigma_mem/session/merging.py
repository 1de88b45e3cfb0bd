"""Two memories as one: their events in the order of time, in a new ledger.

Decisions keep what they claimed, events get new places on one decay axis, and what was learned is then as if
one memory had seen them all. Peers have the names of now. Who was reset in one memory is reset in both, and
what a source said that one of them revoked is revoked; a peer leaves where no memory has it any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import merge as merge_sorted
from typing import NamedTuple

from sigma_mem.errors import ConflictError, InputError
from sigma_mem.session.fold import Fold
from sigma_mem.session.forgetting import bare_body
from sigma_mem.session.journal import Journal
from sigma_mem.session.lines import Opening, is_forgotten, peer_record, reset_record, revoke_record
from sigma_mem.session.pool import PoolChanges
from sigma_mem.store.base import Record, Store

_COPIED = ("decision", "ref", "served", "feedback", "price")

_EMPTIED = ("decision", "served", "feedback")

Forgotten = dict[str, dict[tuple[str, str], Record]]


class Ledger(NamedTuple):
    """One memory to be merged: its lines up to one of them, and the pool and revoked sources there."""

    store: Store
    namespace: str
    opening: Opening
    seq: int
    peers: tuple[str, ...]
    departed: frozenset[str]
    revoked: frozenset[str]
    pool: PoolChanges


def merged_opening(one: Ledger, two: Ledger) -> Opening:
    """What the new memory is made of: every peer that one of them ever had, by its last name."""
    for what in ("rank", "settings", "encoder"):
        mine, others = getattr(one.opening, what), getattr(two.opening, what)
        if mine != others:
            raise InputError(
                f"the memories differ in {what}: {mine} and {others}; refold one of them to the other's first"
            )
    peers = dict.fromkeys((*one.peers, *two.peers, *sorted(one.departed | two.departed)))
    texts = any(
        ledger.opening.keep_text is not False for ledger in (one, two)
    )  # lines are copied as they are
    return replace(one.opening, peers=tuple(peers), keep_text=texts)


def append_merged(journal: Journal, one: Ledger, two: Ledger) -> None:
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
            journal.append(peer_record(peer, False, last, len(fold.pool)))
        for source in sorted(one.revoked | two.revoked):
            journal.append(revoke_record(source, source, last))
    journal.store.flush()


def _forgotten(one: Ledger, two: Ledger) -> Forgotten:
    """What is left of events that one of the memories was told to forget, by event, kind and id.

    A line that only the other one has is left out but for its place.
    """
    found: Forgotten = {}
    for ledger in (one, two):
        for line in ledger.store.records(ledger.namespace, until=ledger.seq):
            if is_forgotten(line):
                found.setdefault(line.event, {})[line.kind, line.id] = ledger.pool.translated(line)
    for ledger in (one, two):
        for event, lines in found.items():
            for line in ledger.store.of_event(ledger.namespace, event):
                if line.kind in _EMPTIED:
                    lines.setdefault((line.kind, line.id), line._replace(body=bare_body(line), phi=b""))
    return found


def _timed(ledger: Ledger, number: int, forgotten: Forgotten) -> Iterator[tuple[float, int, Record]]:
    """Lines to copy, with a time that never goes back, so that each ledger keeps its order."""
    time = 0.0
    for line in ledger.store.records(ledger.namespace, until=ledger.seq):
        time = max(time, line.body.get("time", time))
        if line.kind in _COPIED:
            emptied = forgotten.get(line.event, {}).get((line.kind, line.id))
            yield time, number, emptied or ledger.pool.translated(line)
        elif (share := _share(line)) < 1.0:
            names = ledger.pool.names_since(line.seq - 1)
            peer = names.get(line.body["peer"], line.body["peer"])
            yield time, number, reset_record(peer, share, number, line.body["time"])


def _share(line: Record) -> float:
    """The share of a peer's record that a line leaves."""
    if line.body.get("returning"):
        return 0.0
    return float(line.body["keep"]) if line.kind in ("reset", "rename") else 1.0


def _fitted(journal: Journal, fold: Fold, line: Record) -> Record | None:
    """A line as the new ledger needs it; None where it is there already."""
    if line.kind == "reset":
        return reset_record(line.body["peer"], line.body["keep"], len(fold.pool), line.body["time"])
    if line.kind == "price":
        return line._replace(id=str(fold.costs.price_lines), seq=0)
    before = journal.store.find(journal.namespace, line.kind, line.id)
    if before is not None:  # both memories are copies of one that was, or an id was used twice
        return _of_both(journal, fold, before, line)
    return replaced(fold, line)


def _of_both(journal: Journal, fold: Fold, before: Record, line: Record) -> Record | None:
    same_event = before.event == line.event
    if same_event and is_forgotten(before):
        return None
    if line.kind == "feedback" and same_event:
        if all(before.body[key] == line.body[key] for key in ("labels", "source")):
            return None
        number = 1
        while journal.store.find(journal.namespace, "feedback", f"{line.id}~{number}"):
            number += 1
        return replaced(fold, line._replace(id=f"{line.id}~{number}", body={**line.body, "amends": True}))
    if same_event and before.phi == line.phi:
        return None
    raise ConflictError(
        f"both memories have a {line.kind} {line.id!r}, and they differ; expected memories of different "
        "events, or copies of one"
    )


def replaced(fold: Fold, line: Record) -> Record | None:
    """A decision or feedback at its place on the decay axis of another memory; None without its event."""
    if line.kind == "decision":
        time = line.body["time"]
        tick, event = fold.state.next_tick(time), None
        if line.id != line.event and not is_forgotten(line):
            event = fold.event(line.event)
            if event is None:
                return None
            tick = event.tick
        return line._replace(seq=0, body={**line.body, "tick": tick, "now": fold.state.moment(time)})
    if line.kind == "feedback" and not is_forgotten(line):
        event = fold.event(line.event)
        if event is None:
            return None
        tick = event.tick if event.lines else fold.state.next_label_tick(event.tick)
        return line._replace(seq=0, body={**line.body, "tick": tick})
    return line._replace(seq=0)
