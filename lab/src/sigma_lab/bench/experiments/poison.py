"""What lying label sources cost, with an honest source named as trusted and with none named.

Real sessions are played. The liars say that the worst peer is right and every other one wrong. Costs are in
points of accuracy, against the same memory with honest feedback only.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sigma_lab.bench import figures
from sigma_lab.bench.bootstrap import Interval, intervals
from sigma_lab.bench.league import DEFAULT, Setup, rows_of
from sigma_lab.bench.play import Choices, MemoryPlayer, play
from sigma_lab.bench.row import Present
from sigma_lab.bench.table import Grid, Table
from sigma_lab.bench.updates import strongest
from sigma_lab.reveal import Dishonest, Everything, Reveal, Revealed
from sigma_mem.errors import InputError
from sigma_mem.events import Event, FloatArray
from sigma_mem.memory import Settings
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream
from sigma_mem.streams.stream import chance

HONEST, LIAR = "honest", "liar"
SYBILS = tuple(f"sybil{i}" for i in range(1, 10))
FAKES = 5  # invented events per real one
ROWS = ("adaptive", "calibrated-vote", "calibrated-route")  # shown, in this order
CLEAN = "clean"

Correct = Mapping[str, FloatArray]  # mechanism → how right it was at every event


@dataclass(frozen=True, slots=True)
class Poisoning:
    """Who labels what: honest labels are ``HONEST``'s, lies come under the names of ``liars``."""

    note: str
    reveal: Callable[[str, int], Reveal]  # of the worst peer and a seed
    liars: tuple[str, ...] = ()
    fakes: int = 0  # invented events per real one
    unnamed: Callable[[str, int], Reveal] | None = None  # unless the honest source is named, if that differs


@dataclass(frozen=True, slots=True)
class Colluders:
    """Sources that label what others label, in favour of one peer; who speaks first is drawn.

    >>> event = Event("e1", "2+2?", {}, {"a": 1.0, "b": -1.0})
    >>> shown = Colluders("b", ("liar",), Everything("honest")).reveal(0, event, "a")
    >>> sorted((r.source, r.labels["a"]) for r in shown)
    [('honest', 1.0), ('liar', -1.0)]
    """

    favours: str
    sources: tuple[str, ...]
    of: Reveal
    seed: int = 0

    def reveal(self, index: int, event: Event, chosen: str) -> list[Revealed]:
        """Show the labels, and the lies about them."""
        shown = self.of.reveal(index, event, chosen)
        said = [
            replace(r, labels=lies(r.labels, self.favours), source=s) for r in shown for s in self.sources
        ]
        return said + shown if chance(self.seed, "first", event.id) < 0.5 else shown + said


def lies(peers: Sequence[str] | Mapping[str, float], favours: str) -> dict[str, float]:
    """Labels by which one peer is right, and every other one wrong."""
    return {peer: 1.0 if peer == favours else -1.0 for peer in peers}


_HONEST = Everything(HONEST)
_ATTACKS = {
    CLEAN: Poisoning("honest labels for every event", lambda worst, seed: _HONEST),
    "lies-20": Poisoning(
        "20 % of the events are labelled by a liar instead; where none is named, by the only source",
        lambda worst, seed: Dishonest(0.2, LIAR, worst, seed, _HONEST),
        (LIAR,),
        unnamed=lambda worst, seed: Dishonest(0.2, HONEST, worst, seed, _HONEST),
    ),
    "lies-50": Poisoning(
        "an untrusted source of equal volume: half of the events are labelled by a liar instead",
        lambda worst, seed: Dishonest(0.5, LIAR, worst, seed, _HONEST),
        (LIAR,),
    ),
    "colluder": Poisoning(
        "a liar labels every event beside the honest source",
        lambda worst, seed: Colluders(worst, (LIAR,), _HONEST, seed),
        (LIAR,),
    ),
    "sybils": Poisoning(
        f"{len(SYBILS)} liars label every event beside the honest source",
        lambda worst, seed: Colluders(worst, SYBILS, _HONEST, seed),
        SYBILS,
    ),
    "fake-events": Poisoning(
        f"a liar invents {FAKES} events per real one, at φ of questions of the stream, and labels them",
        lambda worst, seed: _HONEST,
        (LIAR,),
        FAKES,
    ),
}
ATTACKS = tuple(_ATTACKS)


@dataclass(frozen=True, kw_only=True)
class PoisonTable(Table):
    """How right each mechanism was under every attack, for every way to treat sources."""

    title = "Lying sources"

    worst: str  # the peer that liars favour
    correct: Mapping[str, Mapping[str, Correct]]  # way → attack → mechanism
    differences: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # way → attack, once revoked
    silent: Mapping[str, Mapping[str, Correct]] = field(default_factory=dict)  # the same with silent liars

    def costs(self, way: str, row: str) -> dict[str, Interval]:
        """Accuracy of a mechanism under every attack, and the paired difference to honest feedback."""
        return intervals({attack: rows[row] for attack, rows in self.correct[way].items()}, CLEAN)

    def silent_costs(self, way: str, attack: str) -> dict[str, float]:
        """What the attack costs without its lies: honest labels that are missing, and decay."""
        clean, silent = self.correct[way][CLEAN], self.silent[way][attack]
        return {row: round(float((silent[row] - clean[row]).mean()), 6) for row in clean}

    def results(self) -> dict[str, Any]:
        """Accuracy and cost by way, attack and mechanism, and what revoking the liars leaves."""
        ways: dict[str, Any] = {}
        for way, row, attack, found in self._each():
            cost = {
                "accuracy": round(found.mean, 6),
                "cost": round(found.difference, 6),
                "interval": [round(found.difference_low, 6), round(found.difference_high, 6)],
            }
            ways.setdefault(way, {}).setdefault(attack, {})[row] = cost
        revoked: dict[str, Any] = {}
        if self.differences:
            silent = {
                way: {attack: self.silent_costs(way, attack) for attack in attacks}
                for way, attacks in self.silent.items()
            }
            revoked = {"revoked": self.differences, "silent": silent}
        return {"favoured": self.worst, "sources": ways, **revoked}

    def _each(self) -> Iterator[tuple[str, str, str, Interval]]:
        for way, attacks in self.correct.items():
            for row in attacks[CLEAN]:
                for attack, found in self.costs(way, row).items():
                    yield way, row, attack, found

    def grid(self) -> Grid:
        """A line per way and attack: accuracy, and its difference to honest feedback in points."""
        body: dict[tuple[str, str], list[str]] = {}
        for way, _, attack, found in self._each():
            span = 50 * (found.difference_high - found.difference_low)
            line = body.setdefault((way, attack), [way, attack])
            cost = "" if attack == CLEAN else f"{100 * found.difference:+.2f} ± {span:.2f}"
            line += [f"{found.mean:.2%}", cost]
        header = ["sources", "attack"]
        for row in next(iter(self.correct.values()))[CLEAN]:
            header += [row, "− clean"]
        if self.differences:
            header.append("revoked")
            for (way, attack), line in body.items():
                left = self.differences[way].get(attack)
                line.append("" if left is None else f"{left:.1e}")
        return header, list(body.values())

    def remarks(self) -> list[str]:
        """What the ways and the attacks are, and what costs most."""
        said = [f"Liars favour {self.worst}, the worst peer.", ""]
        said += [f"- {way}: {_WAYS[way]}." for way in self.correct]
        attacks = next(iter(self.correct.values()))
        said += [f"- {name}: {_ATTACKS[name].note}." for name in attacks]
        if self.differences:
            said.append(
                "- revoked: largest difference in M, N and G, once the liars are revoked, to a memory "
                "in which they never spoke."
            )
            for way, attacks_ in self.silent.items():
                for name in attacks_:
                    costs = self.silent_costs(way, name).items()
                    cost = ", ".join(f"{row} {100 * points:+.2f}" for row, points in costs)
                    said.append(f"- {way}, {name}, with silent liars: {cost}.")
        return said

    def figures(self, folder: Path) -> list[Path]:
        """Cost in points by attack, way and mechanism."""
        rows = list(next(iter(self.correct.values()))[CLEAN])
        attacks = [name for name in next(iter(self.correct.values())) if name != CLEAN]
        if not attacks:
            return []
        columns = [(way, row, self.costs(way, row)) for way in self.correct for row in rows]
        values = 100 * np.array([[costs[a].difference for _, _, costs in columns] for a in attacks])
        names = [f"{way}: {row}" for way, row, _ in columns]
        title = f"{self.stream.name}: cost of lying sources (points)"
        return [figures.heatmap(values, attacks, names, title, folder / "poison.png", signed=True)]


_NAMED = "named"
_WAYS = {
    _NAMED: "the honest source is named as trusted",
    "none named": "no source is named as trusted",
}


def poison_table(
    stream: Stream,
    phis: FloatArray,
    attacks: Sequence[str] | None = None,
    setup: Setup = DEFAULT,
    *,
    revoke: bool = False,
) -> PoisonTable:
    """Play the stream under every attack asked for (all by default), for every way to treat sources.

    Parameters
    ----------
    revoke : bool
        Also revoke the liars at the end, and compare with a memory in which they never spoke.
    """
    unknown = [name for name in attacks or () if name not in _ATTACKS]
    if unknown:
        raise InputError(f"no attack {unknown[0]!r}; expected among {', '.join(ATTACKS)}")
    names = ATTACKS if attacks is None else (CLEAN, *(name for name in attacks if name != CLEAN))
    play_ = _Poisoned(stream, phis, setup, strongest(stream)[-1])
    correct: dict[str, dict[str, Correct]] = {}
    differences: dict[str, dict[str, float]] = {}
    silent: dict[str, dict[str, Correct]] = {}
    for way in _WAYS:
        for name in names:
            memory, choices = play_.attacked(way, name)
            correct.setdefault(way, {})[name] = play_.correct(choices)
            if revoke and play_.liars(way, name):
                clean, choices = play_.attacked(way, name, silent=play_.liars(way, name))
                silent.setdefault(way, {})[name] = play_.correct(choices)
                differences.setdefault(way, {})[name] = play_.left_of_lies(memory, clean, way, name)
    return PoisonTable(
        stream=stream, worst=play_.worst, correct=correct, differences=differences, silent=silent
    )


class FloodedPlayer(MemoryPlayer):
    """A memory to which a liar adds events of its own, in front of every real one.

    Parameters
    ----------
    phis : array (fakes × T, rank)
        φ of the invented events, in order.
    said : mapping
        What the liar says of every one of them.
    """

    def __init__(self, memory: SigmaMem, setup: Setup, phis: FloatArray, said: Mapping[str, float]) -> None:
        super().__init__(memory, setup.reads)
        self._invented = iter(phis)
        self._said = said

    def decide(self, event: Event, phi: FloatArray, present: Present) -> Mapping[str, int]:
        """`SigmaMem.decide`, after the invented events."""
        for invented in islice(self._invented, FAKES):
            decision = self.memory.route(phi=invented)
            if LIAR not in self.revoked:
                self.memory.feedback(decision.id, self._said, source=LIAR)
        return super().decide(event, phi, present)


@dataclass(frozen=True, slots=True)
class _Poisoned:
    stream: Stream
    phis: FloatArray
    setup: Setup
    worst: str

    def liars(self, way: str, name: str) -> tuple[str, ...]:
        """Names under which there are lies and nothing else."""
        attack = _ATTACKS[name]
        return () if way != _NAMED and attack.unnamed else attack.liars

    def attacked(self, way: str, name: str, silent: Iterable[str] = ()) -> tuple[SigmaMem, Choices]:
        """The memory after the stream, and what it chose; sources that are ``silent`` never speak."""
        attack, stream, setup = _ATTACKS[name], self.stream, self.setup
        reveal = attack.reveal if way == _NAMED or attack.unnamed is None else attack.unnamed
        memory = replace(setup, settings=_settings(way, setup.settings)).memory(
            stream.peers, self.phis.shape[1]
        )
        player = MemoryPlayer(memory, setup.reads)
        if attack.fakes:
            drawn = np.random.default_rng(setup.seed).integers(len(stream), size=attack.fakes * len(stream))
            player = FloodedPlayer(memory, setup, self.phis[drawn], lies(stream.peers, self.worst))
        player.revoked.update(silent)
        progress = partial(setup.progress, f"{way}: {name}")
        return memory, play(stream, self.phis, player, reveal(self.worst, setup.seed), progress)

    def correct(self, choices: Choices) -> Correct:
        """How right the mechanisms were that are shown."""
        rows = rows_of(self.stream, choices, self.setup.reads)
        return {name: rows[name].correct for name in ROWS if name in rows}

    def left_of_lies(self, memory: SigmaMem, clean: SigmaMem, way: str, name: str) -> float:
        """Revoke the liars; the largest difference in M, N and G to a memory in which they never spoke."""
        for liar in self.liars(way, name):
            memory.revoke(liar)
        states = memory.state, clean.state
        parts = [[state.M, state.N, state.G] for state in states]
        return max(float(np.abs(a - b).max()) for a, b in zip(*parts, strict=True))


def _settings(way: str, settings: Settings) -> Settings:
    """Settings of a memory that treats sources this way."""
    return replace(settings, trusted=(HONEST,) if way == _NAMED else ())
