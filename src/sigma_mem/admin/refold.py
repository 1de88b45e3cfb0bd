"""A new memory from an old ledger, with other settings or another encoder, and how its decisions differ."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from msgspec.structs import replace

from sigma_mem.admin.transfer import build_store, owning
from sigma_mem.admin.union import replaced
from sigma_mem.answers.features import NO_ANSWERS, Answers
from sigma_mem.decide import Read
from sigma_mem.encode import Encoder
from sigma_mem.encode.custom import Embed
from sigma_mem.errors import InputError
from sigma_mem.events import Answer
from sigma_mem.ledger.decision import decision_in
from sigma_mem.ledger.lines import DecisionLine, FeedbackLine, Line, is_decision
from sigma_mem.memory import Settings
from sigma_mem.session import SigmaMem
from sigma_mem.session.checks import checked_flag, checked_kind
from sigma_mem.session.handle import choose_encoder
from sigma_mem.session.limits import RouteLimits
from sigma_mem.session.task import TaskRequest
from sigma_mem.store.base import Store
from sigma_mem.tabular import Tabular

_COPIED = ("peer", "reset", "rename", "revoke", "unrevoke", "ref", "served", "price")


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision that would have been another one; labels are how right each choice was, None if unknown."""

    decision: str
    before: str | None
    after: str | None
    label_before: float | None
    label_after: float | None


@dataclass(frozen=True, slots=True, repr=False)
class Refolded(Tabular):
    """A new memory, and how its decisions differ from those of the old one.

    Attributes
    ----------
    memory : SigmaMem
        The new one; close it when done.
    decisions : int
        How many were made again.
    right_before, right_after : float, optional
        Share right of the choices in both, over decisions in which both choices have a label.
    differences : tuple
        Decisions that chose another peer.
    """

    memory: SigmaMem
    decisions: int
    right_before: float | None
    right_after: float | None
    differences: tuple[Difference, ...]

    def __repr__(self) -> str:
        share = len(self.differences) / max(1, self.decisions)
        right = ""
        if self.right_before is not None and self.right_after is not None:
            right = f", right {self.right_before:.1%} before and {self.right_after:.1%} after"
        return (
            f"<Refolded: {len(self.differences)} of {self.decisions} decisions differ ({share:.1%}){right}>"
        )

    def rows(self) -> list[dict[str, Any]]:
        """One row a decision that differs."""
        return [asdict(found) for found in self.differences]

    def to_dict(self) -> dict[str, Any]:
        """Counts, shares, and the differences."""
        return {
            "decisions": self.decisions,
            "differ": len(self.differences),
            "right_before": self.right_before,
            "right_after": self.right_after,
            "differences": self.rows(),
        }


def refold(
    mem: SigmaMem,
    path: str | os.PathLike[str] | None = None,
    *,
    settings: Settings | None = None,
    encoder: str | Embed | Encoder | None = None,
    keep_text: bool | None = None,
    namespace: str = "default",
) -> Refolded:
    """Make a new memory from a ledger: every decision is made again, and every label taken again.

    Reports how the decisions would have differed. The old memory stays as it is.

    Parameters
    ----------
    mem : SigmaMem
    path : str or path, optional
        A new file for the new memory; None keeps it in this process.
    settings : Settings, optional
        Of the new memory; those of the old one by default.
    encoder : str or Encoder, optional
        To encode the questions again, which must have been kept; by default every φ stays.
    keep_text : bool, optional
        Whether the new memory keeps texts; as the old one by default.
    namespace : str
        Of the new memory.
    """
    checked_kind("settings", settings, Settings, "Settings(...)")
    checked_flag("keep_text", keep_text)
    old, chosen = mem.opening, mem.question_encoder
    keeps = old.keep_text if keep_text is None else keep_text
    opening = replace(old, settings=settings or old.settings, keep_text=keeps)
    if encoder is not None and (chosen := choose_encoder(encoder, None)) is not None:
        named = {"name": chosen.name, "version": chosen.version}
        opening = replace(opening, rank=chosen.rank, encoder=named)
    with mem.journal as fold:
        until = fold.seq

    def fill(store: Store) -> _Report:
        now = [0.0]  # the time of the old line, for the new one
        new = SigmaMem(
            store=store, namespace=namespace, encoder=chosen, reads=mem.reads, clock=lambda: now[0]
        )
        new.decider.center = mem.decider.center
        lines = mem.journal.ledger.lines(until=until)
        return _compared(new, list(_refolded(new, now, lines, encoder is not None)))

    store, report = build_store(path, namespace, opening, mem.clock(), fill)
    return Refolded(owning(store, namespace, chosen), *report)


_Report = tuple[int, float | None, float | None, tuple[Difference, ...]]


def _refolded(
    new: SigmaMem, now: list[float], lines: Iterator[Line[Any]], again: bool
) -> Iterator[tuple[Line[DecisionLine], str | None]]:
    """Decide and learn in a new memory from an old ledger; yield every decision and its new choice.

    Parameters
    ----------
    now : list of one float
        The new memory's clock.
    again : bool
        Whether questions are encoded again; otherwise φ is the recorded one.
    """
    for line in lines:
        body = line.body
        now[0] = getattr(body, "time", now[0])
        if line.is_forgotten or line.kind in _COPIED:
            with new.journal.writing() as fold:
                fitted = replaced(fold, line)
                if fitted is not None:
                    new.journal.append(fitted)
        elif is_decision(line):
            yield line, _decided_again(new, line, again)
        elif isinstance(body, FeedbackLine):
            own = body.own or line.id
            given = None if own.rpartition("/")[0] == line.event else own
            new.feedback(line.event, body.labels, source=body.source, id=given, amend=body.amends)


def _decided_again(new: SigmaMem, line: Line[DecisionLine], again: bool) -> str | None:
    made = decision_in(line)
    alone = not made.phi.any()  # topics alone were known
    if again and not made.question and not alone:
        raise InputError(
            f"decision {made.id!r} has no text, so it cannot be encoded again; expected a memory that keeps "
            "text, or refold without encoder="
        )
    answers = NO_ANSWERS
    if made.canons:
        texts = line.body.answers_by_peer()
        by_peer = {peer: Answer(texts.get(peer, canon or ""), canon) for peer, canon in made.canons.items()}
        features = made.features if new.settings.text_features else {}
        answers = Answers(by_peer, features, made.verdicts)
    panel, decider = made.details.get("panel"), new.decider
    task = TaskRequest(
        made.question,
        None if again or alone else made.phi,
        made.topics or None,
        None if made.id == made.event else made.event,
    )
    decider.next_id = made.id
    try:
        read = _read(new, made.read, bool(made.canons))
        if read is not None and not made.canons:
            limits = RouteLimits(among=made.details["among"]) if "among" in made.details else None
            note = made.details.get("note")
            return decider.route(task, read, limits=limits, note=note).decision.peer
        return decider.choose(
            task,
            read,
            answers,
            min_confidence=made.details.get("abstained", {}).get("expected"),
            step=None if panel is None else lambda *_: panel,
        ).decision.peer
    finally:
        decider.next_id = None


def _read(new: SigmaMem, name: str, voted: bool) -> Read | None:
    """The read that decided, None for the adaptive one; the default if it explored or does not exist."""
    reads = new.reads
    if name.startswith("adaptive"):
        return None
    if name == "select":
        return reads["select"] if new.decider.center is not None else reads["calibrated-vote"]
    known = reads.votes if voted else reads.routes
    return known.get(name) or known["calibrated-vote" if voted else "calibrated-route"]


def _compared(new: SigmaMem, choices: Sequence[tuple[Line[DecisionLine], str | None]]) -> _Report:
    """The `Refolded` of a new memory, by every decision and its new choice."""
    differences, before_and_after = [], []
    for line, after in choices:
        with new.journal as fold:
            event = fold.event(line.event)
        before = line.body.chosen
        labels = {} if event is None else event.labels().c
        found = [
            math.nan if event is None or peer is None else event.answer_label(peer, labels)
            for peer in (before, after)
        ]
        was, now = (label if label == label else None for label in found)  # NaN differs from itself
        if was is not None and now is not None:
            before_and_after.append((was, now))
        if before != after:
            differences.append(Difference(line.id, before, after, was, now))
    n = len(before_and_after)
    right = [0.5 + 0.5 * sum(pair[i] for pair in before_and_after) / n if n else None for i in (0, 1)]
    return len(choices), right[0], right[1], tuple(differences)
