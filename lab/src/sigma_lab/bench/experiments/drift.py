"""Models that are updated under their names: the memory with several horizons compared with every single γ.

For every seed a pool is drawn from the stream and, among the other models, those that take over a name. Which
γ was best is known only afterwards. `SigmaMem.drift` is checked too: which updated peers it names, how soon,
and how seldom others, with all labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from sigma_lab.bench.league import DEFAULT, ORACLES, Setup, in_processes, league, memory_choices, rows_of
from sigma_lab.bench.row import present_peers
from sigma_lab.bench.table import Table, about, rounded
from sigma_lab.bench.updates import CONDITIONS, Update, draw_pool
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory.drift import SURE, WINDOW, find_changes
from sigma_mem.memory.settings import HORIZONS
from sigma_mem.streams import Stream

COMPARED = ("adaptive", "calibrated-route", "calibrated-vote")  # also with every single γ
MOST = 1.0  # points that may be lost against the best single γ; if nothing changes:
NOTHING = 0.1
ASKED = 50  # events after which changed peers are searched for again
ASKED_OF_ALL = 200  # the same of all models of the stream
CLEAR = 0.1  # a change of the rate that a person would call one


class UpdatedPeer(NamedTuple):
    """One updated peer: by how much its rate moved; if named, how many labelled events later, how far off."""

    moved: float
    delay: int | None = None
    change_point_error: int | None = None


class Naming(NamedTuple):
    """Checkpoints of peers that had not changed, how many of them were named, and every updated peer."""

    unchanged: int
    alarms: int
    updates: tuple[UpdatedPeer, ...] = ()

    def __str__(self) -> str:
        rate = self.alarms / max(self.unchanged, 1)
        said = f"unchanged peers named at {rate:.1%} of {self.unchanged} checkpoints"
        if self.updates:
            clear = [update for update in self.updates if update.moved >= CLEAR]
            said += f"; updated peers named: {_count(self.updates)}"
            said += f", of those that moved by {100 * CLEAR:.0f} points or more {_count(clear)}"
        if named := [u for u in self.updates if u.delay is not None]:
            _, delay, error = (median(column) for column in zip(*named, strict=True))
            said += f"; median delay {delay:.0f} labelled events"
            said += f", median error of the change point {error:.0f}"
        return said

    def values(self) -> dict[str, Any]:
        """As plain values."""
        updates = [rounded(update._asdict(), 4) for update in self.updates]
        return {"unchanged_checkpoints": self.unchanged, "false_alarms": self.alarms, "updates": updates}


def _count(updates: Sequence[UpdatedPeer]) -> str:
    return f"{sum(u.delay is not None for u in updates)} of {len(updates)}"


def name_changes(stream: Stream, phis: FloatArray, began: Mapping[str, int], every: int) -> Naming:
    """Find changed peers after every so many events; ``began`` has the first event of every updated one."""
    labels = stream.labels()
    unchanged = alarms = 0
    first: dict[str, tuple[int, int]] = {}
    for end in range(every, len(stream) + 1, every):
        rows = np.flatnonzero(~np.isnan(labels[:end]).all(axis=1))[-WINDOW:]
        for peer, change in zip(stream.peers, find_changes(phis[rows], labels[rows]), strict=True):
            named = change is not None and change.confidence >= SURE
            if end <= began.get(peer, end):
                unchanged, alarms = unchanged + 1, alarms + named
            elif change is not None and named:
                first.setdefault(peer, (end - began[peer], abs(int(rows[change.place]) - began[peer])))
    updates = [
        UpdatedPeer(_moved(labels[:, stream.peers.index(p)], at), *first.get(p, ()))
        for p, at in began.items()
    ]
    return Naming(unchanged, alarms, tuple(updates))


def _moved(labels: FloatArray, began: int) -> float:
    """By how much the rate of being right moved."""
    before, after = labels[:began], labels[began:]
    if np.isnan(before).all() or np.isnan(after).all():
        return 0.0
    return float(abs(np.nanmean(after) - np.nanmean(before)) / 2.0)


class Condition(NamedTuple):
    """One condition: what happens in it, and for every seed what happened and which changes were reported.

    ``accuracy`` is that of every row, by seed; the best single γ of a read is that of its mean over seeds.
    """

    note: str
    happened: Sequence[str]
    accuracy: Mapping[str, Sequence[float]]
    naming: Naming

    def against_single(self) -> dict[str, dict[str, float]]:
        """Points of the default above the best single γ in hindsight, by read: mean and worst over seeds.

        ``own`` is against the best γ of every seed, the largest of four noisy figures; then the worst seed.
        """
        out = {}
        for read, gamma in best_gamma(self.accuracy).items():
            ours = np.array(self.accuracy[read])
            each = 100 * (ours - np.max([self.accuracy[by_gamma(read, g)] for g in HORIZONS], axis=0))
            one = 100 * (ours - self.accuracy[by_gamma(read, gamma)])
            numbers = (gamma, one.mean(), one.min(), each.mean(), each.min())
            keys = ("gamma", "difference", "worst", "own", "own_worst")
            out[read] = dict(zip(keys, map(float, numbers), strict=True))
        return out

    def values(self) -> dict[str, Any]:
        """As plain values."""
        rows = {
            row: {"accuracy": float(np.mean(each)), "lowest": min(each), "seeds": each}
            for row, each in self.accuracy.items()
        }
        return {
            "note": self.note,
            "happened": list(self.happened),
            "mechanisms": rounded(rows),
            "against_best_single_gamma": rounded(self.against_single(), 4),
            "drift": self.naming.values(),
        }


def by_gamma(read: str, gamma: float) -> str:
    """Row of a read of the memory with this γ alone."""
    return f"{read} γ={gamma:g}"


def best_gamma(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The single γ with the largest mean accuracy, by read."""
    played = [read for read in COMPARED if by_gamma(read, HORIZONS[0]) in found]
    return {r: max(HORIZONS, key=lambda gamma: np.mean(found[by_gamma(r, gamma)])) for r in played}


def drift_table(
    stream: Stream,
    phis: FloatArray,
    conditions: Sequence[str] | None = None,
    setup: Setup = DEFAULT,
    *,
    size: int = 3,
    seeds: Sequence[int] = (0,),
) -> Table:
    """Play pools of ``size`` models, drawn by every seed, under every selected condition.

    By default these are all that the stream has enough models for.
    """
    played, left_out = played_conditions(stream, phis, conditions, setup, size, seeds)
    quiet = name_changes(stream, phis, {}, ASKED_OF_ALL)
    columns = {name: found.accuracy for name, found in played.items()}
    rows = sorted(dict.fromkeys(row for column in columns.values() for row in column), key=_after_default)
    return Table(
        title=f"Updated models: {stream.name}",
        values={
            **about(stream),
            "seeds": list(seeds),
            "pools": [list(draw_pool(stream.peers, size, seed).pool) for seed in seeds],
            "conditions": {name: found.values() for name, found in played.items()},
            "left_out": left_out,
            "unchanged_models": quiet.values(),
        },
        header=["mechanism", *columns],
        rows=[
            [row, *(f"{np.mean(found[row]):.2%} ({min(found[row]):.2%})" for found in columns.values())]
            for row in rows
        ],
        remarks=_remarks(played, seeds, left_out, f"all {len(stream.peers)} models of the stream: {quiet}"),
    )


def played_conditions(
    stream: Stream,
    phis: FloatArray,
    conditions: Sequence[str] | None,
    setup: Setup,
    size: int,
    seeds: Sequence[int],
) -> tuple[dict[str, Condition], dict[str, str]]:
    """Every condition as it was played, and those that cannot be shown, with the reason."""
    if unknown := [name for name in conditions or () if name not in CONDITIONS]:
        raise InputError(f"no condition {unknown[0]!r}; expected among {', '.join(CONDITIONS)}")
    if not 2 <= size <= len(stream.peers):
        raise InputError(f"got a pool of {size}; expected 2 to {len(stream.peers)}, the peers of the stream")
    names = tuple(CONDITIONS) if conditions is None else tuple(conditions)
    left_out = {name: why for name in names if (why := _too_few(name, len(stream.peers), size))}
    if conditions is not None and left_out:
        name, why = next(iter(left_out.items()))
        raise InputError(f"condition {name!r} cannot be shown: {why}; use a smaller --size, or more --peers")
    shown = [name for name in names if name not in left_out]
    found: dict[str, Condition] = {}
    for name in shown:
        note, make = CONDITIONS[name]
        updates = {seed: make(stream, draw_pool(stream.peers, size, seed)) for seed in seeds}
        played = in_processes(partial(_played, updates, phis, setup), seeds, setup.processes)
        accuracy = {row: [one[row] for one, _ in played] for row in played[0][0]}
        accuracy |= {
            f"{read} best γ": accuracy[by_gamma(read, g)] for read, g in best_gamma(accuracy).items()
        }
        unchanged, alarms, peers = zip(*(naming for _, naming in played), strict=True)
        naming = Naming(sum(unchanged), sum(alarms), sum(peers, ()))
        found[name] = Condition(note, [updates[seed].happened for seed in seeds], accuracy, naming)
        setup.progress(name, len(found), len(shown))
    return found, left_out


def _played(
    updates: Mapping[int, Update], phis: FloatArray, setup: Setup, seed: int
) -> tuple[dict[str, float], Naming]:
    """Accuracy of every row and of the compared reads with every single γ, and the changes reported."""
    update, setup = updates[seed], replace(setup, seed=seed, progress=DEFAULT.progress)
    there = np.array([any(row) for row in present_peers(update.stream)])  # events at which anybody is present
    kept = tuple(event for event, some in zip(update.stream, there, strict=True) if some)
    stream, directions = replace(update.stream, events=kept), phis[there]
    rows = league(stream, directions, setup)
    found = {name: row.accuracy for name, row in rows.items() if name not in ORACLES}
    for gamma in HORIZONS:
        single = replace(setup, settings=replace(setup.settings, gamma=gamma, horizons=()))
        of_gamma = rows_of(stream, memory_choices(stream, directions, single), setup.reads)
        found |= {by_gamma(read, gamma): of_gamma[read].accuracy for read in COMPARED if read in of_gamma}
    return found, name_changes(update.stream, phis, update.began, ASKED)


def _too_few(name: str, n: int, size: int) -> str:
    """Why a condition cannot be shown with n models and a pool of this size; empty if it can."""
    needed = size + {"one": 1, "gradual": 1, "all": size}.get(name, 0)
    return "" if needed <= n else f"a pool of {size} needs {needed} models, and the stream has {n}"


def _remarks(
    played: Mapping[str, Condition], seeds: Sequence[int], left_out: Mapping[str, str], quiet: str
) -> list[str]:
    """What each condition is, what the default gains or loses against single γs, what is not shown."""
    lines = [f"Mean (lowest) over {len(seeds)} seeds.", ""]
    for name, found in played.items():
        lines.append(f"- {name}: {found.note}.")
        lines += [f"  seed {seed}: {x}" for seed, x in zip(seeds, found.happened, strict=True) if x]
    lines += ["", "The default memory against the best single γ in hindsight, in points:"]
    for name, found in played.items():
        limit = NOTHING if name == "none" else MOST
        for read, x in found.against_single().items():
            enough = "yes" if x["difference"] >= -limit - 1e-9 else "NO"
            lines.append(
                f"- {name}, {read}: {x['difference']:+.2f} against γ = {x['gamma']:g} (worst "
                f"seed {x['worst']:+.2f}); against each seed's own best {x['own']:+.2f} (worst "
                f"{x['own_worst']:+.2f}). At least −{limit:g}: {enough}."
            )
    lines += ["", "mem.drift(), with all labels:", f"- {quiet}, every {ASKED_OF_ALL} events."]
    lines += [f"- {name}, every {ASKED} events: {found.naming}." for name, found in played.items()]
    return [*lines, *(f"- {name} is not shown: {why}." for name, why in left_out.items())]


def _after_default(row: str) -> bool:
    """Rows of single γs come last."""
    return " γ=" in row or row.endswith(" best γ")
