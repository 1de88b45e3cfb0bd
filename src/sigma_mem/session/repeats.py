"""Feedback that comes again: the same changes nothing, something else must say that it amends."""

from __future__ import annotations

from collections.abc import Mapping

from sigma_mem.errors import ConflictError
from sigma_mem.session.fold import Entry
from sigma_mem.store.base import Record, Store

__all__ = ["free_line", "news", "repeated"]


def news(entry: Entry, labels: Mapping[str, float], source: str, amend: bool) -> Mapping[str, float]:
    """What of these labels is new; ConflictError where they contradict the same source without amending."""
    said = entry.said.get(source)
    if said is None:
        return labels
    fresh = {peer: c for peer, c in labels.items() if said.get(peer) != c}
    for peer, c in fresh.items():
        if peer in said and not amend:
            raise ConflictError(
                f"{source!r} said {said[peer]:+g} of {peer!r} on this event before, and now {c:+g}; "
                "pass amend=True to replace it"
            )
    return fresh


def repeated(
    store: Store, namespace: str, id: str, body: tuple[str, Mapping[str, float], str], amend: bool
) -> bool:
    """Whether feedback with this id and body (event, labels, source) was taken before.

    ConflictError where the id was taken with another body and this one does not amend.
    """
    lines = _lines(store, namespace, id)
    if not lines:
        return False
    last = lines[-1]
    before = (last.event, last.body["labels"], last.body["source"])
    if before != body and not amend:
        raise ConflictError(
            f"feedback {id!r} came before as (event, labels, source) = {before}, and now as {body}; "
            "pass amend=True to replace it"
        )
    return before == body


def free_line(store: Store, namespace: str, id: str) -> str:
    """Where in the ledger feedback with this id goes: amendments of it have lines of their own."""
    return _line(id, len(_lines(store, namespace, id)))


def _lines(store: Store, namespace: str, id: str) -> list[Record]:
    lines: list[Record] = []
    while found := store.find(namespace, "feedback", _line(id, len(lines))):
        lines.append(found)
    return lines


def _line(id: str, revision: int) -> str:
    return id if revision == 0 else f"{id}~{revision}"
