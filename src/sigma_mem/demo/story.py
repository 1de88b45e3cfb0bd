"""The run so far, and the lines of text that tell it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.session import SigmaMem

from .agents import FAULTY, PEERS
from .league import League
from .step import Step
from .trust import Trust
from .watch import Moved, Watch

__all__ = ["Notice", "Story", "fault_words", "moved_words", "together", "why"]


@dataclass(frozen=True, slots=True)
class Notice:
    """A line worth keeping on the screen."""

    number: int  # of the task
    kind: str  # "fault" or "moved"
    text: str


class Story:
    """Everything that screen, table and picture are drawn from; grows by one step at a time."""

    def __init__(self, tasks: int, fault_at: int) -> None:
        self.tasks = tasks
        self.fault_at = fault_at
        self.league = League()
        self.trust = Trust()
        self.watch = Watch(fault_at)
        self.notices: list[Notice] = []
        self.trust_at_fault: FloatArray | None = None
        self.relation: FloatArray = np.eye(len(PEERS))
        self.why = ""

    def add(self, step: Step) -> list[Notice]:
        """Take one task in; return what is worth telling of it."""
        self.league.add(step)
        self.trust.add(step)
        news = []
        if step.number == self.fault_at + 1:
            self.trust_at_fault = self.trust.history()[-2] if step.number > 1 else None
            news.append(Notice(step.number, "fault", fault_words()))
        moved = self.watch.add(step)
        if moved is not None:
            news.append(Notice(step.number, "moved", moved_words(moved)))
        self.notices += news
        return news

    def look(self, mem: SigmaMem, step: Step) -> None:
        """Read from the memory what only the screen wants: G, and why this task went where it went."""
        self.relation = mem.state.G
        self.why = why(mem, step)


def fault_words() -> str:
    """What happened to the agent."""
    return f"{FAULTY} is now version 2, with a real bug: it works left to right"


def moved_words(moved: Moved) -> str:
    """When the memory had moved away from it."""
    if moved.events == 0:
        return f"memory moved away from {FAULTY} at once: no {moved.domain} task went to it"
    return f"memory moved away from {FAULTY} after {moved.events} events ({moved.tasks} {moved.domain})"


def together(relation: FloatArray, count: int = 2) -> list[tuple[str, str, float]]:
    """The pairs of peers with the largest G: those who are right and wrong together."""
    rows, columns = np.triu_indices(len(PEERS), 1)
    order = np.argsort(-relation[rows, columns], kind="stable")[:count]
    return [(PEERS[rows[i]], PEERS[columns[i]], float(relation[rows[i], columns[i]])) for i in order]


def why(mem: SigmaMem, step: Step) -> str:
    """In plain words, which past tasks weighed most in the route's choice, for and against."""
    found = mem.explain(step.decision, top=20)
    right = [_quoted(term.question) for term in found.contributions if term.label > 0][:2]
    wrong = [_quoted(term.question) for term in found.contributions if term.label < 0][:1]
    reasons = []
    if right:
        reasons.append(f"right on {' and '.join(right)}")
    if wrong:
        reasons.append(f"wrong on {wrong[0]}")
    outcome = "right" if step.right[found.peer] else "wrong"
    return (
        f"{_quoted(step.task.question)} goes to {found.peer}, trusted {found.prob:.0%} here: "
        f"{'it was ' + ', but '.join(reasons) if reasons else 'nothing is known yet'}. It was {outcome}."
    )


def _quoted(question: str | None) -> str:
    return f"“{_short(question)}”"


def _short(question: str | None, width: int = 40) -> str:
    """The telling part of a question, cut in the middle where it is long."""
    text = question or ""
    program = re.search(r"```python\n(.*)\n```", text, re.DOTALL)
    if program:
        text = program[1].replace("\n", "; ")
    elif "\nQuestion: " in text:
        text = text.split("\nQuestion: ")[1]
    flat = " ".join(text.split())
    half = width // 2
    return flat if len(flat) <= width else f"{flat[: half - 1].rstrip()}…{flat[-half:].lstrip()}"
