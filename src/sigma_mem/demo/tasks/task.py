"""One task of the demo, and how an answer to it is graded."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Task", "is_right", "plain"]


@dataclass(frozen=True, slots=True)
class Task:
    """A question with its true answer; agents and memory see ``question`` only.

    ``domain`` is for the tables people read. The memory never gets it.
    """

    id: str
    domain: str
    question: str
    answer: str


def plain(answer: str) -> str:
    """The answer in lower case, single spaces, no final stop.

    >>> plain(" Ada  Moreno. ")
    'ada moreno'
    """
    return " ".join(answer.lower().split()).rstrip(".")


def is_right(task: Task, answer: str) -> bool:
    """Whether an answer says what the task's true answer says."""
    return plain(answer) == plain(task.answer)
