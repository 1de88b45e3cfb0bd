"""A read is a value: a name, what it looks at, how it chooses and how sure it is.

Everything that lists reads (session, command line, tables, documentation) iterates over a `Reads` that it is
given; `sigma_mem.decide.READS` is the default. To add a read, add one `Read` to the module it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide.weights import calibrated_weights, tempered, with_text
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray


class _Seen(NamedTuple):
    score: FloatArray
    prob: FloatArray
    groups: NDArray[np.intp]
    text_log_odds: FloatArray
    alternatives: float
    readable: FloatArray
    relation: Callable[[], FloatArray]
    labelled: float
    utility: FloatArray | None = None
    votes: FloatArray | None = None


class View(_Seen):
    """Everything a read may look at when it decides on one event, and what several reads make of it.

    Attributes
    ----------
    score, prob : array (P,)
        φᵀM_pφ and p̂: what is known before anyone answers.
    groups : int array (P,)
        Answer group of every peer; −1 where its answer cannot be read, −2 where it gave none.
    text_log_odds : array (P,)
        Log-odds by which the text of each answer speaks for it.
    alternatives : float
        K − 1, the effective number of wrong answers that compete.
    readable : array (P,)
        Rate at which each peer gives a readable answer.
    relation : callable
        Returns G, (P, P); few reads need it.
    labelled : float
        Decayed number of labelled events.
    votes : array (P,), optional
        How many votes each peer is worth: less than 1 for copies of one another. None for 1.
    utility : array (P,), optional
        The center's U of every answer, NaN where it judged none; None without a center.
    """

    @cached_property
    def moved_prob(self) -> FloatArray:
        """p̂, moved by what the texts say."""
        return with_text(self.prob, self.text_log_odds)

    @cached_property
    def weights(self) -> FloatArray:
        """What one vote of every peer weighs."""
        return calibrated_weights(self.moved_prob, self.alternatives, self.readable)

    @cached_property
    def tempered_weights(self) -> FloatArray:
        """The same, drawn together while there are few labels."""
        return tempered(self.weights, self.groups, self.labelled)


NOBODY = -1  # in place of a peer's index: no answer can be read, so none is chosen


class Choice(NamedTuple):
    """What a read chose: a peer's index (or `NOBODY`), its answer group, and what every group weighed."""

    peer: int
    group: int
    totals: FloatArray


@dataclass(frozen=True, slots=True)
class Read:
    """One way to read the memory.

    Attributes
    ----------
    needs : {"question", "answers", "center"}
        What must be there: a route needs the question only, a vote the answers, `select` a center.
    choose : callable of View
    confidence : callable of View and Choice
        Probability, in the read's own model, that the choice is right.
    summary : str
        One line for help texts.
    uses_text_features : bool
        Whether the text of the answers moves the choice.
    row : int, optional
        Position among the reads in tables; None for no row.
    """

    name: str
    needs: Literal["question", "answers", "center"]
    choose: Callable[[View], Choice]
    confidence: Callable[[View, Choice], float]
    summary: str
    uses_text_features: bool = False
    row: int | None = None

    def outcome(self, view: View) -> Outcome:
        """What this read alone decides."""
        choice = self.choose(view)
        sure = self.sure(view, choice)
        return Outcome(self.name, choice.peer, sure, 1.0, {self.name: choice}, self.uses_text_features)

    def sure(self, view: View, choice: Choice) -> float:
        """`confidence`, and 0 where nobody was chosen."""
        return 0.0 if choice.peer == NOBODY else self.confidence(view, choice)


class Outcome(NamedTuple):
    """The outcome of a decision: who was chosen, under what name, how sure, and what every read chose.

    `peer` is `NOBODY` where no answer can be read.
    """

    name: str
    peer: int
    confidence: float
    propensity: float = 1.0
    choices: Mapping[str, Choice] = MappingProxyType({})
    used_text: bool = False  # whether text features moved the choice


class Reads:
    """An ordered, immutable collection of reads; the first one is the adaptive read's starting point.

    Attributes
    ----------
    names : tuple of str
        In order; the peers of the memory over reads.
    routes, votes, over_answers : dict
        By name: reads that need the question only, those that need answers, and those with a center's.

    Examples
    --------
    >>> from sigma_mem.decide import READS
    >>> list(READS.routes)
    ['calibrated-route', 'm-route']
    """

    def __init__(self, *reads: Read) -> None:
        self._reads = {read.name: read for read in reads}
        if len(self._reads) != len(reads):
            raise InputError(f"reads are {[read.name for read in reads]}; expected distinct names")
        if not reads or reads[0].needs == "center":
            raise InputError("the first read is missing or needs a center; expected one that always works")
        self.names = tuple(self._reads)
        self.routes = {read.name: read for read in reads if read.needs == "question"}
        self.votes = {read.name: read for read in reads if read.needs == "answers"}
        self.over_answers = {read.name: read for read in reads if read.needs != "question"}

    def __iter__(self) -> Iterator[Read]:
        return iter(self._reads.values())

    def __len__(self) -> int:
        return len(self._reads)

    def __getitem__(self, name: str) -> Read:
        return self._reads[name]

    def with_read(self, read: Read) -> Reads:
        """These reads and one more, last in order."""
        return Reads(*self, read)

    def in_tables(self) -> list[Read]:
        """The reads that have a row, in the order of the rows."""
        shown = [(read.row, read) for read in self if read.row is not None]
        return [read for _, read in sorted(shown, key=lambda pair: pair[0])]

    def available(self, view: View) -> list[Read]:
        """The reads that can be made for this event: all, but those that need a center that is not there."""
        return [read for read in self if read.needs != "center" or view.utility is not None]
