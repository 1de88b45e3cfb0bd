"""One protocol over every condition that users name: drift, cold start, new peers, little or bad feedback.

Memories run through `SigmaMem` itself, routers and rivals beside it on the same φ and labels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sigma_mem.bench import figures
from sigma_mem.bench.league import DEFAULT, Setup, routers, rows_of
from sigma_mem.bench.play import Choices, ExploringPlayer, MemoryPlayer, Player, RouterPlayer, play
from sigma_mem.bench.table import Grid, Table
from sigma_mem.errors import InputError
from sigma_mem.events import Event, FloatArray
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Bandit, Delayed, Dishonest, Reveal, Share, Stream
from sigma_mem.streams.stream import chance

COLD_START = 200  # events


@dataclass(frozen=True, slots=True)
class Condition:
    """Rows of one condition: how right each mechanism was, event by event, and what to say of it."""

    correct: Mapping[str, FloatArray]
    note: str
    choices: Choices
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DriftTable(Table):
    """Every condition on one stream."""

    title = "Conditions"

    conditions: Mapping[str, Condition]

    def results(self) -> dict[str, Any]:
        """Accuracy by condition, over the stream and late in it, over its last quarter."""
        return {
            "conditions": {
                name: {
                    "note": condition.note,
                    "mechanisms": {
                        row: {
                            "accuracy": round(float(right.mean()), 6),
                            "late": round(float(right[-max(len(right) // 4, 1) :].mean()), 6),
                        }
                        for row, right in condition.correct.items()
                    },
                    **condition.facts,
                }
                for name, condition in self.conditions.items()
            }
        }

    def grid(self) -> Grid:
        """A line per condition, a column per mechanism."""
        names = list(dict.fromkeys(n for c in self.conditions.values() for n in c.correct))
        body = [
            [condition, *(f"{found.correct[n].mean():.2%}" if n in found.correct else "" for n in names)]
            for condition, found in self.conditions.items()
        ]
        return ["condition", *names], body

    def remarks(self) -> list[str]:
        """What each condition is."""
        return [f"- {name}: {condition.note}." for name, condition in self.conditions.items()]

    def figures(self, folder: Path) -> list[Path]:
        """Accuracy over time, where something changes on the way."""
        label = "accuracy over the last 200 events (%)"
        drawn = []
        for name, condition in self.conditions.items():
            if name in ("abrupt", "gradual", "new-peer", "bandit-only", "poisoned"):
                lines = {n: _rolling(right) for n, right in condition.correct.items()}
                title = f"{self.stream.name}: {name}"
                drawn.append(figures.curves(lines, "event", label, title, folder / f"{name}.png"))
        return drawn


def drift_table(
    stream: Stream, phis: FloatArray, conditions: Sequence[str] | None = None, setup: Setup = DEFAULT
) -> DriftTable:
    """Play the stream under every condition asked for, all by default."""
    names = CONDITIONS if conditions is None else conditions
    unknown = [name for name in names if name not in CONDITIONS]
    if unknown:
        raise InputError(f"no condition {unknown[0]!r}; expected among {', '.join(CONDITIONS)}")
    run = _Run(stream, phis, setup)
    found = {}
    for done, name in enumerate(names, start=1):
        found[name] = _CONDITIONS[name](run)
        setup.progress(name, done, len(names))
    return DriftTable(stream=stream, conditions=found)


@dataclass(frozen=True, slots=True)
class _Run:
    stream: Stream
    phis: FloatArray
    setup: Setup

    def memory(self, peers: Sequence[str] | None = None, path: Path | None = None) -> SigmaMem:
        return SigmaMem(
            peers or self.stream.peers,
            path,
            rank=self.phis.shape[1],
            settings=self.setup.settings,
            keep_text=False,
            seed=self.setup.seed,
            reads=self.setup.reads,
        )

    def player(
        self, memory: SigmaMem, halfway: Callable[[MemoryPlayer], None] = lambda player: None
    ) -> MemoryPlayer:
        return MemoryPlayer(memory, self.setup.reads, at=len(self.stream) // 2, interrupt=halfway)

    def routers(self, stream: Stream, *, explore: bool = False) -> list[Player]:
        made = routers(stream, self.phis, self.setup, explore=explore)
        return [RouterPlayer(name, router, stream.peers) for name, router in made.items()]

    def everyone(self, stream: Stream, note: str, reveal: Reveal | None = None) -> Condition:
        return self.played(stream, [self.player(self.memory()), *self.routers(stream)], note, reveal)

    def played(
        self, stream: Stream, players: Sequence[Player], note: str, reveal: Reveal | None = None
    ) -> Condition:
        choices: Choices = {}
        for player in players:
            choices.update(play(stream, self.phis[: len(stream)], player, reveal))
        rows = rows_of(stream, choices, self.setup.reads)
        return Condition({name: row.correct for name, row in rows.items()}, note, choices)


def strongest(stream: Stream) -> list[str]:
    """The peers by their mean label over the whole stream, best first."""
    labels = {p: [e.correct[p] for e in stream if p in e.correct] for p in stream.peers}
    return sorted(stream.peers, key=lambda p: -sum(labels[p]) / max(len(labels[p]), 1))


def abrupt(stream: Stream) -> Stream:
    """From the middle on, the best and the worst peer exchange answers and labels."""
    half = len(stream) // 2
    return _exchanged(stream, lambda t, event: t >= half)


def gradual(stream: Stream, seed: int = 0) -> Stream:
    """The same exchange with a probability that grows from 0 to 1 along the stream."""
    n = max(len(stream) - 1, 1)
    return _exchanged(stream, lambda t, event: chance(seed, "gradual", event.id) < t / n)


def _exchanged(stream: Stream, when: Callable[[int, Event], bool]) -> Stream:
    order = strongest(stream)
    best, worst = order[0], order[-1]

    def swap(event: Event) -> Event:
        if not {best, worst} <= event.answers.keys() & event.correct.keys():
            return event
        answers = {**event.answers, best: event.answers[worst], worst: event.answers[best]}
        correct = {**event.correct, best: event.correct[worst], worst: event.correct[best]}
        return replace(event, answers=answers, correct=correct)

    return replace(stream, events=tuple(swap(e) if when(t, e) else e for t, e in enumerate(stream)))


def late_peer(stream: Stream) -> tuple[Stream, str]:
    """The best peer is there from the middle on only, listed last; also its name."""
    newcomer, half = strongest(stream)[0], len(stream) // 2
    others = tuple(p for p in stream.peers if p != newcomer)

    def without(event: Event) -> Event:
        answers = {p: a for p, a in event.answers.items() if p != newcomer}
        return replace(
            event, answers=answers, correct={p: c for p, c in event.correct.items() if p != newcomer}
        )

    events = (*map(without, stream.events[:half]), *stream.events[half:])
    return Stream(stream.name, (*others, newcomer), events), newcomer


def _new_peer(run: _Run) -> Condition:
    stream, newcomer = late_peer(run.stream)
    player = run.player(run.memory(stream.peers[:-1]), lambda p: p.memory.add_peer(newcomer))
    return run.played(stream, [player, *run.routers(stream)], f"{newcomer}, the best peer, joins halfway")


def _bandit_only(run: _Run) -> Condition:
    ours = [ExploringPlayer(run.memory(), explore=explore) for explore in (True, False)]
    note = "only the chosen peer is labelled; every router explores its own way"
    return run.played(run.stream, [*ours, *run.routers(run.stream, explore=True)], note, Bandit())


def _lies(run: _Run) -> Dishonest:
    return Dishonest(0.2, seed=run.setup.seed)


def _revoked(run: _Run) -> Condition:
    player = run.player(run.memory(), lambda p: p.revoke(_lies(run).source))
    return run.played(run.stream, [player], "the same lies, their source revoked halfway", _lies(run))


def _restart(run: _Run) -> Condition:
    note = "the memory's process ends halfway and starts again from its file"
    whole = play(run.stream, run.phis, run.player(run.memory()))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"

        def reopen(player: MemoryPlayer) -> None:
            player.memory.close()
            player.memory = run.memory(path=path)

        player = run.player(run.memory(path=path), reopen)
        found = run.played(run.stream, [player], note)
        player.memory.close()
    same = all(np.array_equal(whole[name], found.choices[name]) for name in whole)
    return replace(found, facts={"same_choices_as_without_restart": same})


_CONDITIONS: dict[str, Callable[[_Run], Condition]] = {
    "stationary": lambda run: run.everyone(run.stream, "the stream as it is"),
    "abrupt": lambda run: run.everyone(abrupt(run.stream), "best and worst peer exchange answers halfway"),
    "gradual": lambda run: run.everyone(gradual(run.stream, run.setup.seed), "the same, ever more often"),
    "cold-start": lambda run: run.everyone(
        run.stream.select(limit=COLD_START),
        f"the first {min(COLD_START, len(run.stream))} events, from an empty memory",
    ),
    "new-peer": _new_peer,
    "sparse": lambda run: run.everyone(
        run.stream, "one event in ten is labelled", Share(0.1, run.setup.seed)
    ),
    "delayed": lambda run: run.everyone(run.stream, "labels come 100 events late", Delayed(100)),
    "bandit-only": _bandit_only,
    "poisoned": lambda run: run.everyone(
        run.stream, "one source flips the labels of 20 % of the events", _lies(run)
    ),
    "poisoned-revoked": _revoked,
    "restart": _restart,
}
CONDITIONS = tuple(_CONDITIONS)


def _rolling(right: FloatArray, width: int = 200) -> FloatArray:
    """Accuracy in percent over the last ``width`` events."""
    total = np.concatenate(([0.0], np.cumsum(right)))
    t = np.arange(1, len(right) + 1)
    start = np.maximum(t - width, 0)
    rate: FloatArray = 100 * (total[t] - total[start]) / (t - start)
    return rate
