"""One protocol over every condition that users name: drift, cold start, new peers, little or bad feedback.

Memories run through `SigmaMem` itself, routers and rivals beside it on the same φ and labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sigma_mem.bench import figures
from sigma_mem.bench.experiments.conditions import abrupt, gradual, late_peer
from sigma_mem.bench.league import Progress, routers, rows_of, silent
from sigma_mem.bench.play import Choices, ExploringPlayer, MemoryPlayer, Player, RouterPlayer, play
from sigma_mem.bench.table import Grid, Table
from sigma_mem.decide import READS, Reads
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Bandit, Delayed, Dishonest, Everything, Reveal, Share, Stream

__all__ = ["COLD_START", "CONDITIONS", "DriftTable", "drift_table"]

COLD_START = 200  # events
_DRAWN = ("abrupt", "gradual", "new-peer", "bandit-only", "poisoned")


@dataclass(frozen=True, slots=True)
class Condition:
    """Rows of one condition: how right each mechanism was, event by event, and what to say of it."""

    correct: Mapping[str, FloatArray]
    note: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DriftTable(Table):
    """Every condition on one stream."""

    title = "Conditions"

    conditions: Mapping[str, Condition]

    def values(self) -> dict[str, Any]:
        """The object that ``bench drift --json`` prints."""
        return {
            "stream": self.stream.name,
            "events": len(self.stream),
            "peers": list(self.stream.peers),
            "conditions": {
                name: {
                    "note": condition.note,
                    "mechanisms": {
                        row: {"accuracy": round(float(right.mean()), 6), "late": round(_late(right), 6)}
                        for row, right in condition.correct.items()
                    },
                    **condition.facts,
                }
                for name, condition in self.conditions.items()
            },
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
        return [
            figures.curves(
                {n: _rolling(c.correct[n]) for n in c.correct},
                "event",
                "accuracy over the last 200 events (%)",
                f"{self.stream.name}: {name}",
                folder / f"{name}.png",
            )
            for name, c in self.conditions.items()
            if name in _DRAWN
        ]


def drift_table(
    stream: Stream,
    phis: FloatArray,
    conditions: Sequence[str] | None = None,
    settings: Settings | None = None,
    *,
    rivals: Sequence[str] = (),
    seed: int = 0,
    progress: Progress = silent,
    reads: Reads = READS,
) -> DriftTable:
    """Play the stream under every condition asked for, all by default."""
    names = CONDITIONS if conditions is None else conditions
    unknown = [name for name in names if name not in CONDITIONS]
    if unknown:
        raise InputError(f"no condition {unknown[0]!r}; expected among {', '.join(CONDITIONS)}")
    run = _Run(stream, phis, settings or Settings(), rivals, seed, reads)
    found = {}
    for done, name in enumerate(names, start=1):
        found[name] = _CONDITIONS[name](run)
        progress(name, done, len(names))
    return DriftTable(stream, phis, found)


@dataclass(frozen=True, slots=True)
class _Run:
    stream: Stream
    phis: FloatArray
    settings: Settings
    rivals: Sequence[str]
    seed: int
    reads: Reads

    def memory(self, peers: Sequence[str] | None = None, path: Path | None = None) -> SigmaMem:
        return SigmaMem(
            peers or self.stream.peers,
            path,
            rank=self.phis.shape[1],
            settings=self.settings,
            keep_text=False,
            seed=self.seed,
            reads=self.reads,
        )

    def routers(self, stream: Stream, *, explore: bool = False) -> list[Player]:
        made = routers(stream, self.phis, self.settings, self.rivals, self.seed, explore=explore)
        return [RouterPlayer(name, router, stream.peers) for name, router in made.items()]

    def everyone(self, stream: Stream, note: str, reveal: Reveal | None = None) -> Condition:
        """A fresh memory and every router."""
        players = [MemoryPlayer(self.memory(), self.reads), *self.routers(stream)]
        return self.played(stream, players, note, reveal)

    def played(
        self, stream: Stream, players: Sequence[Player], note: str, reveal: Reveal | None = None
    ) -> Condition:
        choices: Choices = {}
        for player in players:
            choices.update(play(stream, self.phis[: len(stream)], player, reveal or Everything()))
        return Condition(self.correct(stream, choices), note)

    def correct(self, stream: Stream, choices: Choices) -> dict[str, FloatArray]:
        return {name: row.correct for name, row in rows_of(stream, choices, self.reads).items()}


def _cold_start(run: _Run) -> Condition:
    first = run.stream.select(limit=COLD_START)
    return run.everyone(first, f"the first {len(first)} events, from an empty memory")


def _new_peer(run: _Run) -> Condition:
    stream, newcomer, half = late_peer(run.stream)
    joins = MemoryPlayer(
        run.memory(stream.peers[:-1]), run.reads, at=half, interrupt=lambda p: p.memory.add_peer(newcomer)
    )
    return run.played(stream, [joins, *run.routers(stream)], f"{newcomer}, the best peer, joins halfway")


def _bandit_only(run: _Run) -> Condition:
    ours = [ExploringPlayer(run.memory(), explore=explore) for explore in (True, False)]
    note = "only the chosen peer is labelled; every router explores its own way"
    return run.played(run.stream, [*ours, *run.routers(run.stream, explore=True)], note, Bandit())


def _revoked(run: _Run) -> Condition:
    lies, half = Dishonest(0.2, seed=run.seed), len(run.stream) // 2
    player = MemoryPlayer(run.memory(), run.reads, at=half, interrupt=lambda p: p.revoke(lies.source))
    return run.played(run.stream, [player], "the same lies, their source revoked halfway", lies)


def _restart(run: _Run) -> Condition:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"

        def reopen(player: MemoryPlayer) -> None:
            player.memory.close()
            player.memory = run.memory(path=path)

        again = MemoryPlayer(run.memory(path=path), run.reads, at=len(run.stream) // 2, interrupt=reopen)
        found, whole = (play(run.stream, run.phis, p) for p in (again, MemoryPlayer(run.memory(), run.reads)))
        again.memory.close()
    same = all(np.array_equal(whole[name], found[name]) for name in whole)
    note = "the memory's process ends halfway and starts again from its file"
    return Condition(run.correct(run.stream, found), note, {"same_choices_as_without_restart": same})


_CONDITIONS: dict[str, Callable[[_Run], Condition]] = {
    "stationary": lambda run: run.everyone(run.stream, "the stream as it is"),
    "abrupt": lambda run: run.everyone(abrupt(run.stream), "best and worst peer exchange answers halfway"),
    "gradual": lambda run: run.everyone(gradual(run.stream, run.seed), "the same, ever more often"),
    "cold-start": _cold_start,
    "new-peer": _new_peer,
    "sparse": lambda run: run.everyone(run.stream, "one event in ten is labelled", Share(0.1, run.seed)),
    "delayed": lambda run: run.everyone(run.stream, "labels come 100 events late", Delayed(100)),
    "bandit-only": _bandit_only,
    "poisoned": lambda run: run.everyone(
        run.stream, "one source flips the labels of 20 % of the events", Dishonest(0.2, seed=run.seed)
    ),
    "poisoned-revoked": _revoked,
    "restart": _restart,
}
CONDITIONS = tuple(_CONDITIONS)


def _late(right: FloatArray) -> float:
    """Accuracy over the last quarter: what a mechanism has come to."""
    return float(right[-max(len(right) // 4, 1) :].mean())


def _rolling(right: FloatArray, width: int = 200) -> FloatArray:
    """Accuracy in percent over the last ``width`` events."""
    total = np.concatenate(([0.0], np.cumsum(right)))
    t = np.arange(1, len(right) + 1)
    start = np.maximum(t - width, 0)
    rate: FloatArray = 100 * (total[t] - total[start]) / (t - start)
    return rate
