"""All mechanisms, baselines and rivals on one stream, in one order, on the same φ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from typing import Any, TypeVar

import numpy as np

from sigma_lab.bench import row
from sigma_lab.bench.baselines import BASELINES, Router
from sigma_lab.bench.play import Choices, MemoryPlayer, RouterPlayer, play
from sigma_lab.bench.rivals import RIVALS
from sigma_lab.bench.row import TableRow, has_answers
from sigma_lab.reveal import Everything, Reveal, When
from sigma_mem.decide import READS, Reads
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream

ORACLES = ("random", "best-fixed", "domain-oracle", "any-right")  # they see labels of the whole stream
MAJORITY = "majority"  # what every row is compared with
_READS = (MAJORITY, "m-route", "m-vote", "calibrated-route", "calibrated-vote", "posterior", "posterior-no-g")

Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, and of how much


def silent(what: str, done: int, total: int) -> None:
    """Progress that is not reported."""


def row_names(reads: Reads = READS, rivals: Sequence[str] = (), *, answers: bool = True) -> list[str]:
    """Names of the rows, in the order of the tables; without answers there is nothing to vote on.

    >>> row_names(answers=False)[4:]
    ['leader', 'beta-b1', 'beta-decayed', 'beta-cluster', 'knn', 'm-route', 'calibrated-route', 'adaptive']
    """
    able = reads.routes if not answers else {**reads.routes, **reads.votes}
    known = [name for name in _READS if name in able]
    first = [MAJORITY] if MAJORITY in known else []
    others = [name for name in (*known, *able) if name != MAJORITY]
    return [*ORACLES, *first, *BASELINES, *dict.fromkeys(others), "adaptive", *rivals]


def reference_row(rows: Mapping[str, object]) -> str:
    """The row that every other one is compared with: the majority if there are answers."""
    return MAJORITY if MAJORITY in rows else "best-fixed"


@dataclass(frozen=True, slots=True)
class Setup:
    """How mechanisms are played; the same for every column of a table."""

    settings: Settings = field(default_factory=Settings)
    rivals: Sequence[str] = ()  # names of the other libraries to play with the baselines
    warm: tuple[Stream, FloatArray] | None = None  # what every mechanism learns from first
    warm_b1: Stream | None = None  # what Beta B1 alone learns from first, as in the paper
    seed: int = 0  # of the attack, the conditions, the clusters and the rivals
    processes: int = 1  # in which independent parts of an experiment are played
    reads: Reads = READS
    progress: Progress = silent

    def memory(self, peers: Sequence[str], rank: int) -> SigmaMem:
        """An empty memory in this process, for φ of this rank that are handed in."""
        return SigmaMem(
            peers, rank=rank, settings=self.settings, keep_text=False, seed=self.seed, reads=self.reads
        )

    def part(self, name: str) -> Setup:
        """The same for one part of an experiment, which its progress names."""
        return replace(self, progress=lambda what, *steps: self.progress(f"{name} {what}", *steps))


DEFAULT = Setup()


def league(
    stream: Stream, phis: FloatArray, setup: Setup = DEFAULT, reveal: Reveal | None = None
) -> dict[str, TableRow]:
    """Every row of the table, in the order of `row_names`; φ as (T, rank). All labels by default."""
    choices = memory_choices(stream, phis, setup, reveal)
    whole, directions, shown = _behind_warm_up(stream, phis, setup, reveal)
    for name, router in routers(whole, directions, setup).items():
        player = RouterPlayer(name, router, whole.peers)
        found = play(whole, directions, player, shown, partial(setup.progress, name))
        choices[name] = found[name][-len(stream) :]
    rows = oracle_rows(stream) | rows_of(stream, choices, setup.reads)
    return {name: rows[name] for name in row_names(setup.reads, setup.rivals, answers=has_answers(stream))}


def memory_choices(
    stream: Stream, phis: FloatArray, setup: Setup = DEFAULT, reveal: Reveal | None = None
) -> Choices:
    """What every read of a new memory, and the adaptive one, chooses at every event."""
    whole, directions, shown = _behind_warm_up(stream, phis, setup, reveal)
    with setup.memory(whole.peers, phis.shape[1]) as memory:
        player = MemoryPlayer(memory, setup.reads)
        choices = play(whole, directions, player, shown, partial(setup.progress, "memory"))
    return {name: peers[-len(stream) :] for name, peers in choices.items()}


def oracle_rows(stream: Stream, domains: Sequence[str] | None = None) -> dict[str, TableRow]:
    """The rows that see all labels of a stream; its own domains by default."""
    labels, present = stream.labels(), row.present_peers(stream)
    chosen = {
        "best-fixed": row.best_fixed(labels, present),
        "domain-oracle": row.domain_oracle(labels, domains or [event.domain for event in stream], present),
        "any-right": row.any_right(labels, present),
    }
    rows = {name: row.row_of(c, row.correct_at(labels, c), stream.peers) for name, c in chosen.items()}
    return {"random": row.row_of(None, row.random_correct(labels, present), stream.peers), **rows}


def rows_of(stream: Stream, choices: Choices, reads: Reads = READS) -> dict[str, TableRow]:
    """Rows of what was chosen, in the order of the tables; reads that have no row there are left out.

    A stream without any readable answer has no votes, and its adaptive read is the first route.
    """
    answers = has_answers(stream)
    if not answers and "adaptive" in choices:
        choices = {**choices, "adaptive": choices[next(iter(reads.routes))]}
    order = row_names(reads, answers=answers)
    shown = [name for name in order if name in choices]
    shown += [name for name in choices if name not in order and name not in reads.names]
    labels = stream.labels()
    correct = {name: row.correct_at(labels, choices[name]) for name in shown}
    if MAJORITY in correct:
        correct[MAJORITY] = row.majority_correct(stream)
    return {name: row.row_of(choices[name], correct[name], stream.peers) for name in shown}


def routers(stream: Stream, phis: FloatArray, setup: Setup, *, explore: bool = False) -> dict[str, Router]:
    """The baselines and the selected rivals, fresh."""
    n, gamma, seed = len(stream.peers), setup.settings.gamma, setup.seed
    found = {name: made(n, phis, gamma, seed) for name, made in BASELINES.items()}
    unknown = [name for name in setup.rivals if name not in RIVALS]
    if unknown:
        raise InputError(f"no rival {unknown[0]!r}; expected among {', '.join(RIVALS)}")
    if setup.warm_b1 is not None:
        if setup.warm is not None:
            raise InputError("got a warm-up for all and one for Beta B1; expected one of them")
        for labels in setup.warm_b1.select(peers=stream.peers).labels():
            found["beta-b1"].learn(phis[0], labels, 0)
    rivals = {name: RIVALS[name](n, phis.shape[1], seed, explore=explore) for name in setup.rivals}
    return {**found, **rivals}


def _behind_warm_up(
    stream: Stream, phis: FloatArray, setup: Setup, reveal: Reveal | None
) -> tuple[Stream, FloatArray, Reveal]:
    """The warm-up and the stream as one, with their φ and the labels that are shown."""
    shown = reveal or Everything()
    if setup.warm is None:
        return stream, phis, shown
    before, of_before = setup.warm
    if before.peers != stream.peers:
        raise InputError(
            f"the warm-up stream has peers {list(before.peers)}; expected those of the stream, "
            f"{list(stream.peers)}: choose them with --peers"
        )
    whole = replace(stream, events=(*before.events, *stream.events))
    return whole, np.concatenate((of_before, phis)), When(lambda place: place < len(before), otherwise=shown)


Job = TypeVar("Job")
Result = TypeVar("Result")
_work: list[Callable[[Any], Any]] = []  # what forked processes do: they have the parent's memory


def in_processes(work: Callable[[Job], Result], jobs: Sequence[Job], processes: int) -> list[Result]:
    """The result of every job, in order; each is the same in a process of its own as here.

    >>> in_processes(lambda n: n * n, [1, 2, 3], processes=2)
    [1, 4, 9]
    """
    if min(processes, len(jobs)) < 2:
        return [work(job) for job in jobs]
    _work.append(work)
    try:
        with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=get_context("fork")) as pool:
            return list(pool.map(_done, [len(_work) - 1] * len(jobs), jobs))
    finally:
        _work.pop()


def _done(place: int, job: Any) -> Any:
    return _work[place](job)
