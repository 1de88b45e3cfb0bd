"""Models that are updated under their names: the memory's several horizons beside every single γ.

For every seed a pool is drawn from the stream's models and, among the others, who takes over a name. The
memory with its default settings is played beside one memory per γ; which γ was best is known afterwards only.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sigma_mem.bench import figures
from sigma_mem.bench.league import DEFAULT, Setup, routers, rows_of
from sigma_mem.bench.play import Choices, ExploringPlayer, MemoryPlayer, Player, RouterPlayer, play
from sigma_mem.bench.replayed import replayed
from sigma_mem.bench.row import present_peers
from sigma_mem.bench.table import Grid, Table
from sigma_mem.bench.updates import Draw, draw, ever_more, from_halfway, late_peer, strongest, updated
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory.settings import HORIZONS
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Bandit, Delayed, Reveal, Stream

COMPARED = ("adaptive", "calibrated-route", "calibrated-vote")  # also with every single γ
LATE = 100  # events by which labels come late
MOST = 1.0  # points that may be lost against the best single γ; where nothing changes:
NOTHING = 0.1

Correct = Mapping[str, FloatArray]  # mechanism → how right it was, event by event
Played = tuple[str, Correct]  # what happened, for one draw


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: what happens in it, and for every seed what happened and how right each row was."""

    note: str
    happened: tuple[str, ...]
    correct: tuple[Correct, ...]

    @property
    def accuracy(self) -> dict[str, list[float]]:
        """Accuracy of every row, by seed; the best single γ of a read is that of its mean over seeds."""
        names = self.correct[0]
        found = {name: [float(right[name].mean()) for right in self.correct] for name in names}
        best = {
            best_row(read): found[by_gamma(read, gamma)] for read, gamma in self.best_gamma(found).items()
        }
        return {**found, **best}

    def best_gamma(self, found: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """The single γ with the largest mean accuracy, by read; none where no single γ was played."""
        played = [read for read in COMPARED if by_gamma(read, HORIZONS[0]) in found]
        return {r: max(HORIZONS, key=lambda gamma: np.mean(found[by_gamma(r, gamma)])) for r in played}

    def against_single(self) -> dict[str, dict[str, float]]:
        """Points of the default above the best single γ in hindsight, by read: mean and worst over seeds.

        ``own`` is against the best γ of every seed, the largest of four noisy figures; then the worst seed.
        """
        found = self.accuracy
        out = {}
        for read, gamma in self.best_gamma(found).items():
            ours = np.array(found[read])
            each = 100 * (ours - np.max([found[by_gamma(read, g)] for g in HORIZONS], axis=0))
            one = 100 * (ours - found[best_row(read)])
            out[read] = {
                "gamma": gamma,
                "difference": float(one.mean()),
                "worst": float(one.min()),
                "own": float(each.mean()),
                "own_worst": float(each.min()),
            }
        return out


def by_gamma(read: str, gamma: float) -> str:
    """Row of a read of the memory with this γ alone."""
    return f"{read} γ={gamma:g}"


def best_row(read: str) -> str:
    """Row of the best single γ in hindsight."""
    return f"{read} best γ"


@dataclass(frozen=True, kw_only=True)
class DriftTable(Table):
    """Every condition on one stream, over seeds."""

    title = "Updated models"

    draws: tuple[Draw, ...]
    conditions: Mapping[str, Condition]
    left_out: Mapping[str, str]  # conditions that cannot be shown, and why

    def results(self) -> dict[str, Any]:
        """Accuracy by condition: mean, lowest and every seed's; and the comparison with single γs."""
        return {
            "seeds": [drawn.seed for drawn in self.draws],
            "pools": [list(drawn.pool) for drawn in self.draws],
            "conditions": {name: _values(found) for name, found in self.conditions.items()},
            "left_out": dict(self.left_out),
        }

    def grid(self) -> Grid:
        """A line per mechanism, a column per condition: mean over seeds, and the lowest."""
        columns = {name: found.accuracy for name, found in self.conditions.items()}
        rows = sorted(dict.fromkeys(row for column in columns.values() for row in column), key=_after_default)
        cells = {
            (row, name): f"{np.mean(column[row]):.2%} ({min(column[row]):.2%})" if row in column else ""
            for name, column in columns.items()
            for row in rows
        }
        return ["mechanism", *columns], [[row, *(cells[row, name] for name in columns)] for row in rows]

    def remarks(self) -> list[str]:
        """What each condition is, what the default gains or loses against single γs, what is not shown."""
        lines = [f"Mean (lowest) over {len(self.draws)} seeds.", ""]
        for name, found in self.conditions.items():
            lines.append(f"- {name}: {found.note}.")
            lines += [f"  seed {d.seed}: {x}" for d, x in zip(self.draws, found.happened, strict=True) if x]
        lines += ["", "The default memory against the best single γ in hindsight, in points:"]
        for name, found in self.conditions.items():
            limit = NOTHING if name == "none" else MOST
            for read, x in found.against_single().items():
                kept = "yes" if x["difference"] >= -limit else "NO"
                lines.append(
                    f"- {name}, {read}: {x['difference']:+.2f} against γ = {x['gamma']:g} (worst seed "
                    f"{x['worst']:+.2f}); against each seed's own best {x['own']:+.2f} (worst "
                    f"{x['own_worst']:+.2f}). At least −{limit:g}: {kept}."
                )
        lines += [f"- {name} is not shown: {why}." for name, why in self.left_out.items()]
        return lines

    def figures(self, folder: Path) -> list[Path]:
        """Accuracy over time in the first seed, where something changes on the way."""
        label = "accuracy over the last 200 events (%)"
        drawn = []
        for name, condition in self.conditions.items():
            right = condition.correct[0]
            if name != "none":
                shown = {row: _rolling(right[row]) for row in right if " γ=" not in row}
                title = f"{self.stream.name}: {name}, seed {self.draws[0].seed}"
                drawn.append(figures.curves(shown, "event", label, title, folder / f"{name}.png"))
        return drawn


def drift_table(
    stream: Stream,
    phis: FloatArray,
    conditions: Sequence[str] | None = None,
    setup: Setup = DEFAULT,
    *,
    size: int = 3,
    seeds: Sequence[int] = (0,),
) -> DriftTable:
    """Play pools of ``size`` models, drawn by every seed, under every condition asked for.

    By default these are the updates that the stream has enough models for, and none at all.
    """
    _check(conditions, stream, size)
    names = UPDATES if conditions is None else tuple(conditions)
    left_out = {name: why for name in names if (why := _too_few(name, len(stream.peers), size))}
    if conditions is not None and left_out:
        name, why = next(iter(left_out.items()))
        raise InputError(f"condition {name!r} cannot be shown: {why}; use a smaller --pool, or more --peers")
    draws = tuple(draw(stream.peers, size, seed) for seed in seeds)
    shown = [name for name in names if name not in left_out]
    found: dict[str, list[Played]] = {name: [] for name in shown}
    for done, (name, drawn) in enumerate([(name, drawn) for name in shown for drawn in draws], start=1):
        found[name].append(CONDITIONS[name][1](_Run(stream, phis, drawn, setup)))
        setup.progress(name, done, len(shown) * len(draws))
    return DriftTable(
        stream=stream,
        draws=draws,
        conditions={
            n: Condition(CONDITIONS[n][0], *zip(*played, strict=True)) for n, played in found.items()
        },
        left_out=left_out,
    )


def _check(conditions: Sequence[str] | None, stream: Stream, size: int) -> None:
    unknown = [name for name in conditions or () if name not in CONDITIONS]
    if unknown:
        raise InputError(f"no condition {unknown[0]!r}; expected among {', '.join(CONDITIONS)}")
    if not 2 <= size <= len(stream.peers):
        raise InputError(f"got a pool of {size}; expected 2 to {len(stream.peers)}, the peers of the stream")


def _too_few(name: str, n: int, size: int) -> str:
    """Why a condition cannot be shown with n models and a pool of this size; empty if it can."""
    needed = size + {"one": 1, "gradual": 1, "all": size}.get(name, 0)
    return "" if needed <= n else f"a pool of {size} needs {needed} models, and the stream has {n}"


@dataclass(frozen=True, slots=True)
class _Run:
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
        return "", self.replayed(self.pool)

    def replaced(self, *, everyone: bool, gradual: bool) -> Played:
        successors = self.draw.successors(len(self.draw.pool) if everyone else 1)
        when = ever_more(self.models, self.draw.seed) if gradual else from_halfway(self.models)
        happened = ", ".join(f"{name} becomes {model}" for name, model in successors.items())
        return happened, self.replayed(updated(self.models, self.draw.pool, successors, when))

    def swapped(self) -> Played:
        order = strongest(self.pool)
        best, worst = order[0], order[-1]
        stream = updated(self.models, self.draw.pool, {best: worst, worst: best}, from_halfway(self.models))
        return f"{best} and {worst} change places", self.replayed(stream)

    def joined(self) -> Played:
        stream, newcomer = late_peer(self.pool)
        stream, phis = _with_somebody(stream, self.phis)
        joins = next(t for t, event in enumerate(stream) if newcomer in {*event.answers, *event.correct})
        memory = self.memory(stream.peers[:-1])
        player = MemoryPlayer(
            memory, self.setup.reads, at=joins, interrupt=lambda p: p.memory.add_peer(newcomer)
        )
        return f"{newcomer} joins", self.played(stream, phis, [player])

    def delayed(self) -> Played:
        stream, phis = _with_somebody(self.pool, self.phis)
        player = MemoryPlayer(self.memory(stream.peers), self.setup.reads)
        return "", self.played(stream, phis, [player], Delayed(LATE))

    def bandit(self) -> Played:
        stream, phis = _with_somebody(self.pool, self.phis)
        ours = [ExploringPlayer(self.memory(stream.peers), explore=explore) for explore in (True, False)]
        return "", self.played(stream, phis, ours, Bandit(), explore=True)

    def memory(self, peers: Sequence[str]) -> SigmaMem:
        return SigmaMem(
            peers,
            rank=self.phis.shape[1],
            settings=self.setup.settings,
            keep_text=False,
            seed=self.draw.seed,
            reads=self.setup.reads,
        )

    def replayed(self, whole: Stream) -> Correct:
        """Every row, and the compared reads of one memory per γ."""
        stream, phis = _with_somebody(whole, self.phis)
        settings, reads = self.setup.settings, self.setup.reads
        found = dict(self.played(stream, phis, [], choices=replayed(stream, phis, settings, reads=reads)))
        for gamma in HORIZONS:
            single = replace(settings, gamma=gamma, horizons=())
            rows = rows_of(stream, replayed(stream, phis, single, reads=reads), reads)
            found |= {by_gamma(read, gamma): rows[read].correct for read in COMPARED if read in rows}
        return found

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
CONDITIONS: dict[str, tuple[str, Callable[[_Run], Played]]] = {
    "none": ("nothing changes", _Run.unchanged),
    "one": (
        "halfway one name is taken over by another model",
        partial(_Run.replaced, everyone=False, gradual=False),
    ),
    "all": ("halfway every name is", partial(_Run.replaced, everyone=True, gradual=False)),
    "gradual": (
        "one name is, on a share of the events that grows from 30 % to 70 % of the stream",
        partial(_Run.replaced, everyone=False, gradual=True),
    ),
    "swap": ("halfway the best and the worst model exchange names", _Run.swapped),
    "new-peer": ("the best model joins halfway", _Run.joined),
    "delayed": (f"nothing changes, and labels come {LATE} events late", _Run.delayed),
    "bandit-only": (
        "nothing changes, and only the chosen peer is labelled; every router explores its own way",
        _Run.bandit,
    ),
}


def _with_somebody(stream: Stream, phis: FloatArray) -> tuple[Stream, FloatArray]:
    """The events at which anybody of the pool is present, with their φ."""
    there = np.array([any(row) for row in present_peers(stream)])
    kept = tuple(event for event, some in zip(stream, there, strict=True) if some)
    return replace(stream, events=kept), phis[there]


def _values(found: Condition) -> dict[str, Any]:
    rows = {
        row: {
            "accuracy": round(float(np.mean(each)), 6),
            "lowest": round(min(each), 6),
            "seeds": [round(x, 6) for x in each],
        }
        for row, each in found.accuracy.items()
    }
    against = {
        read: {key: round(value, 4) for key, value in x.items()} for read, x in found.against_single().items()
    }
    what = {"note": found.note, "happened": list(found.happened)}
    return {**what, "mechanisms": rows, "against_best_single_gamma": against}


def _after_default(row: str) -> bool:
    """Rows of single γs come last."""
    return " γ=" in row or row.endswith(" best γ")


def _rolling(right: FloatArray, width: int = 200) -> FloatArray:
    """Accuracy in percent over the last ``width`` events."""
    total = np.concatenate(([0.0], np.cumsum(right)))
    t = np.arange(1, len(right) + 1)
    start = np.maximum(t - width, 0)
    rate: FloatArray = 100 * (total[t] - total[start]) / (t - start)
    return rate
