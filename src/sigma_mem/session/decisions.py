"""Decisions of a memory, newest first: to iterate, filter and page through."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, overload

from sigma_mem.errors import InputError
from sigma_mem.events import Decision, shortened
from sigma_mem.ledger.lines import DecisionLine, Line, is_decision
from sigma_mem.ledger.pool import PoolChanges
from sigma_mem.ledger.records import Ledger
from sigma_mem.session.tabular import Tabular, html_table

_BLOCK = 512  # lines read at first; each further block has twice as many
_SHOWN = 20  # rows in a notebook

Moment = float | str | datetime


class Decisions(Sequence[Decision], Tabular):
    """Decisions, newest first. They are read from the ledger while they are iterated, not before.

    Each iteration starts anew, and sees what was decided meanwhile. ``len`` and negative indexes read all of
    them.
    """

    __slots__ = ("_iterate",)

    def __init__(self, iterate: Callable[[], Iterator[Decision]]) -> None:
        self._iterate = iterate

    def __iter__(self) -> Iterator[Decision]:
        return self._iterate()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, place: int) -> Decision: ...

    @overload
    def __getitem__(self, place: slice) -> list[Decision]: ...

    def __getitem__(self, place: int | slice) -> Decision | list[Decision]:
        if isinstance(place, slice):
            ends = (place.start, place.stop, place.step)
            if place.stop is not None and all(x is None or x >= 0 for x in ends):
                return list(islice(self, *ends))
            return list(self)[place]
        if place < 0:
            return list(self)[place]
        for decision in islice(self, place, None):
            return decision
        raise IndexError(f"there is no decision {place}")

    def __repr__(self) -> str:
        newest = next(iter(self), None)
        return "<Decisions: none>" if newest is None else f"<Decisions, the newest {newest!r}>"

    def rows(self) -> list[dict[str, Any]]:
        """One row a decision."""
        return [_row(decision) for decision in self]

    def to_dict(self) -> dict[str, Any]:
        """Under "decisions", each as `Decision.to_dict` gives it."""
        return {"decisions": [decision.to_dict() for decision in self]}

    def _repr_html_(self) -> str:
        shown = list(islice(self, _SHOWN + 1))
        return html_table(repr(self), [_row(d) for d in shown[:_SHOWN]], len(shown))


def _row(decision: Decision) -> dict[str, Any]:
    return {
        "id": decision.id,
        "event": decision.event,
        "time": decision.time,
        "read": decision.read,
        "peer": decision.peer,
        "confidence": decision.confidence,
        "answer": None if decision.answer is None else shortened(decision.answer),
        "question": None if decision.question is None else shortened(decision.question),
    }


def decision_lines(ledger: Ledger, end: int) -> Iterator[Line[DecisionLine]]:
    """Lines of decisions up to line `end`, the newest first, read block by block."""
    block = _BLOCK
    while end > 0:
        lines = list(ledger.lines(after=max(end - block, 0), until=end))
        yield from (line for line in reversed(lines) if is_decision(line))
        end, block = end - block, 2 * block


def decision_filter(
    *, peer: str | None, read: str | None, since: Moment | None, until: Moment | None, text: str | None
) -> Callable[[Line[DecisionLine], PoolChanges], bool]:
    """Whether a line of a decision fits: since ≤ time < until, and `text` occurs in question or answer.

    A peer may have any of its names; the changes of the pool say which.
    """
    for what, name in (("peer", peer), ("read", read), ("text", text)):
        if name is not None and not isinstance(name, str):
            raise InputError(f"{what} is {name!r:.80}; expected text, or None")
    first = None if since is None else seconds_of(since)
    end = None if until is None else seconds_of(until)
    wanted = None if text is None else text.casefold()

    def fits(line: Line[DecisionLine], pool: PoolChanges) -> bool:
        body = line.body
        chosen = () if body.chosen is None else (body.chosen,)
        return (
            (peer is None or pool.name_then(peer, line.seq, chosen) is not None)
            and (read is None or body.read == read)
            and (first is None or body.time >= first)
            and (end is None or body.time < end)
            and (wanted is None or wanted in f"{body.question}\n{body.answer}".casefold())
        )

    return fits


def seconds_of(moment: Moment) -> float:
    """A moment as seconds since 1970; a text is a date or date and time, as ISO 8601 writes them.

    >>> seconds_of("2026-01-01T00:00:00+00:00")
    1767225600.0
    """
    try:
        if isinstance(moment, str):
            moment = datetime.fromisoformat(moment)
        seconds = moment.timestamp() if isinstance(moment, datetime) else float(moment)
        if math.isfinite(seconds) and not isinstance(moment, bool):
            return seconds
    except (TypeError, ValueError, OverflowError, OSError):  # no date, or none that this system can count
        pass
    raise InputError(
        f"time is {moment!r}; expected seconds since 1970, a datetime, or a text such as 2026-01-31T12:00"
    )
