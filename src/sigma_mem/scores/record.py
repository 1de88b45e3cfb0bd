"""The one place where scores of other tools become feedback."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from sigma_mem.errors import InputError, UnknownDecisionError
from sigma_mem.session.peers import peers_that_said_it
from sigma_mem.streams.tables import number

if TYPE_CHECKING:
    from sigma_mem.client import Client
    from sigma_mem.session import SigmaMem

_METRIC = re.compile(r"(?P<name>[^<>=*]+)(?:(?P<sign>>=|<=|=)(?P<bound>[^*]+))?(?:\*(?P<weight>[0-9.]+))?")
_WORDS = {"true": 1.0, "pass": 1.0, "passed": 1.0, "correct": 1.0, "yes": 1.0}
_WORDS |= {"false": 0.0, "fail": 0.0, "failed": 0.0, "incorrect": 0.0, "no": 0.0}


class Score(NamedTuple):
    """The score of a tool for one answer.

    Attributes
    ----------
    ref : the event: its ref, a response's id, or a decision's
    peer : whose answer it is about; None for the one that was served
    metric : the score's name
    value : number, bool or word
    id : the tool's own, or made of what identifies the score
    time : when it was given, as the tool writes it; of several on one answer the last one counts
    """

    ref: str
    peer: str | None
    metric: str
    value: object
    id: str
    time: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """How a metric counts.

    Attributes
    ----------
    sign : {"", ">=", "<=", "="}
        A value on this side of the bound is right, any other wrong. Without it the value itself is the score,
        from 0 to 1, or a word such as "pass" or "incorrect".
    bound : float or str, optional
    weight : float
        What of its source's weight a label has, above 0 and at most 1.

    >>> Metric.parse("toxicity<=0.2*0.5")
    ('toxicity', Metric(sign='<=', bound=0.2, weight=0.5))
    """

    sign: str = ""
    bound: float | str | None = None
    weight: float = 1.0

    @classmethod
    def parse(cls, text: str) -> tuple[str, Self]:
        """``name``, ``name>=0.7``, ``name<=0.2`` or ``name=word``, each also with ``*weight``."""
        found = _METRIC.fullmatch(text.strip())
        weight = number(found["weight"] or 1.0) if found else None
        bound = None if found is None or found["bound"] is None else number(found["bound"])
        if found is None or weight is None or not 0.0 < weight <= 1.0:
            raise InputError(
                f"metric is {text!r}; expected NAME, NAME>=0.7, NAME<=0.2 or NAME=word, and *0.5"
            )
        if bound is None and (found["sign"] or "=") != "=":
            raise InputError(f"metric is {text!r}; expected a number after {found['sign']}")
        return found["name"], cls(found["sign"] or "", bound if bound is not None else found["bound"], weight)

    def right(self, value: object) -> float | None:
        """How right an answer with this value is, from 0 to 1; None if that is not known."""
        if self.sign == "=" and isinstance(self.bound, str):
            return None if value is None else float(str(value).strip().lower() == self.bound.strip().lower())
        found = value_of(value)
        if found is None or not isinstance(self.bound, float):
            return found if found is not None and 0.0 <= found <= 1.0 else None
        meets = {">=": found >= self.bound, "<=": found <= self.bound, "=": found == self.bound}
        return float(meets[self.sign])


class Taken(NamedTuple):
    """What became of scores, as counts: taken, of events that the memory does not know, and unused.

    Unused are those of other metrics, without a value that counts, or replaced by a later one.
    """

    taken: int
    unknown: int
    unused: int


def record(
    memory: SigmaMem | Client,
    scores: Iterable[Score],
    metrics: Mapping[str, Metric],
    origin: str | None = None,
) -> Taken:
    """Give scores to a memory as feedback. The same score again changes nothing, and a changed one amends.

    Every metric is a source of its own, ``origin/metric``, so that what it is worth is learned from how it
    agrees with others; without an origin it is the memory's own choice (a service takes the key's name).
    """
    every = sorted(scores, key=lambda score: (score.time, score.id))
    rights = ((score, metrics[score.metric].right(score.value)) for score in every if score.metric in metrics)
    last = {(at.ref, at.peer, at.metric): (at, right) for at, right in rights if right is not None}
    taken = unknown = 0
    for score, right in last.values():
        metric = metrics[score.metric]
        given: dict[str, Any] = {"id": score.id, "amend": True}
        if origin is not None:
            given["source"] = f"{origin}/{score.metric}"
        if metric.weight < 1.0:
            given["weight"] = metric.weight
        try:
            peers = [score.peer] if score.peer else peers_that_said_it(memory.decision(score.ref))
            memory.feedback(score.ref, scores=dict.fromkeys(peers, right), **given)
            taken += 1
        except UnknownDecisionError:
            unknown += 1
    return Taken(taken, unknown, len(every) - taken - unknown)


def value_of(said: object) -> float | None:
    """A number, or a bool or word such as "pass" as one; None for anything else.

    >>> value_of(True), value_of("0.5"), value_of("Incorrect"), value_of("so so")
    (1.0, 0.5, 0.0, None)
    """
    found = number(_WORDS.get(said.strip().lower(), said) if isinstance(said, str) else said)
    return None if found is None or math.isnan(found) else found
