"""Feedback at the door: labels as numbers, and labels that come again.

The same labels again change nothing (feedback is idempotent); other labels need `amend`.
"""

import re
from collections.abc import Collection, Mapping

import numpy as np

from sigma_mem.errors import ConflictError, InputError
from sigma_mem.events import Feedback
from sigma_mem.ledger.decision import feedback_in, feedback_line
from sigma_mem.ledger.event import EventState
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.journal import Journal
from sigma_mem.ledger.lines import Body, Line, is_feedback, revoke_line
from sigma_mem.ledger.logs import LOG
from sigma_mem.ledger.records import Ledger
from sigma_mem.memory.combination import Standing
from sigma_mem.session.checks import DECISION_ID, check_source
from sigma_mem.session.peers import current_names, known_names
from sigma_mem.store.base import refuse_unwritable

_AMENDED = re.compile(r"~[0-9]+$")  # ends the id of a line that amends


def append_feedback(
    journal: Journal,
    decision: str,
    labels: Mapping[str, object] | None,
    scores: Mapping[str, object] | None,
    source: str,
    id: str | None,
    amend: bool,
    time: float,
    wait: bool = True,
    weight: float = 1.0,
) -> Feedback:
    """Check feedback, append what is new of it, and return once it is durable; see `SigmaMem.feedback`."""
    ledger = journal.ledger
    with journal.writing() as fold:
        clean = current_names(checked_labels(labels, scores, known_names(fold)), fold)
        check_source(source, clean, fold)
        event_id, event = fold.event_of(decision)
        _check_id(id, event_id, fold, ledger)
        feedback = Feedback(id or f"{event_id}/{event.lines}", event_id, clean, source, time, amend)
        repeated = id is not None and was_taken(ledger, feedback)
        ticket = None
        if not repeated and new_labels(event, clean, source, amend):
            line = feedback.id if id is None else next_revision_id(ledger, id)
            tick = event.tick if event.lines else fold.state.next_label_tick(event.tick)
            standing = fold.standing(source, event)
            if source not in event.standings:  # else it weighs as when it spoke first
                standing = _share_of(standing, weight, source)
            ticket = journal.append(feedback_line(feedback, line, tick, standing))
    if wait and ticket is None:
        journal.store.flush(journal.namespace)  # the earlier feedback may still be on its way to the disk
    elif wait and ticket is not None:
        ticket.wait()
    return feedback


def _share_of(standing: Standing | None, weight: float, source: str) -> Standing | None:
    """What a label is worth that counts with a share of its source's weight."""
    if weight == 1.0:
        return standing
    if standing is None:
        raise InputError(f"weight is {weight!r}; expected 1 of {source!r}, which is trusted and weighs 1")
    return standing._replace(weight=weight * standing.weight)


def checked_labels(
    labels: Mapping[str, object] | None, scores: Mapping[str, object] | None, known: Collection[str]
) -> dict[str, float]:
    """Labels and scores as numbers: True is 1, False is −1, c ∈ [−1, 1] stays, s ∈ [0, 1] is 2s − 1.

    >>> checked_labels({"ann": True, "bob": -0.5}, {"cat": 0.25}, ["ann", "bob", "cat"])
    {'ann': 1.0, 'bob': -0.5, 'cat': -0.5}
    """
    out = {}
    for given, number in ((labels, _checked_label), (scores, _checked_score)):
        if given is not None and not isinstance(given, Mapping):
            raise InputError(
                f"labels are {given!r}; expected a mapping such as {{'ann': True, 'bob': False}}"
            )
        for peer, value in (given or {}).items():
            if peer not in known:
                raise InputError(f"peer {peer!r} is not in this memory; expected one of {sorted(known)}")
            if peer in out:
                raise InputError(f"peer {peer!r} has a label and a score; expected one of them")
            out[peer] = number(peer, value)
    if not out:
        raise InputError(
            "labels are empty; expected {peer: bool or number in [-1, 1]}, or scores={peer: number in "
            "[0, 1]}, for at least one peer"
        )
    return out


def _check_id(id: str | None, event: str, fold: Fold, ledger: Ledger) -> None:
    """Raise for an id that the memory gives itself, unless it gave it to feedback on this event already."""
    if id is None:
        return
    if not isinstance(id, str) or not id or "\0" in id:
        raise InputError(f"id is {id!r:.80}; expected a text without NUL, or None")
    refuse_unwritable(id)
    named, _, number = id.rpartition("/")
    given = number.isdigit() and (DECISION_ID.fullmatch(named) or fold.event(named) is not None)
    if given and named == event and ledger.find("feedback", id) is not None:
        return
    if _AMENDED.search(id) or given:
        raise InputError(
            f"id is {id!r}, which the memory may give to other feedback; expected one that ends neither in "
            "~ and a number, nor is the id of a decision with / and a number"
        )


def _checked_label(peer: str, label: object) -> float:
    if type(label) is float and -1.0 <= label <= 1.0:  # the most frequent one; False for NaN
        return label
    if isinstance(label, (bool, np.bool_)):
        return 1.0 if label else -1.0
    if isinstance(label, (int, np.integer)) and label == 0:  # wrong to some, undecided to others
        raise InputError(
            f"label of {peer!r} is the integer 0, which could mean wrong or undecided; expected False for "
            f"wrong, 0.0 for undecided, or scores={{{peer!r}: 0}} for a score from 0 to 1"
        )
    if isinstance(label, (int, float, np.integer, np.floating)) and -1.0 <= label <= 1.0:  # False for NaN
        return float(label)
    raise InputError(
        f"label of {peer!r} is {label!r}; expected a bool or a number in [-1, 1]; leave out a peer with none"
    )


def _checked_score(peer: str, score: object) -> float:
    if isinstance(score, (int, float, np.integer, np.floating, np.bool_)) and 0.0 <= score <= 1.0:
        return 2.0 * float(score) - 1.0
    raise InputError(
        f"score of {peer!r} is {score!r}; expected a number from 0 (wrong) to 1 (right); "
        "leave out a peer with none"
    )


def new_labels(
    event: EventState, labels: Mapping[str, float], source: str, amend: bool
) -> Mapping[str, float]:
    """The labels that are new; ConflictError if they contradict the same source without amending."""
    said = event.said.get(source)
    if said is None:
        return labels
    fresh = {peer: c for peer, c in labels.items() if said.get(peer) != c}
    for peer, c in fresh.items():
        if peer in said and not amend:
            raise ConflictError(
                f"source {source!r} labelled {peer!r} {said[peer]:+g} on this event before, and now {c:+g}; "
                "amend the feedback to replace it (amend=True, --amend)"
            )
    return fresh


def was_taken(ledger: Ledger, feedback: Feedback) -> bool:
    """Whether feedback with this id, event, labels and source is in the ledger already.

    ConflictError if the id was used with another body and this one does not amend.
    """
    revisions = _revisions(ledger, feedback.id)
    if not revisions:
        return False
    last = revisions[-1]
    if not is_feedback(last):
        raise ConflictError(f"feedback {feedback.id!r} was about an event that was forgotten; use another id")
    before, now = ((f.event, f.labels, f.source) for f in (feedback_in(last), feedback))
    if before != now and not feedback.amends:
        raise ConflictError(
            f"feedback id {feedback.id!r} was used for (event, labels, source) = {before}, now for {now}; "
            "use another id, or amend the feedback to replace it (amend=True, --amend)"
        )
    return before == now


def append_revocation(journal: Journal, source: str, undo: bool, time: float) -> int:
    """Revoke a source or, with `undo`, accept it again; return how many lines it wrote. Idempotent."""
    ledger, kind = journal.ledger, "unrevoke" if undo else "revoke"
    with journal.writing() as fold:
        lines = sum(1 for _ in ledger.of_source(source))
        ticket = None
        if (source in fold.revoked) == undo:
            revision = 0
            while ledger.find(kind, _revision_id(source, revision)):
                revision += 1
            ticket = journal.append(revoke_line(source, _revision_id(source, revision), time, undo))
    if ticket is not None:
        ticket.wait()
        LOG.info("memory %r: source %r %sd, %d lines", journal.namespace, source, kind, lines)
    return lines


def next_revision_id(ledger: Ledger, id: str) -> str:
    """The id of the next ledger line of this feedback: amendments have lines of their own."""
    return _revision_id(id, len(_revisions(ledger, id)))


def _revisions(ledger: Ledger, id: str) -> list[Line[Body]]:
    found: list[Line[Body]] = []
    while line := ledger.find("feedback", _revision_id(id, len(found))):
        found.append(line)
    return found


def _revision_id(id: str, revision: int) -> str:
    return id if revision == 0 else f"{id}~{revision}"
