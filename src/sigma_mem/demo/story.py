"""What happened in a run: every task's outcome, how often each agent was right, when it was trusted, why."""

import re
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sigma_mem.client import Client
from sigma_mem.demo.agents import FAULTY, PEERS
from sigma_mem.demo.tasks import DOMAINS, Task
from sigma_mem.events import FloatArray
from sigma_mem.session import SigmaMem

Memory = SigmaMem | Client  # in this process, or in a service
READS = ("route", "vote", "decide", "majority")
CEILING = "any peer right"
_WINDOW = 15  # tasks of a domain over which trust is averaged
QUIET = 8  # tasks of the faulty agent's domain in a row, none of them routed to it


@dataclass(frozen=True, slots=True)
class Step:
    """One task: every answer and grade, which agent each of `READS` chose, and what the memory knew before.

    ``probs`` and ``effective`` are p̂ at this question and the evidence behind it, by peer, before the
    grades were known. ``decision`` is the id of the route's decision. ``number`` counts from 1.
    """

    number: int
    task: Task
    answers: Mapping[str, str]
    right: Mapping[str, bool]
    chosen: Mapping[str, str]
    probs: Mapping[str, float]
    effective: Mapping[str, float]
    decision: str


class Notice(NamedTuple):
    """A line worth keeping on the screen."""

    number: int  # of the task
    kind: str  # "fault" or "moved"
    text: str


class Story:
    """Everything that screen and table are drawn from; grows by one step at a time.

    Trust is averaged by domain here, for the reader: the memory knows questions, not domains. The faulty
    agent's own domain is the one from which most tasks were routed to it before the fault. The memory has
    ``moved`` away once `QUIET` tasks of that domain in a row went to somebody else. From the fault to the
    last one that went to it there were ``events`` of all domains, and ``own_tasks`` of its own.
    """

    def __init__(self, tasks: int, fault_at: int, service: str | None = None) -> None:
        self.service = service  # its address, if the memory is in one
        self.tasks = tasks
        self.fault_at = fault_at
        self._grades: dict[str, list[bool]] = {row: [] for row in (*READS, *PEERS, CEILING)}
        self._recent = {domain: deque[list[tuple[float, float]]](maxlen=_WINDOW) for domain in DOMAINS}
        self._routed: Counter[str] = Counter()  # to the faulty agent before the fault, by domain
        self._own = 0  # tasks of its domain since the fault
        self.events = self.own_tasks = 0
        self.moved = False
        self.notices: list[Notice] = []
        self.trust: list[FloatArray] = []  # mean p̂ after every task, (peers, domains)
        self.relation: FloatArray = np.eye(len(PEERS))
        self.why = ""

    def add(self, step: Step) -> list[Notice]:
        """Add one task; return what is worth reporting of it."""
        notices = []
        if step.number == self.fault_at + 1:
            text = f"{FAULTY} is updated, and has a bug now: 2 + 3 * 4 gives 20"
            notices.append(Notice(step.number, "fault", text))
        right = {read: step.right.get(peer, False) for read, peer in step.chosen.items()}
        right |= {**step.right, CEILING: any(step.right.values())}
        for row, grades in self._grades.items():
            grades.append(right[row])
        self._recent[step.task.domain].append([(step.probs[p], step.effective[p]) for p in PEERS])
        self.trust.append(self.trust_now()[0])
        if self._moves(step):
            when = f"after {self.own_tasks} {self.fault_domain} tasks" if self.events else "at once"
            notices.append(Notice(step.number, "moved", f"memory moved away from {FAULTY} {when}"))
        self.notices += notices
        return notices

    @property
    def done(self) -> int:
        """Tasks so far."""
        return len(self.trust)

    def mean(self, row: str, start: int = 0, stop: int | None = None) -> float:
        """Share of tasks start … stop−1 on which a read, a peer or any peer was right; NaN of none."""
        grades = self._grades[row][start:stop]
        return sum(grades) / len(grades) if grades else float("nan")

    def best_peer(self) -> str:
        """The peer that has been right most often so far: known in hindsight only."""
        return max(PEERS, key=lambda peer: sum(self._grades[peer]))

    def trust_now(self) -> FloatArray:
        """Mean p̂ and mean evidence over a domain's last tasks, (2, peers, domains); NaN if none came yet."""
        unknown = np.full((len(PEERS), 2), np.nan)
        return np.array([np.mean(seen, axis=0) if seen else unknown for seen in self._recent.values()]).T

    @property
    def fault_domain(self) -> str:
        """The domain for which the faulty agent was trusted, "" as long as it was trusted for none."""
        return max(self._routed, key=lambda d: self._routed[d], default="")

    def _moves(self, step: Step) -> bool:
        """Whether this is the task on which the move away from the faulty agent is noticed."""
        trusted = step.chosen["route"] == FAULTY
        if step.number <= self.fault_at:
            self._routed[step.task.domain] += trusted
        elif not self.moved and step.task.domain == self.fault_domain:
            self._own += 1
            if trusted:
                self.events, self.own_tasks = step.number - self.fault_at, self._own
            self.moved = self._own - self.own_tasks >= QUIET
            return self.moved
        return False

    def look(self, mem: Memory, step: Step) -> None:
        """Read from the memory what only the screen wants: G, and why this task went where it went."""
        self.relation = relation_of(mem)
        self.why = why(mem, step)


def relation_of(mem: Memory) -> FloatArray:
    """G, in the order of `PEERS`."""
    return np.array(mem.relation()["matrix"]) if isinstance(mem, Client) else mem.state.G


def related_pairs(relation: FloatArray, count: int = 2) -> list[tuple[str, str, float]]:
    """The pairs of peers with the largest G: those that are right and wrong together."""
    rows, columns = np.triu_indices(len(PEERS), 1)
    order = np.argsort(-relation[rows, columns], kind="stable")[:count]
    return [(PEERS[rows[i]], PEERS[columns[i]], float(relation[rows[i], columns[i]])) for i in order]


def why(mem: Memory, step: Step) -> str:
    """In plain words, which past tasks weighed most in the route's choice, for and against."""
    found = mem.explain(step.decision, top=20)
    right = [_quote(term.question) for term in found.contributions if term.label > 0][:2]
    wrong = [_quote(term.question) for term in found.contributions if term.label < 0][:1]
    reasons = [f"right on {' and '.join(right)}"] if right else []
    reasons += [f"wrong on {wrong[0]}"] if wrong else []
    outcome = "right" if step.right[found.peer] else "wrong"
    return (
        f"{_quote(step.task.question)} goes to {found.peer}, trusted {found.prob:.0%} here: "
        f"{'it was ' + ', but '.join(reasons) if reasons else 'nothing is known yet'}. It was {outcome}."
    )


def _quote(question: str | None, width: int = 40) -> str:
    """The important part of a question, cut in the middle if it is long."""
    text = (question or "").split("\nQuestion: ")[-1]
    if program := re.search(r"```python\n(.*)\n```", text, re.DOTALL):
        text = program[1].replace("\n", "; ")
    flat, half = " ".join(text.split()), width // 2
    return f"“{flat if len(flat) <= width else f'{flat[: half - 1].rstrip()}…{flat[-half:].lstrip()}'}”"
