"""A read is a value: a name, what it uses, how it chooses and how sure it is.

Everything that lists reads (session, command line, tables, documentation) iterates over a `Reads` that it is
given; `sigma_mem.decide.READS` is the default. To add a read, add one `Read` to the module it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide.weights import calibrated_weights, group_totals, tempered, with_text
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory.ballots import Ballots

_NO_TOTALS = np.zeros(0)


@dataclass(frozen=True, eq=False)
class View:
    """Everything a read may use when it decides on one event, and what several reads derive from it.

    Attributes
    ----------
    score, prob : array (P,)
        φᵀM_pφ and p̂: what is known before anyone answers.
    groups : int array (P,)
        Answer group of every peer; −1 if its answer cannot be read, −2 if it gave none.
    text_log_odds : array (P,)
        Log-odds that its text adds to each answer.
    alternatives : float
        K − 1, the effective number of wrong answers that compete.
    readable : array (P,)
        Rate at which each peer gives a readable answer.
    relation : callable
        Returns G, (P, P); few reads need it.
    labelled : float
        Decayed number of labelled events.
    ballots : callable
        Returns what a mixture of votes needs to know of the pool.
    utility : array (P,), optional
        The center's U of every answer, NaN if it judged none; None without a center.
    votes : array (P,), optional
        How many votes each peer is worth: less than 1 for copies of one another. None for 1.
    """

    score: FloatArray
    prob: FloatArray
    groups: NDArray[np.intp]
    text_log_odds: FloatArray
    alternatives: float
    readable: FloatArray
    relation: Callable[[], FloatArray]
    labelled: float
    ballots: Callable[[], Ballots]
    utility: FloatArray | None = None
    votes: FloatArray | None = None

    def among(self, rows: NDArray[np.intp]) -> View:
        """What a read may use of these peers, as if the others were not in the pool."""
        return replace(
            self,
            score=self.score[rows],
            prob=self.prob[rows],
            groups=self.groups[rows],
            text_log_odds=self.text_log_odds[rows],
            readable=self.readable[rows],
            relation=lambda: self.relation()[np.ix_(rows, rows)],
            utility=None if self.utility is None else self.utility[rows],
            votes=None if self.votes is None else self.votes[rows],
        )

    @cached_property
    def moved_prob(self) -> FloatArray:
        """p̂, moved by the texts of the answers."""
        return with_text(self.prob, self.text_log_odds)

    @cached_property
    def weights(self) -> FloatArray:
        """What one vote of every peer weighs."""
        return calibrated_weights(self.moved_prob, self.alternatives, self.readable)

    @cached_property
    def tempered_weights(self) -> FloatArray:
        """The same, drawn together while there are few labels."""
        return tempered(self.weights, self.groups, self.labelled)

    @cached_property
    def vote_totals(self) -> FloatArray:
        """What every answer weighs in the calibrated vote."""
        weights = self.tempered_weights
        return group_totals(self.groups, weights if self.votes is None else self.votes * weights)


NOBODY = -1  # instead of a peer's index: no answer can be read, so none is chosen


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
    """

    name: str
    needs: Literal["question", "answers", "center"]
    choose: Callable[[View], Choice]
    confidence: Callable[[View, Choice], float]
    summary: str
    uses_text_features: bool = False

    def outcome(self, view: View) -> Outcome:
        """What this read alone decides; confidence 0 if nobody was chosen."""
        choice = self.choose(view)
        sure = 0.0 if choice.peer == NOBODY else self.confidence(view, choice)
        return Outcome(self.name, choice.peer, sure, totals=choice.totals, used_text=self.uses_text_features)


class Outcome(NamedTuple):
    """The outcome of a decision: which peer was chosen, under what name, and how sure.

    `peer` is `NOBODY` if no answer can be read.
    """

    name: str
    peer: int
    confidence: float
    propensity: float = 1.0
    totals: FloatArray = _NO_TOTALS  # what every answer weighed; of `select`, E[y] of every peer
    used_text: bool = False  # whether text features moved the choice
    votes: NDArray[np.float16] | None = None  # of a mixture, what every answer weighs in each vote


class Reads:
    """An ordered, immutable collection of reads.

    Attributes
    ----------
    names : tuple of str
        In order.
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
