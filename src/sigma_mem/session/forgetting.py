"""Forgetting events: their texts, φ and labels leave the ledger, and their share leaves what was learned.

Of a forgotten event only its place is left: that something was decided then, so that the clock, all other
events' ages and all ids stay as they are. The state is folded again from what the ledger still says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sigma_mem.errors import InputError
from sigma_mem.events import Decision
from sigma_mem.session.fold import Fold
from sigma_mem.session.journal import Journal
from sigma_mem.session.lines import forget_record, is_forgotten
from sigma_mem.session.listing import Moment, seconds_of
from sigma_mem.session.logs import LOG
from sigma_mem.session.naming import id_of
from sigma_mem.store.base import Record

_OF_EVENTS = ("decision", "feedback", "served")  # kinds of lines that are forgotten with an event


def forget_events(
    journal: Journal,
    decisions: str | Decision | Iterable[str | Decision] | None,
    before: Moment | None,
    text: str | None,
    time: float,
) -> int:
    """Forget some events for good; return how many. See `SigmaMem.forget`."""
    if sum(given is not None for given in (decisions, before, text)) != 1:
        raise InputError("expected one of: a decision (or several), before=..., text=...")
    if text is not None and not text.strip():
        raise InputError("text is empty, and would match everything; expected some text")
    with journal.writing() as fold:
        if decisions is not None:
            events = _named(fold, decisions)
        elif before is not None:
            events = _matching(journal, _decided_before(seconds_of(before)))
        else:
            events = _matching(journal, _with_text(text or ""))
        small = {x.seq: small_body(x, fold) for event in events for x in _lines(journal, event)}
        if not small:
            return 0
        journal.erase(small, forget_record(events, time))
    LOG.info("memory %r: %d events forgotten", journal.namespace, len(events))
    return len(events)


def small_body(line: Record, fold: Fold) -> dict[str, Any]:
    """What stays of a line of a forgotten event: when it was, where on the decay axis, and what it cost."""
    event, small = fold.event(line.event), bare_body(line)
    if line.kind == "decision" and line.id == line.event and event is not None and event.charges:
        small["charges"] = [[peer, *charge] for peer, charge in event.charges.items()]
    return small


def bare_body(line: Record) -> dict[str, Any]:
    """What stays of any forgotten line: when it was, where on the decay axis, how it counts in a budget."""
    kept = {key: line.body[key] for key in ("time", "tick", "now", "pacing") if key in line.body}
    return {"forgotten": True, **kept}


def _named(fold: Fold, decisions: str | Decision | Iterable[str | Decision]) -> list[str]:
    several = [decisions] if isinstance(decisions, str | Decision) else list(decisions)
    lines = [fold.line(id_of(decision), forgotten=True) for decision in several]
    return list(dict.fromkeys(line.event for line in lines if not is_forgotten(line)))


def _matching(journal: Journal, fits: Callable[[Record], bool]) -> list[str]:
    lines = journal.store.records(journal.namespace)
    found = (x.event for x in lines if x.kind == "decision" and not is_forgotten(x) and fits(x))
    return list(dict.fromkeys(found))


def _decided_before(seconds: float) -> Callable[[Record], bool]:
    return lambda line: line.id == line.event and line.body["time"] < seconds


def _with_text(text: str) -> Callable[[Record], bool]:
    wanted = text.casefold()
    return lambda line: any(wanted in found.casefold() for found in _texts(line.body))


def _texts(value: Any) -> Iterator[str]:
    """Every text in a body; names of peers and reads are keys, not texts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


def _lines(journal: Journal, event: str) -> list[Record]:
    lines = journal.store.of_event(journal.namespace, event)
    return [line for line in lines if line.kind in _OF_EVENTS and not is_forgotten(line)]
