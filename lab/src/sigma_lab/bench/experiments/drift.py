"""Models that are updated under their names: the memory's several horizons beside every single γ.

For every seed a pool is drawn from the stream's models and, among the others, who takes over a name. The
memory with its default settings is played beside one memory per γ; which γ was best is known afterwards only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sigma_lab.bench import figures
from sigma_lab.bench.conditions import ASKED, COMPARED, CONDITIONS, UPDATES, Played, Trial, by_gamma
from sigma_lab.bench.league import DEFAULT, Setup
from sigma_lab.bench.naming import Naming, name_changes
from sigma_lab.bench.table import Grid, Table
from sigma_lab.bench.updates import Draw, draw_pool
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory.settings import HORIZONS
from sigma_mem.streams import Stream

MOST = 1.0  # points that may be lost against the best single γ; where nothing changes:
NOTHING = 0.1
ASKED_OF_ALL = 200  # events after which all models of the stream are looked at


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: what happens in it, and how it was played for every seed."""

    note: str
    played: tuple[Played, ...]

    @property
    def naming(self) -> Naming | None:
        """Who was named as changed, over all seeds."""
        parts = [played.naming for played in self.played if played.naming is not None]
        return Naming.joined(parts) if parts else None

    @property
    def accuracy(self) -> dict[str, list[float]]:
        """Accuracy of every row, by seed; the best single γ of a read is that of its mean over seeds."""
        names = self.played[0].correct
        found = {name: [float(played.correct[name].mean()) for played in self.played] for name in names}
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
    quiet: Naming  # of all models of the stream, in its order, unchanged

    def results(self) -> dict[str, Any]:
        """Accuracy by condition: mean, lowest and every seed's; and the comparison with single γs."""
        return {
            "seeds": [drawn.seed for drawn in self.draws],
            "pools": [list(drawn.pool) for drawn in self.draws],
            "conditions": {name: _values(found) for name, found in self.conditions.items()},
            "left_out": dict(self.left_out),
            "unchanged_models": self.quiet.values(),
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
            happened = zip(self.draws, found.played, strict=True)
            lines += [f"  seed {draw.seed}: {x.happened}" for draw, x in happened if x.happened]
        compared = [line for name, found in self.conditions.items() for line in _comparison(name, found)]
        if compared:
            lines += ["", "The default memory against the best single γ in hindsight, in points:", *compared]
        lines += ["", "mem.drift(), with all labels:"]
        whole = f"all {len(self.stream.peers)} models of the stream in its order, unchanged"
        lines.append(f"- {whole}, every {ASKED_OF_ALL} events: {self.quiet}.")
        named = {name: found.naming for name, found in self.conditions.items() if found.naming is not None}
        lines += [f"- {name}, every {ASKED} events: {naming}." for name, naming in named.items()]
        lines += [f"- {name} is not shown: {why}." for name, why in self.left_out.items()]
        return lines

    def figures(self, folder: Path) -> list[Path]:
        """Accuracy over time in the first seed, where something changes on the way."""
        label = "accuracy over the last 200 events (%)"
        drawn = []
        for name, condition in self.conditions.items():
            right = condition.played[0].correct
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
        raise InputError(f"condition {name!r} cannot be shown: {why}; use a smaller --size, or more --peers")
    draws = tuple(draw_pool(stream.peers, size, seed) for seed in seeds)
    shown = [name for name in names if name not in left_out]
    found: dict[str, list[Played]] = {name: [] for name in shown}
    for done, (name, drawn) in enumerate([(name, drawn) for name in shown for drawn in draws], start=1):
        found[name].append(CONDITIONS[name][1](Trial(stream, phis, drawn, setup)))
        setup.progress(name, done, len(shown) * len(draws))
    return DriftTable(
        stream=stream,
        draws=draws,
        conditions={name: Condition(CONDITIONS[name][0], tuple(played)) for name, played in found.items()},
        left_out=left_out,
        quiet=name_changes(stream, phis, {}, ASKED_OF_ALL),
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


def _comparison(name: str, found: Condition) -> list[str]:
    """What the default memory gains or loses against single γs in one condition, a line per read."""
    limit = NOTHING if name == "none" else MOST
    return [
        f"- {name}, {read}: {x['difference']:+.2f} against γ = {x['gamma']:g} (worst "
        f"seed {x['worst']:+.2f}); against each seed's own best {x['own']:+.2f} (worst "
        f"{x['own_worst']:+.2f}). At least −{limit:g}: {'yes' if x['difference'] >= -limit - 1e-9 else 'NO'}."
        for read, x in found.against_single().items()
    ]


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
    what = {"note": found.note, "happened": [played.happened for played in found.played]}
    named = {} if found.naming is None else {"drift": found.naming.values()}
    return {**what, "mechanisms": rows, "against_best_single_gamma": against, **named}


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
