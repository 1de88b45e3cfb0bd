"""Accuracy against feedback: 0 % … 100 % of events labelled, over masks (fig:feedback_availability)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_lab.bench import figures
from sigma_lab.bench.aggregation import AGGREGATIONS, aggregated
from sigma_lab.bench.bootstrap import Interval, intervals
from sigma_lab.bench.center import NO_SIGMA, BenchCenter, merged
from sigma_lab.bench.league import DEFAULT, MAJORITY, Setup, routers, rows_of
from sigma_lab.bench.play import Choices, RouterPlayer, play
from sigma_lab.bench.replayed import replayed
from sigma_lab.bench.row import TableRow, has_answers
from sigma_lab.bench.table import Grid, Table
from sigma_lab.reveal import Everything, Reveal, Revealed, Share
from sigma_mem.decide.vote import group_answers
from sigma_mem.events import Event, FloatArray
from sigma_mem.streams import Stream

SHARES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0)
_FLAT = (MAJORITY, *AGGREGATIONS)  # rows that labels do not move


@dataclass(frozen=True, kw_only=True)
class FeedbackTable(Table):
    """Rows of every mechanism at every share of labelled events, one per mask."""

    title = "Feedback availability"

    seeds: tuple[int, ...]
    rows: Mapping[float, Mapping[str, Sequence[TableRow]]]

    @property
    def accuracy(self) -> dict[float, dict[str, list[float]]]:
        """By share and mechanism, one value per mask."""
        return {
            share: {name: [row.accuracy for row in masks] for name, masks in rows.items()}
            for share, rows in self.rows.items()
        }

    def comparisons(self, share: float) -> dict[str, Interval]:
        """`adaptive` against fair majority, and the route against following the leader, by their names.

        The masks are pooled: an event counts with its mean over them. A stream without readable answers has
        no majority.
        """
        correct = {
            name: np.mean([row.correct for row in masks], axis=0) for name, masks in self.rows[share].items()
        }
        pairs = (("adaptive", MAJORITY), ("calibrated-route", "leader"))
        return {
            f"{name} − {other}": intervals({name: correct[name], other: correct[other]}, other)[name]
            for name, other in pairs
            if other in correct
        }

    def kept(self, share: float) -> float | None:
        """Which share of what full labels gain over fair majority `adaptive` keeps; None without a gain."""
        if MAJORITY not in self.rows[share] or 1.0 not in self.rows:
            return None
        gain, full = (_mean(self.rows[s]["adaptive"]) - _mean(self.rows[s][MAJORITY]) for s in (share, 1.0))
        return gain / full if full > 0.0 else None

    def results(self) -> dict[str, Any]:
        """Mean, lowest and highest accuracy over the masks, by share, and the comparisons at each."""
        keys = ("accuracy", "lowest", "highest")
        shares = {
            f"{share:g}": {
                name: {key: round(value, 6) for key, value in zip(keys, _spread(found), strict=True)}
                for name, found in rows.items()
            }
            for share, rows in self.accuracy.items()
        }
        compared = {f"{share:g}": self._compared(share) for share in self.rows}
        in_hindsight = [name for name in AGGREGATIONS if name in next(iter(self.rows.values()))]
        return {
            "seeds": list(self.seeds),
            "shares": shares,
            "comparisons": compared,
            "offline_in_hindsight": in_hindsight,
        }

    def _compared(self, share: float) -> dict[str, Any]:
        found: dict[str, Any] = {
            name: {
                "difference": round(i.difference, 6),
                "interval": [round(i.difference_low, 6), round(i.difference_high, 6)],
                "significantly_below": i.difference_high < 0.0,
            }
            for name, i in self.comparisons(share).items()
        }
        kept = self.kept(share)
        return {**found, "gain_kept": None if kept is None else round(kept, 6)}

    def grid(self) -> Grid:
        """A line per mechanism, a column per share: mean accuracy, and its range over the masks."""
        names = list(next(iter(self.rows.values())))
        found = self.accuracy
        body = [[name, *(_cell(found[share][name]) for share in found)] for name in names]
        return ["mechanism, % right", *(f"{100 * share:g}% labelled" for share in found)], body

    def remarks(self) -> list[str]:
        """Where `adaptive` and the route stand at every share, and what the rows in hindsight see."""
        lines = ["Paired 95 % intervals, masks pooled; a majority's ties are counted in expectation:"]
        lines += [f"- {100 * share:g}% labelled: {'; '.join(self._standings(share))}." for share in self.rows]
        if AGGREGATIONS.keys() <= next(iter(self.rows.values())).keys():
            lines += [
                "",
                f"{' and '.join(AGGREGATIONS)} see no label but all answers of the stream at once: offline, "
                "in hindsight.",
            ]
        return [*lines, *super().remarks()]

    def _standings(self, share: float) -> Iterator[str]:
        for name, i in self.comparisons(share).items():
            ends = f"({100 * i.difference_low:+.2f} … {100 * i.difference_high:+.2f})"
            mark = " SIGNIFICANTLY BELOW" if i.difference_high < 0.0 else ""
            yield f"{name} {100 * i.difference:+.2f} {ends}{mark}"
        kept = self.kept(share)
        if kept is not None:
            yield f"{kept:.0%} of what full labels gain over majority"

    def beside_sigma(self) -> dict[str, str]:
        """At every share, by mean accuracy over the masks."""
        return {f"{100 * share:g}% labelled": _above_sigma(rows) for share, rows in self.accuracy.items()}

    def figures(self, folder: Path) -> list[Path]:
        """Mean accuracy against the share of labels; what learns nothing from labels is a level."""
        found = self.accuracy
        first = next(iter(found.values()))
        lines = {
            name: [_spread(rows[name]) for rows in found.values()] for name in first if name not in _FLAT
        }
        flat = {name: first[name][0] for name in _FLAT if name in first}
        title = f"{self.stream.name}: accuracy against feedback, {len(self.seeds)} masks"
        return [figures.shaded(list(found), lines, flat, title, folder / "feedback.png")]


def feedback_table(
    stream: Stream,
    phis: FloatArray,
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] = (0, 1, 2),
    setup: Setup = DEFAULT,
    center: BenchCenter | None = None,
) -> FeedbackTable:
    """Play the stream with the labels of a share of its events; unlabelled events still decay.

    The masks are nested: the events labelled at 5 % are labelled at 10 % too (`streams.Share`).
    """
    places = range(len(stream)) if center is None else center.places(stream)
    in_hindsight = _in_hindsight(stream)
    before, whole, directions = None, stream, phis
    if setup.warm is not None:
        before = setup.warm[0]
        whole = replace(stream, events=(*before.events, *stream.events))
        directions = np.concatenate((setup.warm[1], phis))
    skip = len(whole) - len(stream)

    def played(reveal: Share, shown: NDArray[np.bool_]) -> dict[str, TableRow]:
        told = np.concatenate((np.full(skip, True), shown))
        choices = dict(replayed(whole, directions, setup.settings, told, reads=setup.reads))
        for name, router in routers(whole, directions, setup).items():
            player = RouterPlayer(name, router, whole.peers)
            choices.update(play(whole, directions, player, _AfterWarmUp(reveal, skip)))
        choices = {name: chosen[skip:] for name, chosen in choices.items()}
        rows = rows_of(stream, {**choices, **in_hindsight}, setup.reads)
        judged = {}
        if center is not None:
            judged = center.judge(stream, warm=before, shown=shown, rows=("base", "sigma"))
        return merged(rows, judged, places)

    known: dict[bytes, dict[str, TableRow]] = {}  # at 0 % and at 100 % all masks are one
    found: dict[float, dict[str, list[TableRow]]] = {}
    for done, (share, seed) in enumerate(product(shares, seeds), start=1):
        reveal = Share(share, seed)
        shown = np.array([bool(reveal.reveal(t, e, stream.peers[0])) for t, e in enumerate(stream)])
        key = shown.tobytes()
        if key not in known:
            known[key] = played(reveal, shown)
        for name, row in known[key].items():
            found.setdefault(share, {}).setdefault(name, []).append(row)
        setup.progress(f"{100 * share:g}% of labels", done, len(shares) * len(seeds))
    about = None if center is None else center.judged(stream)
    return FeedbackTable(stream=stream, judged=about, seeds=tuple(seeds), rows=found)


@dataclass(frozen=True, slots=True)
class _AfterWarmUp:
    """All labels of the first ``skip`` events, and then what ``of`` shows."""

    of: Reveal
    skip: int

    def reveal(self, index: int, event: Event, chosen: str) -> list[Revealed]:
        shown = Everything() if index < self.skip else self.of
        return shown.reveal(index, event, chosen)


def _in_hindsight(stream: Stream) -> Choices:
    """What unsupervised aggregation chooses from all answers at once; nothing where none can be read."""
    if not has_answers(stream):
        return {}
    return aggregated(np.array([group_answers(canons) for canons in stream.canons()]))


def _mean(masks: Sequence[TableRow]) -> float:
    return float(np.mean([row.accuracy for row in masks]))


def _spread(found: Sequence[float]) -> tuple[float, float, float]:
    """Mean, lowest and highest."""
    return float(np.mean(found)), min(found), max(found)


def _cell(found: Sequence[float]) -> str:
    mean, low, high = (100 * value for value in _spread(found))
    return f"{mean:.2f} ({low:.1f}…{high:.1f})" if low < high else f"{mean:.2f}"


def _above_sigma(rows: Mapping[str, Sequence[float]]) -> str:
    """Which mean accuracies over masks are above that of ``sigma``."""
    means = {name: float(np.mean(found)) for name, found in rows.items()}
    if "sigma" not in means:
        return NO_SIGMA
    above = sorted((name for name in means if means[name] > means["sigma"]), key=lambda name: -means[name])
    said = ", ".join(f"{name} {100 * (means[name] - means['sigma']):+.2f} points" for name in above)
    return f"better than sigma, {means['sigma']:.2%}: {said or 'none'}"
