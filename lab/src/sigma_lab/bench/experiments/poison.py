"""What lying label sources cost, with an honest source named as trusted and with none named.

Real sessions are played. The liars label the worst peer right and every other one wrong. Costs are in
points of accuracy, against the same memory with honest feedback only.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from sigma_lab.bench.league import DEFAULT, Setup, rows_of
from sigma_lab.bench.play import MemoryPlayer, play
from sigma_lab.bench.row import Present, intervals
from sigma_lab.bench.table import Table, about, difference_values
from sigma_lab.bench.updates import strongest
from sigma_lab.reveal import Dishonest, Everything, Reveal, Revealed
from sigma_mem.errors import InputError
from sigma_mem.events import Event, FloatArray
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream
from sigma_mem.streams.stream import chance

HONEST, LIAR = "honest", "liar"
SYBILS = tuple(f"sybil{i}" for i in range(1, 10))
FAKES = 5  # invented events per real one
ROWS = ("adaptive", "calibrated-vote", "calibrated-route")  # shown, in this order
CLEAN = "clean"

Correct = Mapping[str, FloatArray]  # mechanism → how right it was at every event


def lies(peers: Iterable[str], favours: str) -> dict[str, float]:
    """Labels by which one peer is right, and every other one wrong."""
    return {peer: 1.0 if peer == favours else -1.0 for peer in peers}


@dataclass(frozen=True, slots=True)
class Beside:
    """What ``of`` shows, and what liars say of the same events, before it or behind it."""

    of: Reveal
    said: Callable[[Revealed], list[Revealed]]
    first: Callable[[Event], bool]

    def reveal(self, index: int, event: Event, chosen: str) -> list[Revealed]:
        """Show the labels, and the lies about them."""
        shown = self.of.reveal(index, event, chosen)
        said = [one for r in shown for one in self.said(r)]
        return said + shown if self.first(event) else shown + said


def colluders(favours: str, sources: Sequence[str], of: Reveal, seed: int = 0) -> Beside:
    """Sources that label what others label, in favour of one peer; which one is first is drawn.

    >>> event = Event("e1", "2+2?", {}, {"a": 1.0, "b": -1.0})
    >>> shown = colluders("b", ["liar"], Everything("honest")).reveal(0, event, "a")
    >>> sorted((r.source, r.labels["a"]) for r in shown)
    [('honest', 1.0), ('liar', -1.0)]
    """
    return Beside(
        of,
        lambda r: [replace(r, labels=lies(r.labels, favours), source=name) for name in sources],
        lambda event: chance(seed, "first", event.id) < 0.5,
    )


def echo(of: Reveal, *, first: bool = False) -> Beside:
    """A liar that repeats the honest source on its events, so as to be believed elsewhere.

    If it is ``first``, it foresees the labels of the honest source.

    >>> event = Event("e1", "2+2?", {}, {"a": 1.0})
    >>> [(r.source, r.labels["a"]) for r in echo(Everything("honest")).reveal(0, event, "a")]
    [('honest', 1.0), ('liar', 1.0)]
    """
    return Beside(of, lambda r: [replace(r, source=LIAR)] if r.source == HONEST else [], lambda event: first)


@dataclass(frozen=True, slots=True)
class Poisoning:
    """Which source labels what: honest labels are ``HONEST``'s."""

    note: str
    reveal: Callable[[str, int, str], Reveal]  # of the worst peer, a seed, and the name of a single liar
    fakes: int = 0  # invented events per real one
    only_source: bool = False  # whether, unless the honest source is named, lies are told in its name


_HONEST = Everything(HONEST)
_ATTACKS = {
    CLEAN: Poisoning("honest labels for every event", lambda worst, seed, liar: _HONEST),
    "lies-20": Poisoning(
        "20 % of the events are labelled by a liar instead; if none is named, by the only source",
        lambda worst, seed, liar: Dishonest(0.2, liar, worst, seed, _HONEST),
        only_source=True,
    ),
    "lies-50": Poisoning(
        "an untrusted source of equal volume: half of the events are labelled by a liar instead",
        lambda worst, seed, liar: Dishonest(0.5, liar, worst, seed, _HONEST),
    ),
    "echo": Poisoning(
        "as lies-50, and the liar repeats the honest labels of the other half",
        lambda worst, seed, liar: echo(Dishonest(0.5, liar, worst, seed, _HONEST)),
    ),
    "foreseen": Poisoning(
        "as echo, but the liar says the same before the honest source, as if it knew what that will check",
        lambda worst, seed, liar: echo(Dishonest(0.5, liar, worst, seed, _HONEST), first=True),
    ),
    "colluder": Poisoning(
        "a liar labels every event as well as the honest source",
        lambda worst, seed, liar: colluders(worst, [liar], _HONEST, seed),
    ),
    "sybils": Poisoning(
        f"{len(SYBILS)} liars label every event as well as the honest source",
        lambda worst, seed, liar: colluders(worst, SYBILS, _HONEST, seed),
    ),
    "fake-events": Poisoning(
        f"a liar invents {FAKES} events per real one, at φ of questions of the stream, and labels them",
        lambda worst, seed, liar: _HONEST,
        fakes=FAKES,
    ),
}
ATTACKS = tuple(_ATTACKS)


_NAMED = "named"
WAYS = {
    _NAMED: "the honest source is named as trusted",
    "none named": "no source is named as trusted",
}


def poison_table(
    stream: Stream, phis: FloatArray, attacks: Sequence[str] | None = None, setup: Setup = DEFAULT
) -> Table:
    """Play the stream under every selected attack (all by default), for every way to treat sources."""
    unknown = [name for name in attacks or () if name not in _ATTACKS]
    if unknown:
        raise InputError(f"no attack {unknown[0]!r}; expected among {', '.join(ATTACKS)}")
    names = ATTACKS if attacks is None else (CLEAN, *(name for name in attacks if name != CLEAN))
    play_ = _Poisoned(stream, phis, setup, strongest(stream)[-1])
    ways = {way: _costs({name: play_.correct(way, name) for name in names}) for way in WAYS}
    rows = list(ways[_NAMED][CLEAN])
    return Table(
        title=f"Lying sources: {stream.name}",
        values={**about(stream), "favoured": play_.worst, "sources": ways},
        header=["sources", "attack", *(x for row in rows for x in (row, "− clean (95 % interval)"))],
        rows=[
            [way, attack, *_cells(attack, found)]
            for way, attacked in ways.items()
            for attack, found in attacked.items()
        ],
        remarks=[
            f"Liars favour {play_.worst}, the worst peer.",
            "",
            *(f"- {way}: {note}." for way, note in WAYS.items()),
            *(f"- {name}: {_ATTACKS[name].note}." for name in names),
        ],
    )


def _costs(correct: Mapping[str, Correct]) -> dict[str, dict[str, Any]]:
    """Accuracy of every mechanism under every attack, and the paired difference to honest feedback."""
    found: dict[str, dict[str, Any]] = {attack: {} for attack in correct}
    for row in correct[CLEAN]:
        spans = intervals({attack: rows[row] for attack, rows in correct.items()}, CLEAN)
        for attack, span in spans.items():
            values = difference_values(span)
            cost = {"cost": values["difference"], "interval": values["interval"]}
            found[attack][row] = {"accuracy": round(span.mean, 6), **cost}
    return found


def _cells(attack: str, found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    cells = []
    for of_row in found.values():
        low, high = (100 * end for end in of_row["interval"])
        cost = "" if attack == CLEAN else f"{100 * of_row['cost']:+.2f} ({low:+.2f} … {high:+.2f})"
        cells += [f"{of_row['accuracy']:.2%}", cost]
    return cells


class FloodedPlayer(MemoryPlayer):
    """A memory to which a liar adds events of its own, in front of every real one, at ``phis`` in turn.

    ``said`` are its labels of every one of them.
    """

    def __init__(self, memory: SigmaMem, setup: Setup, phis: FloatArray, said: Mapping[str, float]) -> None:
        super().__init__(memory, setup.reads)
        self._invented = iter(phis)
        self._said = said

    def decide(self, event: Event, phi: FloatArray, present: Present) -> Mapping[str, int]:
        """`SigmaMem.decide`, after the invented events."""
        for invented in islice(self._invented, FAKES):
            self.memory.feedback(self.memory.route(phi=invented).id, self._said, source=LIAR)
        return super().decide(event, phi, present)


@dataclass(frozen=True, slots=True)
class _Poisoned:
    stream: Stream
    phis: FloatArray
    setup: Setup
    worst: str

    def correct(self, way: str, name: str) -> Correct:
        """How right the mechanisms that are shown were under an attack."""
        attack, stream, setup = _ATTACKS[name], self.stream, self.setup
        liar = HONEST if way != _NAMED and attack.only_source else LIAR
        settings = replace(setup.settings, trusted=(HONEST,) if way == _NAMED else ())
        memory = replace(setup, settings=settings).memory(stream.peers, self.phis.shape[1])
        player = MemoryPlayer(memory, setup.reads)
        if attack.fakes:
            drawn = np.random.default_rng(setup.seed).integers(len(stream), size=attack.fakes * len(stream))
            player = FloodedPlayer(memory, setup, self.phis[drawn], lies(stream.peers, self.worst))
        reveal = attack.reveal(self.worst, setup.seed, liar)
        choices = play(stream, self.phis, player, reveal, partial(setup.progress, f"{way}: {name}"))
        rows = rows_of(stream, choices, setup.reads)
        return {row: rows[row].correct for row in ROWS if row in rows}
