"""Topics: what each event's domain gains as its topic, compared with the per-domain oracle."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from sigma_lab.attack import counterfactual
from sigma_lab.bench.league import DEFAULT, Setup, memory_choices, oracle_rows
from sigma_lab.bench.row import correct_at, has_answers
from sigma_lab.bench.table import Table, about, rounded
from sigma_lab.streams import with_topics
from sigma_mem.decide import Reads
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

FIXED, ORACLE = "best-fixed", "domain-oracle"
ROUTE, ADAPTIVE = "calibrated-route", "adaptive"
WORTH_IT = 0.01  # what the oracle must gain over the best fixed peer for a pool to count

Parts = Mapping[str, Stream]  # streams to play, by name
Accuracies = Mapping[str, float]


class PlayedTopics(NamedTuple):
    """Accuracies at one ratio: of oracles, without topics, with them, and with those of other events."""

    oracles: Accuracies
    plain: Accuracies
    topics: Accuracies
    shuffled: Accuracies

    @property
    def gain(self) -> float:
        """What the per-domain oracle gains over the best fixed peer."""
        return self.oracles[ORACLE] - self.oracles[FIXED]


def ordered(stream: Stream, seeds: Sequence[int]) -> Parts:
    """The stream in several orders."""
    return {f"order {seed}": stream.select(seed=seed) for seed in seeds}


def drawn_pools(stream: Stream, sizes: Sequence[int], draws: int) -> Parts:
    """Pools of each size, drawn from the peers as ``--pool`` and ``--pool-seed`` draw them."""
    if sizes and max(sizes) > len(stream.peers):
        raise InputError(f"got a pool of {max(sizes)}; expected at most {len(stream.peers)}, all peers")
    names = sorted(stream.peers)
    return {
        f"{size} peers, draw {seed}": stream.select(peers=random.Random(seed).sample(names, size))
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
    """Play every part at every ratio; its events are those of the stream, with φ as (T, rank).

    The adaptive read takes several times as long as the route alone.
    """
    if not adaptive or not has_answers(stream):
        settings = replace(setup.settings, text_features=False)  # p̂ does not need them
        setup = replace(setup, reads=Reads(setup.reads[ROUTE]), settings=settings)
    by_id = dict(zip((event.id for event in stream), phis, strict=True))
    played: dict[tuple[str, float], PlayedTopics] = {}
    for (name, part), ratio in product(parts.items(), ratios):
        directions = np.array([by_id[event.id] for event in part])
        played[name, ratio] = _played(counterfactual(part, ratio, seed=setup.seed), directions, setup)
        setup.progress("topics", len(played), len(parts) * len(ratios))
    by_ratio = {r: {name: p for (name, at), p in played.items() if at == r} for r in sorted(set(ratios))}
    mean = {ratio: _mean(list(of.values())) for ratio, of in by_ratio.items()}
    captured = {ratio: _captured(list(of.values())) for ratio, of in by_ratio.items()}
    reads = list(mean[ratios[0]].plain)
    lines, remarks = [], []
    for ratio, of in by_ratio.items():
        for part_name, found in {**of, "mean": mean[ratio]}.items():
            cells = [found.oracles[FIXED], found.oracles[ORACLE]]
            cells += [kind[read] for read in reads for kind in found[1:]]
            lines.append([f"CF@{100 * ratio:g} {part_name}", *(f"{100 * cell:.2f}" for cell in cells)])
        remarks += _remarks(ratio, mean[ratio], captured[ratio], len(of))
    kinds = ("no topics", "topics", "shuffled")
    return Table(
        title=f"Topics: {stream.name}",
        values={
            **about(stream),
            "parts": [
                {"part": name, "ratio": ratio, **rounded(p._asdict())} for (name, ratio), p in played.items()
            ],
            "mean": {f"{ratio:g}": rounded(p._asdict()) for ratio, p in mean.items()},
            "captured": {f"{ratio:g}": found for ratio, found in captured.items()},
        },
        header=["% right", FIXED, ORACLE, *(f"{read}, {kind}" for read in reads for kind in kinds)],
        rows=lines,
        remarks=remarks,
    )


def _played(stream: Stream, phis: FloatArray, setup: Setup) -> PlayedTopics:
    plain = replace(stream, events=tuple(replace(event, topics=()) for event in stream))
    kinds = [plain, with_topics(stream, "domain"), with_topics(stream, "shuffled", setup.seed)]
    names = (ROUTE, ADAPTIVE) if len(setup.reads) > 1 else (ROUTE,)
    labels, rows, found = stream.labels(), oracle_rows(stream), []
    for kind in kinds:
        choices = memory_choices(kind, phis, replace(setup, progress=DEFAULT.progress))
        found.append({name: float(correct_at(labels, choices[name]).mean()) for name in names})
    return PlayedTopics({name: rows[name].accuracy for name in (FIXED, ORACLE)}, *found)


def _mean(played: Sequence[PlayedTopics]) -> PlayedTopics:
    kinds = zip(*played, strict=True)
    return PlayedTopics(*({name: fmean(f[name] for f in found) for name in found[0]} for found in kinds))


def _captured(played: Sequence[PlayedTopics]) -> dict[str, Any]:
    """The median share of the oracle's gain that the route has, if there is one."""
    counted = [p for p in played if p.gain >= WORTH_IT]
    out: dict[str, Any] = {"parts": len(counted)}
    for kind in ("plain", "topics", "shuffled"):
        shares = [(getattr(p, kind)[ROUTE] - p.oracles[FIXED]) / p.gain for p in counted]
        out[kind] = round(median(shares), 4) if shares else None
    return out


def _remarks(ratio: float, mean: PlayedTopics, captured: Mapping[str, Any], parts: int) -> list[str]:
    """How far the route is from the oracle, what false topics cost, and what is captured."""
    without, below = (100 * (mean.oracles[ORACLE] - found[ROUTE]) for found in (mean.plain, mean.topics))
    false = 100 * (mean.plain[ROUTE] - mean.shuffled[ROUTE])
    lines = [
        f"- CF@{100 * ratio:g}: the route is {without:.2f} below the per-domain oracle without topics, "
        f"{below:.2f} with them; topics of other events cost it {false:.2f}."
    ]
    if captured["parts"]:
        lines.append(
            f"  In {captured['parts']} of {parts} the oracle gains a point or more over the best "
            f"fixed peer: the route has {captured['plain']:.0%} of it in the median without topics, "
            f"{captured['topics']:.0%} with them."
        )
    return lines
