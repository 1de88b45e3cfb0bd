"""Watches the agent that goes bad, and notices when the memory has moved away from it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .agents import FAULTY
from .step import Step

__all__ = ["Moved", "Watch"]

QUIET = 8  # so many tasks of its domain in a row, none of them routed to it


@dataclass(frozen=True, slots=True)
class Moved:
    """When the memory had moved away: the last task that went to the faulty agent, counted from the fault."""

    domain: str
    events: int  # of all domains
    tasks: int  # of the agent's own domain


class Watch:
    """Follows where the faulty agent's own tasks are routed to.

    Its own domain is the one from which most tasks were routed to it before the fault. The
    memory has moved away once `QUIET` tasks of that domain in a row went to somebody else.
    """

    def __init__(self, fault_at: int) -> None:
        self._fault_at = fault_at
        self._routed: Counter[str] = Counter()
        self._own = 0
        self._last = Moved("", 0, 0)
        self.moved: Moved | None = None

    @property
    def domain(self) -> str:
        """The domain for which the agent was trusted, "" as long as it was trusted for none."""
        return max(self._routed, key=lambda d: self._routed[d], default="")

    def add(self, step: Step) -> Moved | None:
        """Take one task in; return what is known on the task where the move is noticed, else None."""
        trusted = step.chosen["route"] == FAULTY
        if step.number <= self._fault_at:
            self._routed[step.task.domain] += trusted
            return None
        if self.moved is not None or step.task.domain != self.domain:
            return None
        self._own += 1
        if trusted:
            self._last = Moved(self.domain, step.number - self._fault_at, self._own)
        elif self._own - self._last.tasks >= QUIET:
            self.moved = Moved(self.domain, self._last.events, self._last.tasks)
            return self.moved
        return None
