"""Names of events: the id of a decision, the decision itself, or the caller's own reference."""

import re

from sigma_mem.errors import ConflictError, InputError
from sigma_mem.events import Decision
from sigma_mem.ledger.fold import Fold

DECISION_ID = re.compile(r"[0-9a-f]{8}-[0-9]+")  # as `SigmaMem` makes them
_LONGEST = 512


class NewRef(str):
    """A reference that its caller has just drawn at random: no event has it, so the ledger is not searched.

    A store keeps references unique, so one that is in use after all is refused.
    """


def id_of(decision: str | Decision) -> str:
    """The id of a decision, or the reference that the caller gave to its event."""
    if isinstance(decision, Decision):
        return decision.id
    if not isinstance(decision, str):
        raise InputError(
            f"decision is a {type(decision).__name__}; expected a Decision, its id, or the ref of its event"
        )
    return decision


def checked_ref(ref: str) -> str:
    """A reference that cannot be taken for the id of a decision, now or later."""
    if not isinstance(ref, str) or not ref or "\0" in ref or len(ref) > _LONGEST:
        raise InputError(f"ref is {ref!r:.80}; expected a text of 1 to {_LONGEST} characters, without NUL")
    if DECISION_ID.fullmatch(ref):
        raise InputError(
            f"ref is {ref!r}, which has the form of a decision's id; expected a name of your own "
            f"('trace-{ref}', say), or after={ref!r} for the event of that decision"
        )
    return ref


def earlier_event(fold: Fold, after: str | None, ref: str | None) -> tuple[str | None, bool]:
    """The id of the event that `after` and `ref` name, None for a new one; and whether the ref is new."""
    named = None if ref is None or isinstance(ref, NewRef) else fold.event_named(ref)
    is_new = ref is not None and named is None
    if after is None:
        return named, is_new
    event, _ = fold.event_of(after)
    if named not in (None, event):
        raise ConflictError(
            f"ref {ref!r} names event {named!r}, and after={after!r} event {event!r}; "
            "leave out one of them, or take another ref"
        )
    return event, is_new
