"""What a memory costs when it has grown old: bytes on disk, time and memory to open, replay and explain it.

A memory of five peers at rank 64 is grown in a file. Its first events are decided and labelled as in use; the
later ones repeat their lines with ids, ticks and times of their own, since the ledger and not the choices are
what is measured. Every measurement has a process of its own, so that its memory is its own. Seconds are of
the processor: what a busy machine adds is not the memory's. Those by the clock are next to them.
"""

import itertools
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from sigma_lab.bench.league import Progress, silent
from sigma_lab.bench.table import Table
from sigma_mem.encode.base import unit
from sigma_mem.ledger.lines import DecisionLine, FeedbackLine, Line
from sigma_mem.ledger.records import Ledger, record_of
from sigma_mem.session import SigmaMem
from sigma_mem.store.sqlite import SqliteStore

RANK, PEERS = 64, ("gemma", "phi", "coder", "qwen", "llama")
PLAYED = 2_000  # events that are decided and labelled as in use
MANY, CHARACTERS = 300, 4_000  # peers, and characters of each answer
_AT_ONCE = 256  # events that are appended as one unit
_NAMESPACE = "default"


class Cost(NamedTuple):
    """Seconds of the processor and by the clock, and memory in bytes: before, and at most."""

    seconds: float
    clock: float
    before: int
    most: int


@dataclass(frozen=True, slots=True)
class AgeFigure:
    """What was measured, and the target at a size of the memory; None if there is none."""

    what: str
    unit: str
    found: float
    target: float | None = None
    at: int = 0  # events that the target holds for; 0 for any
    clock: float | None = None  # seconds by the clock, if seconds were measured

    def met(self, events: int) -> bool | None:
        """Whether the target is met; None if there is none, or a smaller memory was measured."""
        return None if self.target is None or events < self.at else self.found <= self.target


def measure_age(events: int = 20_000, progress: Progress = silent, folder: Path | None = None) -> Table:
    """Grow a memory of this many events, in a temporary folder by default, and measure it."""
    with TemporaryDirectory(dir=folder) as temporary:
        path = Path(temporary) / "memory.db"
        start = perf_counter()
        grow(path, events, progress)
        grown, size = perf_counter() - start, path.stat().st_size
        progress("replay", 0, 1)
        replay = _alone(_opened, path)  # no snapshot is there yet
        progress("open", 0, 1)
        opened = min(_alone(_opened, path) for _ in range(3))
        progress("explain", 0, 1)
        explained = min(_alone(_explained, path) for _ in range(3))
        progress("many peers", 0, 1)
        many = _alone(_decided_among_many)
        snapshot = path.stat().st_size - size
    million, tenth = 1_000_000, 100_000
    figures = [
        AgeFigure("disk, an event", "B", size / events, 1200),
        AgeFigure("snapshot", "MB", snapshot / 1e6),
        AgeFigure("open from the snapshot", "s", opened.seconds, 0.1, million, opened.clock),
        AgeFigure("replay of the ledger", "s", replay.seconds, 90.0, million, replay.clock),
        AgeFigure("replay, an event", "µs", 1e6 * replay.seconds / events, 90),
        AgeFigure("explain", "s", explained.seconds, 0.5, tenth, explained.clock),
        AgeFigure("explain, additional memory", "MB", (explained.most - explained.before) / 1e6, 100, tenth),
        AgeFigure(
            f"decide, {MANY} peers, {CHARACTERS:,} characters", "s", many.seconds, 0.3, clock=many.clock
        ),
        AgeFigure("memory of a process that opened it", "MB", opened.most / 1e6),
        AgeFigure("memory of a process that replayed it", "MB", replay.most / 1e6),
    ]
    return age_table(events, figures, grown)


def age_table(events: int, figures: Sequence[AgeFigure], seconds_to_grow: float) -> Table:
    """A line per figure."""
    body = []
    for f in figures:
        met = {True: "met", False: "NOT met", None: f"at {f.at:,} events" if f.target else ""}[f.met(events)]
        target = "" if f.target is None else f"≤ {f.target:,.4g} {f.unit}"
        clock = "" if f.clock is None else f"{f.clock:.3g} s"
        body.append([f.what, f"{f.found:,.4g} {f.unit}", clock, target, met])
    return Table(
        title="Age",
        values={
            "events": events,
            "figures": [asdict(f) | {"met": f.met(events)} for f in figures],
            "seconds_to_grow": seconds_to_grow,
        },
        header=["what", "found", "by the clock", "target", ""],
        rows=body,
        remarks=[
            f"{events:,} events of {len(PEERS)} peers at rank {RANK}, each a vote and its feedback, "
            f"without texts; grown in {seconds_to_grow:.0f} s: {min(events, PLAYED):,} were played, the "
            "others repeat their lines with ids, ticks and times of their own.",
            "Seconds are of the processor. A target counts at the size that it names.",
        ],
    )


# --- grow --------------------------------------------------------------------------------


def grow(path: Path, events: int, progress: Progress = silent) -> None:
    """Write a memory of this many events to a new file, without a snapshot."""
    played = min(events, PLAYED)
    _play(path, played, events, progress)
    store = SqliteStore(path)
    try:
        lines = list(Ledger(store, _NAMESPACE).lines())[1:]
        pairs = list(zip(lines[::2], lines[1::2], strict=True))
        for first in range(played, events, _AT_ONCE):
            unit_ = range(first, min(first + _AT_ONCE, events))
            again = [line for n in unit_ for line in _repeated(*pairs[n % played], n)]
            store.append(_NAMESPACE, [record_of(line) for line in again])
            progress("growing", unit_[-1] + 1, events)
    finally:
        store.close()


def _play(path: Path, played: int, events: int, progress: Progress) -> None:
    """Decide and label events as in use, and leave no snapshot."""
    rng, words = np.random.default_rng(0), _vocabulary()
    directions = unit(rng.normal(size=(12, RANK)))
    skill = rng.uniform(0.35, 0.9, size=(12, len(PEERS)))
    mem = SigmaMem(
        PEERS,
        path,
        rank=RANK,
        keep_text=False,
        snapshot_every=1 << 60,
        clock=itertools.count(1.8e9, 0.37).__next__,
    )
    for n in range(played):
        topic = int(rng.integers(12))
        phi = unit(directions[topic] + 0.1 * rng.normal(size=RANK))
        right = rng.random(len(PEERS)) < skill[topic]
        answers = {
            peer: _text(rng, words, 500) + f" = {42 if ok else rng.integers(5)}"
            for peer, ok in zip(PEERS, right.tolist(), strict=True)
        }
        decision = mem.vote(None, answers, phi=phi)
        mem.feedback(decision.id, dict(zip(PEERS, right.tolist(), strict=True)), wait=False)
        if n % _AT_ONCE == 0:
            progress("growing", n, events)
    mem.store.flush()
    mem.store.close()  # and not the memory, which would save a snapshot


def _repeated(
    decision: Line[DecisionLine], feedback: Line[FeedbackLine], number: int
) -> Iterator[Line[DecisionLine | FeedbackLine]]:
    """The two lines of an event again, as event `number`."""
    id, tick, time = f"again-{number}", number + 1.0, 1.8e9 + 0.37 * number
    placed = replace(decision.body, now=tick - 1.0, tick=tick, time=time, labelled=(number,))
    yield Line("decision", id, id, placed)
    yield Line("feedback", f"{id}/0", id, replace(feedback.body, tick=tick, time=time))


def _vocabulary() -> list[str]:
    rng = np.random.default_rng(1)
    return ["".join(map(chr, rng.integers(97, 123, size=rng.integers(2, 10)))) for _ in range(4_000)]


def _text(rng: np.random.Generator, words: list[str], characters: int) -> str:
    """Words, of which some are frequent, with a few numbers among them."""
    places = (len(words) * rng.random(characters // 5) ** 3).astype(int)
    return " ".join(str(i) if i % 17 == 0 else words[i] for i in places)[:characters]


# --- measure -----------------------------------------------------------------------------


def _alone(measure: Callable[..., Cost], *arguments: Any) -> Cost:
    """The result of a measurement in a process of its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def _timed(work: Callable[[], object]) -> Cost:
    before, start, clock = _most_memory(), process_time(), perf_counter()
    work()
    return Cost(process_time() - start, perf_counter() - clock, before, _most_memory())


def _most_memory() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _opened(path: Path) -> Cost:
    """Open a memory and read it; the first time there is no snapshot, and closing it saves one."""
    opened: list[SigmaMem] = []

    def open_and_read() -> None:
        opened.append(SigmaMem(path=path))
        opened[0].trust(phi=np.eye(RANK)[0])

    cost = _timed(open_and_read)
    opened[0].close()
    return cost


def _explained(path: Path) -> Cost:
    with SigmaMem(path=path, readonly=True) as mem:
        newest = mem.decisions(1)[0]
        return _timed(lambda: mem.explain(newest.id))


def _decided_among_many() -> Cost:
    rng, words = np.random.default_rng(2), _vocabulary()
    peers = [f"peer-{i}" for i in range(MANY)]
    with SigmaMem(peers) as mem:
        costs = []
        for n in range(5):  # the first one loads the encoder
            answers = {peer: f"{_text(rng, words, CHARACTERS - 20)}. The answer is {n % 3}" for peer in peers}
            costs.append(_timed(partial(mem.decide, "Which number is it?", answers)))
        return min(costs[1:])
