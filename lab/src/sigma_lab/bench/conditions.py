"""The conditions of `bench drift`: a pool is drawn, something happens to it, and everybody plays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sigma_lab.bench.league import Setup, routers, rows_of
from sigma_lab.bench.naming import Naming, name_changes
from sigma_lab.bench.play import Choices, ExploringPlayer, MemoryPlayer, Player, RouterPlayer, play
from sigma_lab.bench.replayed import replayed
from sigma_lab.bench.row import present_peers
from sigma_lab.bench.updates import Draw, ever_more, from_halfway, late_peer, strongest, updated
from sigma_lab.reveal import Bandit, Delayed, Reveal
from sigma_mem.events import FloatArray
from sigma_mem.memory.settings import HORIZONS
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream

COMPARED = ("adaptive", "calibrated-route", "calibrated-vote")  # also with every single γ
LATE = 100  # events by which labels come late
ASKED = 50  # events after which it is asked again who changed

Correct = Mapping[str, FloatArray]  # mechanism → how right it was, event by event


@dataclass(frozen=True, slots=True)
class Played:
    """One draw under one condition: what happened, how right every row was, and who was named as changed."""

    happened: str
    correct: Correct
    naming: Naming | None = None


def by_gamma(read: str, gamma: float) -> str:
    """Row of a read of the memory with this γ alone."""
    return f"{read} γ={gamma:g}"


@dataclass(frozen=True, slots=True)
class Trial:
    """One draw, to be played under some condition."""

    models: Stream
    phis: FloatArray
    draw: Draw
    setup: Setup

    @property
    def pool(self) -> Stream:
        """The drawn models as they are."""
        return updated(self.models, self.draw.pool, {}, lambda t, event: False)

    def unchanged(self) -> Played:
        """Nothing happens."""
        return self.replayed("", self.pool, {})

    def replaced(self, *, everyone: bool, gradual: bool) -> Played:
        """Other models take over one name, or all of them, at once or ever more often."""
        successors = self.draw.successors(len(self.draw.pool) if everyone else 1)
        when = ever_more(self.models, self.draw.seed) if gradual else from_halfway(self.models)
        happened = ", ".join(f"{name} becomes {model}" for name, model in successors.items())
        stream = updated(self.models, self.draw.pool, successors, when)
        began = next(t for t, event in enumerate(stream) if when(t, event))
        return self.replayed(happened, stream, dict.fromkeys(successors, began))

    def swapped(self) -> Played:
        """The best and the worst model exchange names."""
        order = strongest(self.pool)
        best, worst = order[0], order[-1]
        stream = updated(self.models, self.draw.pool, {best: worst, worst: best}, from_halfway(self.models))
        began = dict.fromkeys((best, worst), len(stream) // 2)
        return self.replayed(f"{best} and {worst} change places", stream, began)

    def joined(self) -> Played:
        """The best model is there from halfway on."""
        stream, newcomer = late_peer(self.pool)
        stream, phis = _with_somebody(stream, self.phis)
        joins = next(t for t, event in enumerate(stream) if newcomer in {*event.answers, *event.correct})
        memory = self.memory(stream.peers[:-1])
        player = MemoryPlayer(
            memory, self.setup.reads, at=joins, interrupt=lambda p: p.memory.add_peer(newcomer)
        )
        return Played(f"{newcomer} joins", self.played(stream, phis, [player]))

    def delayed(self) -> Played:
        """Labels come late."""
        stream, phis = _with_somebody(self.pool, self.phis)
        player = MemoryPlayer(self.memory(stream.peers), self.setup.reads)
        return Played("", self.played(stream, phis, [player], Delayed(LATE)))

    def bandit(self) -> Played:
        """Only the chosen peer is labelled."""
        stream, phis = _with_somebody(self.pool, self.phis)
        ours = [ExploringPlayer(self.memory(stream.peers), explore=explore) for explore in (True, False)]
        return Played("", self.played(stream, phis, ours, Bandit(), explore=True))

    def memory(self, peers: Sequence[str]) -> SigmaMem:
        """A fresh memory of these peers."""
        return SigmaMem(
            peers,
            rank=self.phis.shape[1],
            settings=self.setup.settings,
            keep_text=False,
            seed=self.draw.seed,
            reads=self.setup.reads,
        )

    def replayed(self, happened: str, whole: Stream, began: Mapping[str, int]) -> Played:
        """Every row, the compared reads of one memory per γ, and who was named as changed."""
        stream, phis = _with_somebody(whole, self.phis)
        settings, reads = self.setup.settings, self.setup.reads
        found = dict(self.played(stream, phis, [], choices=replayed(stream, phis, settings, reads=reads)))
        for gamma in HORIZONS:
            single = replace(settings, gamma=gamma, horizons=())
            rows = rows_of(stream, replayed(stream, phis, single, reads=reads), reads)
            found |= {by_gamma(read, gamma): rows[read].correct for read in COMPARED if read in rows}
        return Played(happened, found, name_changes(whole, self.phis, began, ASKED))

    def played(
        self,
        stream: Stream,
        phis: FloatArray,
        players: Sequence[Player],
        reveal: Reveal | None = None,
        *,
        explore: bool = False,
        choices: Choices | None = None,
    ) -> Correct:
        """These players, the baselines and the rivals; beside choices that are there already."""
        setup = replace(self.setup, seed=self.draw.seed)
        made = routers(stream, phis, setup, explore=explore)
        others = [RouterPlayer(name, router, stream.peers) for name, router in made.items()]
        found = dict(choices or {})
        for player in (*players, *others):
            found.update(play(stream, phis, player, reveal))
        return {name: row.correct for name, row in rows_of(stream, found, setup.reads).items()}


UPDATES = ("none", "one", "all", "gradual", "swap")
CONDITIONS: dict[str, tuple[str, Callable[[Trial], Played]]] = {
    "none": ("nothing changes", Trial.unchanged),
    "one": (
        "halfway one name is taken over by another model",
        partial(Trial.replaced, everyone=False, gradual=False),
    ),
    "all": ("halfway every name is", partial(Trial.replaced, everyone=True, gradual=False)),
    "gradual": (
        "one name is ever more often: on no event up to 30 % of the stream, on all from 70 % on",
        partial(Trial.replaced, everyone=False, gradual=True),
    ),
    "swap": ("halfway the best and the worst model exchange names", Trial.swapped),
    "new-peer": ("the best model joins halfway", Trial.joined),
    "delayed": (f"nothing changes, and labels come {LATE} events late", Trial.delayed),
    "bandit-only": (
        "nothing changes, and only the chosen peer is labelled; every router explores its own way",
        Trial.bandit,
    ),
}


def _with_somebody(stream: Stream, phis: FloatArray) -> tuple[Stream, FloatArray]:
    """The events at which anybody of the pool is present, with their φ."""
    there = np.array([any(row) for row in present_peers(stream)])
    kept = tuple(event for event, some in zip(stream, there, strict=True) if some)
    return replace(stream, events=kept), phis[there]
