"""Forgetting events: their texts, φ and labels leave the ledger, and their share leaves what was learned.

Of a forgotten event only its place is left: that something was decided then, so that the clock, all other
events' ages and all ids stay as they are. The state is folded again from what is left in the ledger.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from sigma_mem.errors import InputError
from sigma_mem.events import Decision
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.journal import Journal
from sigma_mem.ledger.lines import Body, DecisionLine, ForgetLine, ForgottenLine, Line, ServedLine
from sigma_mem.ledger.logs import LOG
from sigma_mem.session.checks import id_of
from sigma_mem.session.history import Moment, seconds_of


def forget_events(
    journal: Journal,
    decisions: str | Decision | Iterable[str | Decision] | None,
    before: Moment | None,
    text: str | None,
    time: float,
) -> int:
    """Forget some events permanently; return how many. See `SigmaMem.forget`."""
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
        lines = (line for event in events for line in journal.ledger.of_event(event))
        left = {
            line.seq: (erased_id(line), small)
            for line in lines
            if not line.is_forgotten and (small := left_of(line, fold)) is not None
        }
        if not left:
            return 0
        forgets = ForgetLine(tuple(events), time)
        journal.erase(left, Line("forget", f"{events[0]}+{len(events) - 1}", "", forgets))
    LOG.info("memory %r: %d events forgotten", journal.namespace, len(events))
    return len(events)


def left_of(line: Line[Body], fold: Fold) -> ForgottenLine | None:
    """What stays of a line of a forgotten event, with what the event cost; None if all of it stays."""
    left = line.body.left()
    event = fold.event(line.event) if line.kind == "decision" and line.id == line.event else None
    if left is None or event is None or not event.charges:
        return left
    return replace(left, charges=dict(event.charges))


def erased_id(line: Line[Body]) -> str:
    """The id that a forgotten line keeps: a ref's and a feedback's may be a name that its caller chose."""
    return f"\0{line.event}/{line.seq}" if line.kind in ("ref", "feedback") else line.id


def _named(fold: Fold, decisions: str | Decision | Iterable[str | Decision]) -> list[str]:
    several = [decisions] if isinstance(decisions, str | Decision) else list(decisions)
    lines = [fold.any_line(id_of(decision)) for decision in several]
    return list(dict.fromkeys(line.event for line in lines if not line.is_forgotten))


def _matching(journal: Journal, fits: Callable[[Line[Any]], bool]) -> list[str]:
    kinds = (DecisionLine, ServedLine)
    found = (line.event for line in journal.ledger.lines() if type(line.body) in kinds and fits(line))
    return list(dict.fromkeys(found))


def _decided_before(seconds: float) -> Callable[[Line[Any]], bool]:
    return lambda line: line.id == line.event and line.body.time < seconds


def _with_text(text: str) -> Callable[[Line[Any]], bool]:
    wanted = _folded(text)
    return lambda line: any(wanted in _folded(found) for found in line.body.texts())


def _folded(text: str) -> str:
    """A text without case, and in one of the forms that Unicode has for it."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
