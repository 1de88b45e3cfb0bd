"""What happened on one task of the demo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .tasks import Task

__all__ = ["READS", "Step"]

READS = ("route", "vote", "decide", "majority")


@dataclass(frozen=True, slots=True)
class Step:
    """One task, everybody's answer and grade, whom every read chose, and what the memory knew before.

    Attributes
    ----------
    number : int
        Of the task, from 1.
    answers, right : mapping by peer
        The answers, and whether they are right.
    chosen : mapping by read
        The peer that each of `READS` chose.
    probs, effective : mapping by peer
        Calibrated competence p̂ at this question and the evidence behind it, before the grades were known.
    decision : str
        Id of the route's decision.
    """

    number: int
    task: Task
    answers: Mapping[str, str]
    right: Mapping[str, bool]
    chosen: Mapping[str, str]
    probs: Mapping[str, float]
    effective: Mapping[str, float]
    decision: str
