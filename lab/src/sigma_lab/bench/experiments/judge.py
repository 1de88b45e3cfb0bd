"""What a judge's score is worth: verdicts as evidence, of simulated judges and of a real one.

A simulated judge gives every answer d·right + noise, d = √2·Φ⁻¹(AUC): AUC is the chance that it scores a
right answer above a wrong one of the same question. A real judge is a model of the stream that is kept out of
the pool: an answer scores 1 if it equals the judge's own, and 0 if not.
Of two judges, one lies from the middle on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import NormalDist, fmean
from typing import Any

import numpy as np

from sigma_lab.attack import counterfactual
from sigma_lab.bench.league import Setup, in_processes, memory_choices
from sigma_lab.bench.row import correct_at, intervals
from sigma_lab.bench.table import Table, about, difference_text, difference_values, rounded
from sigma_lab.bench.verdicts import (
    auc_within,
    judge_alone,
    own_answer_verdicts,
    verdict_scores,
    weighed_row,
)
from sigma_lab.reveal import Everything, Share
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

AUCS = (0.5, 0.6, 0.7, 0.8)
SHARES = (1.0, 0.05, 0.01)
RATIOS = (0.0, 0.5)
NOBODY = "no judge"
LIARS = ("two of 0.7", "two of 0.7, one lies from the middle on")


def judge_table(
    stream: Stream,
    phis: FloatArray,
    setup: Setup,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    aucs: Sequence[float] = AUCS,
    ratios: Sequence[float] = RATIOS,
) -> Table:
    """Simulated judges on the answers of a stream, clean and attacked; and one of two that begins to lie."""
    attacked = {ratio: counterfactual(stream, ratio, seed=setup.seed) for ratio in ratios}
    names = [f"{auc:g}" for auc in aucs] + list(LIARS)
    jobs: list[tuple[str, float, int]] = [(NOBODY, ratio, 0) for ratio in ratios]
    jobs += list(product(names, ratios, seeds))

    def played(job: tuple[str, float, int]) -> tuple[float, float]:
        name, ratio, seed = job
        labels = attacked[ratio].labels()
        judges = _simulated(name, labels, seed)
        right = weighed_row(attacked[ratio], phis, judges, setup).correct
        alone = correct_at(labels, next(iter(judges.values())).argmax(axis=1)).mean() if judges else np.nan
        return float(right.mean()), float(alone)

    found = dict(zip(jobs, in_processes(played, jobs, setup.processes), strict=True))
    values: dict[str, Any] = {}
    rows = []
    for name in [NOBODY, *names]:
        row, values[name] = [name], {}
        for ratio in ratios:
            of = [found[job] for job in jobs if job[:2] == (name, ratio)]
            mean, alone = (fmean(column) for column in zip(*of, strict=True))
            gain = f"{100 * (mean - found[NOBODY, ratio, 0][0]):+.1f}"
            if name == NOBODY:
                row += ["–", f"{100 * mean:.1f}"]
            else:
                row += [f"{100 * alone:.1f}", f"{100 * mean:.1f} ({gain})"]
            values[name][f"{ratio:g}"] = rounded({"alone": None if name == NOBODY else alone, "with": mean})
        rows.append(row)
    columns = [f"{what} CF@{100 * ratio:g}" for ratio in ratios for what in ("argmax U", "decide")]
    return Table(
        title=f"Simulated judges: {stream.name}",
        values={**about(stream), "seeds": list(seeds), "judges": values},
        header=["AUC within a question, % right", *columns],
        rows=rows,
        remarks=[f"Means over {len(seeds)} seeds of the judge; in brackets the gain over no judge."],
    )


def _simulated(name: str, labels: FloatArray, seed: int) -> dict[str, FloatArray]:
    """The judges of a row."""
    if name == NOBODY:
        return {}
    if name not in LIARS:
        return {"judge": simulated_judge(labels, float(name), seed)}
    first, second = (simulated_judge(labels, 0.7, seed + 100 * n) for n in (1, 2))
    if name == LIARS[1]:
        lies = simulated_judge(labels, 0.3, seed + 300)
        second = np.where(np.arange(len(labels))[:, None] < len(labels) // 2, second, lies)
    return {"first": first, "second": second}


def simulated_judge(labels: FloatArray, auc: float, seed: int) -> FloatArray:
    """Scores that put a right answer above a wrong one of the same question with probability `auc`."""
    d = 2.0**0.5 * NormalDist().inv_cdf(auc)
    noise = np.random.default_rng(seed).standard_normal(labels.shape)
    out: FloatArray = d * (labels > 0.0) + noise
    return out


def real_judge_table(
    stream: Stream,
    phis: FloatArray,
    judge: str,
    setup: Setup,
    *,
    shares: Sequence[float] = SHARES,
    ratios: Sequence[float] = (0.0, 0.5, 0.9),
) -> Table:
    """A model of the stream as judge of the others: alone, without it and with it, at shares of labels."""
    peers = tuple(peer for peer in stream.peers if peer != judge)
    verdicts, pool = own_answer_verdicts(stream, judge, peers), stream.select(peers=peers)
    attacked = {ratio: counterfactual(pool, ratio, seed=setup.seed) for ratio in ratios}
    said = {ratio: verdict_scores(one, verdicts) for ratio, one in attacked.items()}
    jobs = list(product(ratios, shares))

    def played(job: tuple[float, float]) -> dict[str, FloatArray]:
        ratio, share = job
        one, labels = attacked[ratio], attacked[ratio].labels()
        reveal = Everything() if share >= 1.0 else Share(share, setup.seed)
        chosen = memory_choices(one, phis, setup, reveal)
        return {
            "judge alone": judge_alone(labels, said[ratio]),
            "m-route": correct_at(labels, chosen["m-route"]),
            "decide": correct_at(labels, chosen["adaptive"]),
            "decide with verdicts": weighed_row(one, phis, {judge: said[ratio]}, setup, reveal).correct,
        }

    rows, values = [], []
    for (ratio, share), correct in zip(jobs, in_processes(played, jobs, setup.processes), strict=True):
        gain = intervals(correct, "decide")["decide with verdicts"]
        shown = [f"{100 * right.mean():.1f}" for right in correct.values()]
        name = f"CF@{100 * ratio:g}, {100 * share:g} % labels"
        rows.append([name, *shown, difference_text(gain)])
        means = rounded({name: right.mean() for name, right in correct.items()})
        values.append({"ratio": ratio, "share": share, "accuracy": means, "gain": difference_values(gain)})
    accuracy = fmean(event.correct[judge] > 0.0 for event in stream if judge in event.correct)
    auc = auc_within(said[ratios[0]], attacked[ratios[0]].labels()) or 0.5
    return Table(
        title=f"A real judge: {judge} on {stream.name}",
        values={**about(pool), "judge": {"name": judge, "accuracy": accuracy, "auc": auc}, "columns": values},
        header=["% right", "judge alone", "m-route", "decide", "decide with verdicts", "gain (95 %)"],
        rows=rows,
        remarks=[
            f"{judge} is right on {100 * accuracy:.1f} % of the questions; its verdicts have AUC {auc:.3f} "
            "within a question. Alone, it chooses an answer that equals its own, else any."
        ],
    )
