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
from numpy.typing import NDArray

from sigma_mem.bench.experiments.conditions import abrupt, gradual, late_peer
from sigma_mem.bench.league import Say, routers
from sigma_mem.bench.players import JoiningPlayer, RestartedPlayer, RevokingPlayer
from sigma_mem.bench.progressive import Choices, ExploringPlayer, MemoryPlayer, Player, RouterPlayer, play
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Bandit, Delayed, Dishonest, Everything, Reveal, Share, Stream

__all__ = ["CONDITIONS", "DriftTable", "drift_table"]

CONDITIONS = (
    "stationary",
    "abrupt",
    "gradual",
    "cold-start",
    "new-peer",
    "sparse",
    "delayed",
    "bandit-only",
    "poisoned",
    "poisoned-revoked",
    "restart",
)
_COLD = 200  # events that count as a cold start
_KEPT = ("adaptive", "calibrated-vote", "calibrated-route", "m-route", "majority")


@dataclass(frozen=True, slots=True)
class Condition:
    """Rows of one condition: whether each mechanism was right, event by event, and what to say of it."""

    correct: Mapping[str, FloatArray]
    note: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DriftTable:
    """Every condition on one stream."""

    stream: str
    peers: tuple[str, ...]
    events: int
    conditions: Mapping[str, Condition]

    def values(self) -> dict[str, Any]:
        """The object that ``bench drift --json`` prints."""
        return {
            "stream": self.stream,
            "events": self.events,
            "peers": list(self.peers),
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


def drift_table(
    stream: Stream,
    phis: FloatArray,
    conditions: Sequence[str] = CONDITIONS,
    settings: Settings | None = None,
    *,
    rivals: Sequence[str] = (),
    seed: int = 0,
    say: Say | None = None,
) -> DriftTable:
    """Play the stream under every condition asked for."""
    unknown = [name for name in conditions if name not in CONDITIONS]
    if unknown:
        raise InputError(f"no condition {unknown[0]!r}; expected among {', '.join(CONDITIONS)}")
    run = _Run(stream, phis, settings or Settings(), rivals, seed)
    found = {}
    for done, name in enumerate(conditions, start=1):
        found[name] = run.condition(name)
        if say is not None:
            say(name, done, len(conditions))
    return DriftTable(stream.name, stream.peers, len(stream), found)


@dataclass(frozen=True, slots=True)
class _Run:
    stream: Stream
    phis: FloatArray
    settings: Settings
    rivals: Sequence[str]
    seed: int

    def condition(self, name: str) -> Condition:
        stream = self.stream
        if name == "abrupt":
            return self._all(abrupt(stream), "best and worst peer exchange answers halfway")
        if name == "gradual":
            return self._all(gradual(stream, self.seed), "the same, ever more often")
        if name == "cold-start":
            first = stream.select(limit=_COLD)
            return self._all(first, f"the first {len(first)} events, from an empty memory")
        if name == "sparse":
            return self._all(stream, "one event in ten is labelled", Share(0.1, self.seed))
        if name == "delayed":
            return self._all(stream, "labels come 100 events late", Delayed(100))
        if name == "poisoned":
            return self._all(stream, "one source flips the labels of 20 % of the events", self._lies())
        special: dict[str, Callable[[], Condition]] = {
            "new-peer": self._new_peer,
            "bandit-only": self._bandit,
            "poisoned-revoked": self._revoked,
            "restart": self._restart,
        }
        return special[name]() if name in special else self._all(stream, "the stream as it is")

    def _lies(self) -> Reveal:
        return Dishonest(0.2, seed=self.seed)

    def _memory(self, peers: Sequence[str] | None = None, path: Path | None = None) -> SigmaMem:
        return SigmaMem(
            peers or self.stream.peers,
            path,
            rank=self.phis.shape[1],
            settings=self.settings,
            keep_text=False,
            seed=self.seed,
        )

    def _players(self, stream: Stream, *, explore: bool = False) -> list[Player]:
        made = routers(stream, self.phis, self.settings, self.rivals, self.seed, explore=explore)
        return [RouterPlayer(name, router, stream.peers) for name, router in made.items()]

    def _all(self, stream: Stream, note: str, reveal: Reveal | None = None) -> Condition:
        players = [MemoryPlayer(self._memory()), *self._players(stream)]
        return Condition(self._played(stream, players, reveal or Everything()), note)

    def _played(self, stream: Stream, players: Sequence[Player], reveal: Reveal) -> dict[str, FloatArray]:
        choices: Choices = {}
        for player in players:
            choices.update(play(stream, self.phis[: len(stream)], player, reveal))
        labels = stream.labels()
        shown = [name for name in choices if name in _KEPT or not _is_read(name)]
        return {name: _right(labels, choices[name]) for name in shown}

    def _new_peer(self) -> Condition:
        stream, newcomer, half = late_peer(self.stream)
        with self._memory(stream.peers[:-1]) as memory:
            player = JoiningPlayer(memory, newcomer, half)
            correct = self._played(stream, [player, *self._players(stream)], Everything())
        return Condition(correct, f"{newcomer}, the best peer, joins halfway")

    def _bandit(self) -> Condition:
        players: list[Player] = [
            ExploringPlayer(self._memory()),
            ExploringPlayer(self._memory(), explore=False),
        ]
        correct = self._played(self.stream, [*players, *self._players(self.stream, explore=True)], Bandit())
        return Condition(correct, "only the chosen peer is labelled; every router explores its own way")

    def _revoked(self) -> Condition:
        player = RevokingPlayer(self._memory(), "liar", len(self.stream) // 2)
        return Condition(
            self._played(self.stream, [player], self._lies()), "the same lies, their source revoked halfway"
        )

    def _restart(self) -> Condition:
        whole = play(self.stream, self.phis, MemoryPlayer(self._memory()))
        with TemporaryDirectory() as folder:
            path = Path(folder) / "memory.db"
            player = RestartedPlayer(lambda: self._memory(path=path), len(self.stream) // 2)
            again = play(self.stream, self.phis, player)
            player.close()
        same = all(np.array_equal(whole[name], again[name]) for name in whole)
        labels = self.stream.labels()
        correct = {name: _right(labels, again[name]) for name in _KEPT}
        note = "the memory's process ends halfway and starts again from its file"
        return Condition(correct, note, {"same_choices_as_without_restart": same})


def _is_read(name: str) -> bool:
    return name in ("m-vote", "posterior", "posterior-no-g")


def _right(labels: FloatArray, chosen: NDArray[np.intp]) -> FloatArray:
    """Whether the chosen peer was right; a peer that is not there yet is replaced by the first that is."""
    rows = np.arange(len(labels))
    there = ~np.isnan(labels)
    actual = np.where(there[rows, chosen], chosen, there.argmax(axis=1))
    return (labels[rows, actual] > 0).astype(np.float64)


def _late(right: FloatArray) -> float:
    """Accuracy over the last quarter: what a mechanism has come to."""
    return float(right[-max(len(right) // 4, 1) :].mean())
