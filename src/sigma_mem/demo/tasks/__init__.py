"""Generated tasks from four domains, each with an answer that is computed without the agents."""

from __future__ import annotations

import random

from .arithmetic import arithmetic
from .dates import calendar
from .passages import reading
from .programs import code
from .task import Task, is_right

__all__ = ["DOMAINS", "Task", "draw", "is_right"]

_MAKERS = {"arithmetic": arithmetic, "code": code, "reading": reading, "calendar": calendar}
DOMAINS = tuple(_MAKERS)


def draw(count: int, seed: int) -> list[Task]:
    """Draw a stream of tasks, domains mixed at random; the same seed gives the same stream."""
    rng = random.Random(seed)
    tasks = []
    for i in range(count):
        domain = rng.choice(DOMAINS)
        question, answer = _MAKERS[domain](rng)
        tasks.append(Task(f"task-{i + 1}", domain, question, answer))
    return tasks
