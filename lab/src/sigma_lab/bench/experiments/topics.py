"""Topics: what it gains to tell the memory each event's domain, beside the per-domain oracle."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

import numpy as np

from sigma_lab.attack import counterfactual
from sigma_lab.bench import row
from sigma_lab.bench.league import DEFAULT, Setup
from sigma_lab.bench.replayed import replayed
from sigma_lab.bench.table import Grid, Table
from sigma_lab.topics import with_topics
from sigma_mem.decide import Reads
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

FIXED, ORACLE = "best-fixed", "domain-oracle"
ROUTE, ADAPTIVE = "calibrated-route", "adaptive"
WORTH_IT = 0.01  # what the oracle must gain over the best fixed peer for a pool to count

Parts = Mapping[str, Stream]  # streams to play, by name


@dataclass(frozen=True, slots=True)
class PlayedTopics:
    """One stream, attacked at one ratio: accuracies without topics, with them, and with those of others."""

    part: str
    ratio: float
    oracles: Mapping[str, float]
    plain: Mapping[str, float]
    topics: Mapping[str, float]
    shuffled: Mapping[str, float]

    @property
    def gain(self) -> float:
        """What the per-domain oracle gains over the best fixed peer."""
        return self.oracles[ORACLE] - self.oracles[FIXED]

    def captured(self, accuracy: Mapping[str, float]) -> float:
        """How much of that gain a route has."""
        return (accuracy[ROUTE] - self.oracles[FIXED]) / self.gain


@dataclass(frozen=True, kw_only=True)
class TopicsTable(Table):
    """Every part at every ratio."""

    title = "Topics"

    played: Sequence[PlayedTopics]

    def results(self) -> dict[str, Any]:
        """Accuracies of every part, and their means by ratio."""
        parts = [
            {"part": p.part, "ratio": p.ratio, **{name: _rounded(getattr(p, name)) for name in _KINDS}}
            for p in self.played
        ]
        means = {f"{ratio:g}": {k: _rounded(_mean(of, k)) for k in _KINDS} for ratio, of in self.by_ratio()}
        return {
            "parts": parts,
            "mean": means,
            "captured": {f"{r:g}": _captured(of) for r, of in self.by_ratio()},
        }

    def by_ratio(self) -> list[tuple[float, list[PlayedTopics]]]:
        """What was played at every ratio."""
        ratios = sorted({p.ratio for p in self.played})
        return [(ratio, [p for p in self.played if p.ratio == ratio]) for ratio in ratios]

    def grid(self) -> Grid:
        """A line for every part, and for the mean."""
        kinds = ("plain", "topics", "shuffled")
        reads = [name for name in (ROUTE, ADAPTIVE) if name in self.played[0].plain]
        header = ["% right", FIXED, ORACLE, *(f"{read}, {_SAID[kind]}" for read in reads for kind in kinds)]
        lines = []
        for ratio, of in self.by_ratio():
            rows = [(p.part, [getattr(p, kind) for kind in _KINDS]) for p in of]
            for part, values in [*rows, ("mean", [_mean(of, kind) for kind in _KINDS])]:
                oracles, *by_kind = values
                cells = [oracles[FIXED], oracles[ORACLE], *(k[read] for read in reads for k in by_kind)]
                lines.append([f"CF@{100 * ratio:g} {part}", *(f"{100 * cell:.2f}" for cell in cells)])
        return header, lines

    def remarks(self) -> list[str]:
        """How far the route is from the oracle, what false topics cost, and what is captured."""
        lines = []
        for ratio, of in self.by_ratio():
            oracle, plain, topics, false = (_mean(of, kind) for kind in _KINDS)
            without, below, cost = (
                f"{100 * x:.2f}"
                for x in (
                    oracle[ORACLE] - plain[ROUTE],
                    oracle[ORACLE] - topics[ROUTE],
                    plain[ROUTE] - false[ROUTE],
                )
            )
            lines.append(
                f"- CF@{100 * ratio:g}: the route is {without} below the per-domain oracle without topics, "
                f"{below} with them; topics of other events cost it {cost}."
            )
            found = _captured(of)
            if found["parts"]:
                lines.append(
                    f"  In {found['parts']} of {len(of)} the oracle gains a point or more over the best "
                    f"fixed peer: the route has {found['plain']:.0%} of it in the median without topics, "
                    f"{found['topics']:.0%} with them."
                )
        return [*lines, *super().remarks()]


_KINDS = ("oracles", "plain", "topics", "shuffled")
_SAID = {"plain": "no topics", "topics": "topics", "shuffled": "shuffled"}


def ordered(stream: Stream, seeds: Sequence[int]) -> Parts:
    """The stream in several orders."""
    return {f"order {seed}": stream.select(seed=seed) for seed in seeds}


def drawn_pools(stream: Stream, sizes: Sequence[int], draws: int) -> Parts:
    """Pools of each size, drawn from the peers as ``--pool`` and ``--pool-seed`` draw them."""
    if sizes and max(sizes) > len(stream.peers):
        raise InputError(f"got a pool of {max(sizes)}; expected at most {len(stream.peers)}, all peers")
    return {
        f"{size} peers, draw {seed}": stream.select(
            peers=random.Random(seed).sample(sorted(stream.peers), size)
        )
        for size in sizes
        for seed in range(draws)
    }


def topics_table(
    stream: Stream,
    phis: FloatArray,
    parts: Parts,
    ratios: Sequence[float] = (0.0,),
    setup: Setup = DEFAULT,
    *,
    adaptive: bool = False,
) -> TopicsTable:
    """Play every part at every ratio; its events are those of the stream, with φ as (T, rank).

    The adaptive read needs all reads, and so several times as long as the route alone.
    """
    if not adaptive or not row.has_answers(stream):
        settings = replace(setup.settings, text_features=False)  # p̂ does not ask for them
        setup = replace(setup, reads=Reads(setup.reads[ROUTE]), settings=settings)
    by_id = dict(zip((event.id for event in stream), phis, strict=True))
    played, total = [], len(parts) * len(ratios)
    for name, part in parts.items():
        directions = np.array([by_id[event.id] for event in part])
        for ratio in ratios:
            attacked = counterfactual(part, ratio, seed=setup.seed)
            played.append(_played(name, ratio, attacked, directions, setup))
            setup.progress("topics", len(played), total)
    return TopicsTable(stream=stream, played=played)


def _played(name: str, ratio: float, stream: Stream, phis: FloatArray, setup: Setup) -> PlayedTopics:
    labels, present = stream.labels(), row.present_peers(stream)
    plain = replace(stream, events=tuple(replace(event, topics=()) for event in stream))
    kinds = [plain, with_topics(stream, "domain"), with_topics(stream, "shuffled", setup.seed)]
    found = [_accuracies(kind, phis, setup) for kind in kinds]
    best = row.best_fixed(labels, present)
    oracle = row.domain_oracle(labels, [event.domain for event in stream], present)
    oracles = {
        FIXED: float(row.correct_at(labels, best).mean()),
        ORACLE: float(row.correct_at(labels, oracle).mean()),
    }
    return PlayedTopics(name, ratio, oracles, *found)


def _accuracies(stream: Stream, phis: FloatArray, setup: Setup) -> dict[str, float]:
    choices = replayed(stream, phis, setup.settings, reads=setup.reads)
    names = (ROUTE, ADAPTIVE) if len(setup.reads) > 1 else (ROUTE,)
    labels = stream.labels()
    return {name: float(row.correct_at(labels, choices[name]).mean()) for name in names}


def _mean(played: Sequence[PlayedTopics], kind: str) -> dict[str, float]:
    found = [getattr(p, kind) for p in played]
    return {name: fmean(f[name] for f in found) for name in found[0]}


def _captured(played: Sequence[PlayedTopics]) -> dict[str, Any]:
    """The median share of the oracle's gain that the route has, where there is one."""
    counted = [p for p in played if p.gain >= WORTH_IT]
    medians = {
        kind: round(median(p.captured(getattr(p, kind)) for p in counted), 4) if counted else None
        for kind in ("plain", "topics", "shuffled")
    }
    return {"parts": len(counted), **medians}


def _rounded(accuracies: Mapping[str, float]) -> dict[str, float]:
    return {name: round(accuracy, 6) for name, accuracy in accuracies.items()}
