"""What a run of the paper's tables will take of a center, before it begins: prompts, tokens, hours, disk."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING

from sigma_lab.bench.paper.play import PaperPlay
from sigma_lab.bench.scores import RECORD_BYTES, Pair
from sigma_lab.bench.table import Table
from sigma_mem.streams import Stream

if TYPE_CHECKING:
    from sigma_mem.center import Center

_TIMED = 8  # prompts that are judged to see how long one takes
_SAMPLE = 400  # prompts whose tokens are counted


@dataclass(frozen=True, slots=True)
class CenterPlan:
    """Of one center. Steered prompts reuse what the lower half made of their texts, if it was kept."""

    center: str
    prompts: dict[str, int]  # by table, at most
    training: int  # prompts of gradient steps and of held-out checks, at most
    tokens: int  # of a prompt, on average
    hours: float
    states_gb: float  # of lower halves, if all were kept
    scores_mb: float

    @property
    def total(self) -> int:
        """Prompts of all tables."""
        return sum(self.prompts.values())


def planned_prompts(play: PaperPlay, *, named: bool, figure: bool) -> tuple[dict[str, int], list[Pair]]:
    """Prompts by table, at most, and the different pairs of a question and an answer among them.

    The base judge reads a pair once, whichever peer gave the answer. A steered one reads it again in every
    state of the memory.
    """
    found: dict[str, int] = {}
    pairs: dict[Pair, None] = {}
    with_names: set[Pair] = set()
    for table, stream, seed, more in _runs(play, figure):
        here = _pairs(stream, play.places(stream, seed, more=more))
        found[table] = found.get(table, 0) + len(here)
        pairs |= dict.fromkeys((question, answer) for question, answer, _ in here)
        if named and table == "Table 1":
            with_names |= set(here)
    besides = {"base, peer named": len(with_names)} if with_names else {}
    besides |= {"base, in words": found.get("Table 1", 0)} if play.words else {}
    return {"base": len(pairs), **besides, **found}, list(pairs)


def _runs(play: PaperPlay, figure: bool) -> Iterator[tuple[str, Stream, int, bool]]:
    """Every stream that a steered center judges: table, stream, seed, and whether it is one of many."""
    streams = play.streams
    for seed in play.seeds:
        for ratio in play.ratios if streams.cf is not None else ():
            yield "Table 1", play.attack(ratio, seed), seed, False
            yield from (("Table 2", play.attack(ratio, seed, n), seed, True) for n in streams.larger)
        if streams.ood is not None:
            outside = play.ordered(streams.ood, seed)
            yield "Tables 3 and 4", outside, seed, False
            # With all labels, Figure 3 is what Table 3 judged already.
            masks = product((s for s in play.shares if s < 1.0), range(play.masks))
            yield from (("Figure 3", outside, seed, True) for _ in masks if figure)


def _pairs(stream: Stream, places: list[int]) -> list[tuple[str, str, str]]:
    events = [stream.events[place] for place in places]
    return [(e.question, e.answers[p].text, p) for e in events for p in stream.peers if p in e.answers]


def center_plan(
    center: Center, play: PaperPlay, *, named: bool, figure: bool, training: int, cache_gb: float
) -> CenterPlan:
    """Count, and time a few prompts on the device that the center is on."""
    prompts, pairs = planned_prompts(play, named=named, figure=figure)
    sample = pairs[:: max(len(pairs) // _SAMPLE, 1)]
    lengths = [len(center.writer.row(question, answer).ids) for question, answer, *_ in sample]
    tokens = sum(lengths) / len(lengths)
    timed = sample[:: max(len(sample) // _TIMED, 1)][:_TIMED]
    center.judge_pairs(timed[:1])  # what only the first call costs
    started = time.perf_counter()
    center.judge_pairs(timed)
    each = (time.perf_counter() - started) / len(timed)
    width = next(p for p in center.model.parameters()).element_size() * center.hidden
    states = len(pairs) * tokens * width
    # A state that is kept saves the lower half of every steered prompt; a gradient step takes about three.
    kept = min(cache_gb * 2**30 / states, 1.0) if center.fast else 0.0
    steered = sum(n for name, n in prompts.items() if not name.startswith("base"))
    first = sum(prompts.values()) - steered
    seconds = each * (first + steered * (1.0 - 0.5 * kept) + 3 * training)
    return CenterPlan(
        center=center.name,
        prompts=prompts,
        training=training,
        tokens=round(tokens),
        hours=seconds / 3600,
        states_gb=states / 2**30,
        scores_mb=sum(prompts.values()) * RECORD_BYTES / 2**20,
    )


def plan_table(plans: list[CenterPlan], cache_gb: float) -> Table:
    """A line per center."""
    tables = list(plans[0].prompts) if plans else []
    return Table(
        title="What it will take",
        values={"centers": [{**asdict(plan), "total": plan.total} for plan in plans], "cache_gb": cache_gb},
        header=["center", *tables, "all", "training", "tokens each", "hours", "states GB", "scores MB"],
        rows=[
            [
                plan.center,
                *(f"{n:,}" for n in plan.prompts.values()),
                f"{plan.total:,}",
                f"{plan.training:,}",
                str(plan.tokens),
                f"{plan.hours:.2f}",
                f"{plan.states_gb:.2f}",
                f"{plan.scores_mb:.1f}",
            ]
            for plan in plans
        ],
        remarks=[
            "Prompts of every table, at most: what is in OUT/scores.bin is not judged again.",
            f"Hours from {_TIMED} prompts timed now on this device; states on disk are bounded by --cache-gb "
            f"{cache_gb:g}. Features of φ and the memories' own time are not counted.",
        ],
    )
