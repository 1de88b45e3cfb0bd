"""Asking only as many as needed: accuracy of `ask` by mean calls and costs, compared with asking everyone.

Real sessions are played, one event after the other. Labels are shown of all peers of an event, or only of
those that were asked; then panels explore. If calls have a price, panels know it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sigma_lab.bench.league import DEFAULT, Setup
from sigma_lab.bench.row import has_answers, intervals
from sigma_lab.bench.table import Table, about, difference_text, difference_values, rounded
from sigma_mem.decide.panel import CHANGE
from sigma_mem.errors import InputError
from sigma_mem.events import Decision, Event, FloatArray
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
    asked_only: bool = False  # whether only peers that were asked were labelled
    costs: FloatArray | None = None  # of every event's calls, if calls have a price


def panel_table(
    stream: Stream,
    phis: FloatArray,
    changes: Sequence[float] = CHANGES,
    setup: Setup = DEFAULT,
    prices: Mapping[str, float] | None = None,
) -> Table:
    """Play the stream by `decide` on all answers, by `ask` at every limit, and by asking the best k.

    A call costs what the stream recorded or, if `prices` are given, its peer's price.
    """
    played = played_panels(stream, phis, changes, setup, prices)
    against = intervals({name: way.correct for name, way in played.items()}, EVERYONE)
    priced = played[EVERYONE].costs is not None
    ways, body = {}, []
    for name, way in played.items():
        right, calls, span = float(way.correct.mean()), float(way.calls.mean()), against[name]
        cost = None if way.costs is None else float(way.costs.mean())
        ways[name] = {
            **rounded({"accuracy": right, "calls": calls, "share_of_calls": calls / len(stream.peers)}),
            **({} if cost is None else {"cost": round(cost, 10)}),
            "labelled": _ASKED if way.asked_only else _ALL,
            **difference_values(span),
        }
        line = [name, f"{right:.2%}", f"{calls:.2f}", f"{calls / len(stream.peers):.1%}"]
        body.append([*line, *([] if cost is None else [f"{cost:.4g}"]), difference_text(span)])
    return Table(
        title=f"Asking only as many as needed: {stream.name}",
        values={**about(stream), "ways": ways},
        header=["way of asking", "right", "mean calls", "of all", *(["mean cost"] if priced else []),
                "against everyone (95 % interval)"],
        rows=body,
        remarks=[
            "change ≤ c: ask until the chance that the rest would change the answer is at most c.",
            "best k: ask the k peers with the largest p̂, then decide.",
        ],
    )  # fmt: skip


def played_panels(
    stream: Stream,
    phis: FloatArray,
    changes: Sequence[float] = CHANGES,
    setup: Setup = DEFAULT,
    prices: Mapping[str, float] | None = None,
) -> dict[str, PlayedPanels]:
    """What every way of asking came to, by name; `EVERYONE` is first."""
    if not has_answers(stream):
        raise InputError(f"{stream.name} has no readable answers; expected a stream with answers to vote on")
    half = (len(stream.peers) + 1) // 2
    ways = {EVERYONE: _Way(calls=len(stream.peers), change=0.0, everyone=True)}
    ways |= {f"best {k}": _Way(calls=k, change=0.0) for k in sorted({1, half})}
    ways |= {f"change ≤ {c:g}": _Way(change=c) for c in changes}
    ways |= {f"change ≤ {c:g}, {_ASKED}": _Way(change=c, asked_only=True) for c in changes}
    costs = _call_costs(stream, prices)
    return {name: _played(stream, phis, way, setup.part(name), costs) for name, way in ways.items()}


def _call_costs(stream: Stream, prices: Mapping[str, float] | None) -> FloatArray | None:
    """What every call costs, (events, peers); None if nothing has a price."""
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
            decision, asked = _asked(memory, event, phi, way)
            correct[place] = event.correct.get(decision.peer or "", -1.0) > 0.0
            calls[place] = len(asked)
            if costs is not None and spent is not None:
                spent[place] = sum(costs[place, stream.peers.index(p)] for p in asked)
            shown = {p: c for p, c in event.correct.items() if not way.asked_only or p in asked}
            if shown:
                memory.feedback(decision.id, shown)
            if place % 64 == 63 or place + 1 == len(stream):
                setup.progress("", place + 1, len(stream))
    return PlayedPanels(correct, calls, way.asked_only, spent)


def _asked(memory: SigmaMem, event: Event, phi: FloatArray, way: _Way) -> tuple[Decision, Collection[str]]:
    """The decision, and the peers that were asked."""
    if way.everyone:
        return memory.decide(event.question, event.answers, phi=phi), event.answers
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
    return panel.decision, panel.answers
