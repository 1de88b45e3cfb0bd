"""Arguments at the door of a memory: what was got, what was expected; names of events and their topics."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from reprlib import repr as brief
from typing import Any

import numpy as np

from sigma_mem.answers.features import check_in_pool
from sigma_mem.decide import Read
from sigma_mem.errors import ConflictError, InputError, StoreError
from sigma_mem.events import Decision
from sigma_mem.ledger.event import EventState
from sigma_mem.ledger.fold import Fold
from sigma_mem.memory.verdicts import MOST_JUDGES
from sigma_mem.store.base import refuse_unwritable


def check_source(source: str, labels: Collection[str], fold: Fold) -> None:
    """Raise for a source that labels itself, was revoked, or has no proper name."""
    if source in labels:  # they name peers of this memory only
        raise InputError(
            f"source {source!r} is a peer, and labels itself; expected another source for it: "
            f"leave out {source!r} here, and let the source that checked its answer send that label"
        )
    if not isinstance(source, str) or not source or "\0" in source:
        raise InputError(f"source is {source!r:.80}; expected the name of a source")
    refuse_unwritable(source)
    if source in fold.revoked:
        raise InputError(
            f"source {source!r} was revoked; expected another one, or revoke({source!r}, undo=True) first"
        )


def checked_name(what: str, value: object) -> str:
    """A text that is not empty; an array of one name is equal to the name, and yet none."""
    if not isinstance(value, str) or not value:
        raise _refused(what, value, "a name")
    return value


def checked_names(what: str, value: object) -> Sequence[str]:
    """Several names; a single text is a mistake."""
    if isinstance(value, str):
        raise _refused(what, value, f"a list of names, such as [{value!r}]")
    if not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise _refused(what, value, "a list of names")
    return value


def checked_count(what: str, value: object) -> None:
    """Raise for an argument that is neither None nor a whole number, 0 or more."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if value is not None and not (whole and 0 <= value < 1 << 62):  # type: ignore[operator]
        raise _refused(what, value, "a whole number, 0 or more")


def checked_flag(what: str, value: object) -> None:
    """Raise for an argument that is neither None nor a bool: 0 or "no" may pass for yes."""
    if value is not None and not isinstance(value, bool):
        raise _refused(what, value, "True or False")


def checked_number(what: str, value: object, low: float, high: float, expected: str) -> None:
    """Raise for an argument that is neither None nor a number of this range; NaN is in none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and low <= value <= high):  # type: ignore[operator]
        raise _refused(what, value, expected)


def checked_seconds(what: str, value: object) -> None:
    """Raise for an argument that is neither None nor seconds since 1970."""
    checked_number(what, value, -(2.0**53), 2.0**53, "seconds since 1970")


def checked_kind(what: str, value: object, kind: type | tuple[type, ...], expected: str) -> None:
    """Raise for an argument that is neither None nor of this kind."""
    if value is not None and not isinstance(value, kind):
        raise _refused(what, value, expected)


def checked_judges(judges: object) -> None:
    """Raise for an argument that is neither None nor a sequence of judges."""
    several = isinstance(judges, Sequence) and not isinstance(judges, str | bytes)
    if judges is not None and not (several and all(hasattr(each, "judge") for each in judges)):  # type: ignore[attr-defined]
        raise _refused("judges", judges, "a list of judges, such as [EndpointJudge(...)]")


def checked_verdicts(verdicts: object, peers: Sequence[str]) -> dict[str, dict[str, float]]:
    """Scores by judge and peer; None for an answer that a judge did not score is left out."""
    expected = "{judge: {peer: score}} with finite numbers"
    if not isinstance(verdicts, Mapping):
        raise _refused("verdicts", verdicts, expected)
    if len(verdicts) > MOST_JUDGES:
        raise InputError(f"verdicts are of {len(verdicts)} judges; expected at most {MOST_JUDGES}")
    out: dict[str, dict[str, float]] = {}
    for judge, said in verdicts.items():
        if not isinstance(judge, str) or not 0 < len(judge) <= 200 or not isinstance(said, Mapping):
            raise _refused("verdicts", {judge: said}, expected)
        check_in_pool(said, peers)
        for peer, score in said.items():
            if score is None:
                continue
            if not isinstance(score, int | float | np.number) or not math.isfinite(score):
                raise _refused(f"the verdict of judge {judge!r} on peer {peer!r}", score, "a finite number")
            out.setdefault(judge, {})[peer] = float(score)
    return out


def named_read(reads: Mapping[str, Read], name: object) -> Read:
    """The read of this name."""
    if not isinstance(name, str) or name not in reads:
        raise InputError(f"read is {_line(name)}; expected one of {sorted(reads)}")
    return reads[name]


def checked_share(what: str, value: float | None) -> float | None:
    """A share of what is right, or None."""
    checked_number(what, value, 0.0, 1.0, "a share in [0, 1]")
    return value


def checked_path(what: str, value: object) -> None:
    """Raise for an argument that is neither None nor the path of a file."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if value is not None and (not isinstance(path, str) or "\0" in path):
        raise _refused(what, value, "the path of a file")


@contextmanager
def file_errors(doing: str) -> Iterator[None]:
    """Failures of the file system as one error that names the file and the remedy."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise StoreError(
            f"could not {doing}: {brief(error.filename)}: {error.strerror}; "
            "check the path, the disk and the permissions"
        ) from error


def _refused(what: str, value: object, expected: str) -> InputError:
    return InputError(f"{what} is {_line(value)}; expected {expected}")


def _line(value: Any) -> str:
    return " ".join(brief(value).split())


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
            f"(for example 'trace-{ref}'), or after={ref!r} for the event of that decision"
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


Topic = str | Sequence[str]  # one, or several


def topics_of_event(event: EventState, earlier: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """The topics that an event has; InputError if others are given with a later decision on it."""
    if given and given != event.topics:
        has = f"the topics {list(event.topics)}" if event.topics else "no topic"
        raise InputError(
            f"topic is {list(given)}, and the event of decision {earlier!r} has {has}; "
            "leave out topic, or leave out after and ref for a new event"
        )
    return event.topics
