"""Topics: what each event's domain gains as its topic, compared with the per-domain oracle."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

import numpy as np

from sigma_lab.attack import counterfactual
from sigma_lab.bench import row
from sigma_lab.bench.league import DEFAULT, Setup, memory_choices, oracle_rows
from sigma_lab.bench.table import Table, about
from sigma_lab.streams import with_topics
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
) -> Table:
    """Play every part at every ratio; its events are those of the stream, with φ as (T, rank)."""
    played = played_topics(stream, phis, parts, ratios, setup, adaptive=adaptive)
    reads = list(played[0].plain)
    by_ratio = {ratio: [p for p in played if p.ratio == ratio] for ratio in sorted(set(ratios))}
    lines, remarks = [], []
    for ratio, of in by_ratio.items():
        rows = [(p.part, [getattr(p, kind) for kind in _KINDS]) for p in of]
        for part, (oracles, *kinds) in [*rows, ("mean", [_mean(of, kind) for kind in _KINDS])]:
            cells = [oracles[FIXED], oracles[ORACLE], *(k[read] for read in reads for k in kinds)]
            lines.append([f"CF@{100 * ratio:g} {part}", *(f"{100 * cell:.2f}" for cell in cells)])
        remarks += _remarks(ratio, of)
    return Table(
        title=f"Topics: {stream.name}",
        values={
            **about(stream),
            "parts": [
                {"part": p.part, "ratio": p.ratio, **{name: _rounded(getattr(p, name)) for name in _KINDS}}
                for p in played
            ],
            "mean": {f"{r:g}": {k: _rounded(_mean(of, k)) for k in _KINDS} for r, of in by_ratio.items()},
            "captured": {f"{r:g}": _captured(of) for r, of in by_ratio.items()},
        },
        header=["% right", FIXED, ORACLE, *(f"{r}, {said}" for r in reads for said in _SAID.values())],
        rows=lines,
        remarks=remarks,
    )


def played_topics(
    stream: Stream,
    phis: FloatArray,
    parts: Parts,
    ratios: Sequence[float] = (0.0,),
    setup: Setup = DEFAULT,
    *,
    adaptive: bool = False,
) -> list[PlayedTopics]:
    """Every part at every ratio. The adaptive read takes several times as long as the route alone."""
    if not adaptive or not row.has_answers(stream):
        settings = replace(setup.settings, text_features=False)  # p̂ does not need them
        setup = replace(setup, reads=Reads(setup.reads[ROUTE]), settings=settings)
    by_id = dict(zip((event.id for event in stream), phis, strict=True))
    played: list[PlayedTopics] = []
    for name, part in parts.items():
        directions = np.array([by_id[event.id] for event in part])
        for ratio in ratios:
            attacked = counterfactual(part, ratio, seed=setup.seed)
            played.append(_played(name, ratio, attacked, directions, setup))
            setup.progress("topics", len(played), len(parts) * len(ratios))
    return played


def _remarks(ratio: float, of: Sequence[PlayedTopics]) -> list[str]:
    """How far the route is from the oracle, what false topics cost, and what is captured."""
    oracle, plain, topics, false = (_mean(of, kind) for kind in _KINDS)
    without, below = (100 * (oracle[ORACLE] - found[ROUTE]) for found in (plain, topics))
    lines = [
        f"- CF@{100 * ratio:g}: the route is {without:.2f} below the per-domain oracle without topics, "
        f"{below:.2f} with them; topics of other events cost it {100 * (plain[ROUTE] - false[ROUTE]):.2f}."
    ]
    found = _captured(of)
    if found["parts"]:
        lines.append(
            f"  In {found['parts']} of {len(of)} the oracle gains a point or more over the best "
            f"fixed peer: the route has {found['plain']:.0%} of it in the median without topics, "
            f"{found['topics']:.0%} with them."
        )
    return lines


def _played(name: str, ratio: float, stream: Stream, phis: FloatArray, setup: Setup) -> PlayedTopics:
    plain = replace(stream, events=tuple(replace(event, topics=()) for event in stream))
    kinds = [plain, with_topics(stream, "domain"), with_topics(stream, "shuffled", setup.seed)]
    found = [_accuracies(kind, phis, setup) for kind in kinds]
    rows = oracle_rows(stream)
    return PlayedTopics(name, ratio, {n: rows[n].accuracy for n in (FIXED, ORACLE)}, *found)


def _accuracies(stream: Stream, phis: FloatArray, setup: Setup) -> dict[str, float]:
    choices = memory_choices(stream, phis, replace(setup, progress=DEFAULT.progress))
    names = (ROUTE, ADAPTIVE) if len(setup.reads) > 1 else (ROUTE,)
    labels = stream.labels()
    return {name: float(row.correct_at(labels, choices[name]).mean()) for name in names}


def _mean(played: Sequence[PlayedTopics], kind: str) -> dict[str, float]:
    found = [getattr(p, kind) for p in played]
    return {name: fmean(f[name] for f in found) for name in found[0]}


def _captured(played: Sequence[PlayedTopics]) -> dict[str, Any]:
    """The median share of the oracle's gain that the route has, if there is one."""
    counted = [p for p in played if p.gain >= WORTH_IT]
    medians = {
        kind: round(median(p.captured(getattr(p, kind)) for p in counted), 4) if counted else None
        for kind in ("plain", "topics", "shuffled")
    }
    return {"parts": len(counted), **medians}


def _rounded(accuracies: Mapping[str, float]) -> dict[str, float]:
    return {name: round(accuracy, 6) for name, accuracy in accuracies.items()}
