"""Asking only as many as needed: accuracy of `ask` against mean calls and costs, beside asking everyone.

Real sessions are played, one event after the other. Labels are shown of all peers of an event, or only of
those that were asked; then panels explore. Where calls have a price, panels know it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_lab.bench import figures
from sigma_lab.bench.bootstrap import Interval, intervals
from sigma_lab.bench.league import DEFAULT, Setup
from sigma_lab.bench.row import has_answers
from sigma_lab.bench.table import Grid, Table
from sigma_mem.decide.panel import CHANGE
from sigma_mem.errors import InputError
from sigma_mem.events import Event, FloatArray
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream

CHANGES = (0.03, 0.06, CHANGE, 0.25, 0.4)
EVERYONE = "decide, everyone asked"
_ALL, _ASKED = "everyone labelled", "those asked labelled"


@dataclass(frozen=True, slots=True)
class PlayedPanels:
    """What one way of asking came to: whether each answer was right, and how many peers were asked."""

    correct: FloatArray
    calls: NDArray[np.intp]
    asked_only: bool = False  # whether only those who were asked were labelled
    costs: FloatArray | None = None  # of every event's calls, where calls have a price

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return float(self.correct.mean())


@dataclass(frozen=True, kw_only=True)
class PanelTable(Table):
    """Ways of asking by name; `EVERYONE` is first."""

    title = "Asking only as many as needed"

    played: Mapping[str, PlayedPanels]

    def compared(self) -> dict[str, Interval]:
        """Every way of asking against asking everyone, paired by event."""
        return intervals({name: way.correct for name, way in self.played.items()}, EVERYONE)

    def results(self) -> dict[str, Any]:
        """Accuracy, calls and the difference from asking everyone."""
        n_peers, against = len(self.stream.peers), self.compared()
        ways = {
            name: {
                "accuracy": round(way.accuracy, 6),
                "calls": round(float(way.calls.mean()), 6),
                "share_of_calls": round(float(way.calls.mean()) / n_peers, 6),
                **({} if way.costs is None else {"cost": round(float(way.costs.mean()), 10)}),
                "labelled": _ASKED if way.asked_only else _ALL,
                "difference": round(against[name].difference, 6),
                "interval": [round(against[name].difference_low, 6), round(against[name].difference_high, 6)],
            }
            for name, way in self.played.items()
        }
        return {"ways": ways}

    def grid(self) -> Grid:
        """A line per way of asking."""
        body = [
            [
                name,
                f"{way['accuracy']:.2%}",
                f"{way['calls']:.2f}",
                f"{way['share_of_calls']:.1%}",
                *([f"{way['cost']:.4g}"] if "cost" in way else []),
                f"{100 * way['difference']:+.2f}",
                "({:+.2f} … {:+.2f})".format(*(100 * end for end in way["interval"])),
            ]
            for name, way in self.results()["ways"].items()
        ]
        priced = ["mean cost"] if self.played[EVERYONE].costs is not None else []
        columns = ["way of asking", "right", "mean calls", "of all", *priced]
        return [*columns, "against everyone", "95 % interval"], body

    def remarks(self) -> list[str]:
        """What the names mean."""
        return [
            "change ≤ c: ask until the chance that the rest would change the answer is at most c.",
            "best k: ask the k peers with the largest p̂, then decide.",
        ]

    def figures(self, folder: Path) -> list[Path]:
        """Accuracy against mean calls and, where calls have a price, mean cost: a line per kind of asking."""
        drawn = [
            self._figure({n: way.calls for n, way in self.played.items()}, "calls", folder / "panel.png")
        ]
        costs = {name: way.costs for name, way in self.played.items() if way.costs is not None}
        if costs:
            drawn.append(self._figure(costs, "cost", folder / "panel-cost.png"))
        return drawn

    def _figure(self, spent: Mapping[str, NDArray[Any]], what: str, path: Path) -> Path:
        lines: dict[str, list[tuple[float, float]]] = {}
        for name, way in self.played.items():
            if name != EVERYONE:
                kind = f"{name.split()[0]}, {_ASKED if way.asked_only else _ALL}"
                lines.setdefault(kind, []).append((float(spent[name].mean()), way.accuracy))
        level = {EVERYONE: self.played[EVERYONE].accuracy}
        return figures.against(
            lines, level, f"mean {what}", f"{self.stream.name}: accuracy against {what}", path
        )


def panel_table(
    stream: Stream,
    phis: FloatArray,
    changes: Sequence[float] = CHANGES,
    setup: Setup = DEFAULT,
    prices: Mapping[str, float] | None = None,
) -> PanelTable:
    """Play the stream by `decide` on all answers, by `ask` at every limit, and by asking the best k.

    A call costs what the stream says it did or, where `prices` are given, its peer's price.
    """
    if not has_answers(stream):
        raise InputError(f"{stream.name} has no readable answers; expected a stream with answers to vote on")
    half = (len(stream.peers) + 1) // 2
    ways = {EVERYONE: _Way(calls=len(stream.peers), change=0.0, everyone=True)}
    ways |= {f"best {k}": _Way(calls=k, change=0.0) for k in sorted({1, half})}
    ways |= {f"change ≤ {c:g}": _Way(change=c) for c in changes}
    ways |= {f"change ≤ {c:g}, {_ASKED}": _Way(change=c, asked_only=True) for c in changes}
    costs = _call_costs(stream, prices)
    return PanelTable(
        stream=stream,
        played={name: _played(stream, phis, way, setup.part(name), costs) for name, way in ways.items()},
    )


def _call_costs(stream: Stream, prices: Mapping[str, float] | None) -> FloatArray | None:
    """What every call costs, (events, peers); None where nothing has a price."""
    if prices is not None:
        if wrong := sorted(set(prices) ^ set(stream.peers)):
            raise InputError(
                f"prices are of {sorted(prices)}; expected all peers, and {wrong[0]!r} is in one only"
            )
        return np.tile([prices[peer] for peer in stream.peers], (len(stream), 1))
    costs = stream.costs()
    known = np.isfinite(costs)
    return np.where(known, costs, np.nanmean(costs, axis=0)) if known.any(axis=0).all() else None


@dataclass(frozen=True, slots=True)
class _Way:
    change: float
    calls: int | None = None
    everyone: bool = False
    asked_only: bool = False


def _played(
    stream: Stream, phis: FloatArray, way: _Way, setup: Setup, costs: FloatArray | None
) -> PlayedPanels:
    correct, calls = np.zeros(len(stream)), np.zeros(len(stream), dtype=np.intp)
    spent = None if costs is None else np.zeros(len(stream))
    with setup.memory(stream.peers, phis.shape[1]) as memory:
        if costs is not None:
            for name, price in zip(stream.peers, costs.mean(axis=0).tolist(), strict=True):
                memory.set_price(name, per_call=price)
        for place, (event, phi) in enumerate(zip(stream, phis, strict=True)):
            peer, asked, id = _asked(memory, event, phi, way)
            correct[place] = peer is not None and event.correct.get(peer, -1.0) > 0.0
            calls[place] = len(asked)
            if costs is not None and spent is not None:
                spent[place] = sum(costs[place, stream.peers.index(p)] for p in asked)
            shown = {p: c for p, c in event.correct.items() if not way.asked_only or p in asked}
            if shown:
                memory.feedback(id, shown)
            if place % 64 == 63 or place + 1 == len(stream):
                setup.progress("", place + 1, len(stream))
    return PlayedPanels(correct, calls, way.asked_only, spent)


def _asked(
    memory: SigmaMem, event: Event, phi: FloatArray, way: _Way
) -> tuple[str | None, Sequence[str], str]:
    """The peer whose answer was taken, those who were asked, and the decision."""
    if way.everyone:
        decision = memory.decide(event.question, event.answers, phi=phi)
        return decision.peer, list(event.answers), decision.id
    panel = memory.ask(
        event.question,
        phi=phi,
        among=list(event.answers),
        explore=way.asked_only,
        change=way.change,
        calls=way.calls,
    )
    while panel.next is not None:
        panel.add(panel.next, event.answers[panel.next])
    return panel.decision.peer, list(panel.answers), panel.decision.id
