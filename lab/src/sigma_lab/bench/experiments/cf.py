"""The paper's tables of mechanisms: under attack, and by domain.

tab:CF_results, tab:CF_Mresults and, with other peers, tab:scaling_results; tab:coordination_roles and
tab:generalization_results.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sigma_lab.attack import Partner, counterfactual
from sigma_lab.bench.center import BenchCenter, merged
from sigma_lab.bench.league import DEFAULT, Setup, in_processes, league, reference_row
from sigma_lab.bench.row import TableRow
from sigma_lab.bench.table import (
    Rows,
    Table,
    difference_text,
    league_table,
    row_intervals,
    row_values,
    selection_counts,
    standing,
)
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

RATIOS = (0.0, 0.5, 0.7, 0.9)


def attacked_rows(
    stream: Stream,
    phis: FloatArray,
    ratios: Sequence[float] = RATIOS,
    setup: Setup = DEFAULT,
    center: BenchCenter | None = None,
    partner: Partner = "random",
) -> dict[float, Rows]:
    """Attack a clean stream at every ratio and play it. φ depends on the questions only, so it stays.

    With a center its rows come behind the others, and all are about the events that it judges.
    """
    warm = None if setup.warm is None else setup.warm[0]
    attacked = {ratio: counterfactual(stream, ratio, seed=setup.seed, partner=partner) for ratio in ratios}
    found = in_processes(
        lambda ratio: league(attacked[ratio], phis, setup.part(f"CF@{100 * ratio:g}")),
        list(attacked),
        setup.processes,
    )
    rows: dict[float, Rows] = dict(zip(attacked, found, strict=True))
    if center is not None:
        for ratio, one in attacked.items():
            rows[ratio] = merged(rows[ratio], center.judge(one, warm=warm), center.places(stream))
    return rows


def counterfactual_table(
    stream: Stream,
    phis: FloatArray,
    ratios: Sequence[float] = RATIOS,
    setup: Setup = DEFAULT,
    center: BenchCenter | None = None,
    partners: Sequence[Partner] = ("random",),
) -> Table:
    """Accuracy and selections at every ratio, for one or more ways to choose the strong peer's partner.

    Of several ways the first is under ``ratios``, and all are under ``partners``.
    """
    found = {partner: attacked_rows(stream, phis, ratios, setup, center, partner) for partner in partners}
    values = {
        partner: {f"{ratio:g}": row_values(rows, setup.seed) for ratio, rows in by_ratio.items()}
        for partner, by_ratio in found.items()
    }
    columns = {
        f"CF@{100 * ratio:g}" + (f" {partner}" if len(partners) > 1 else ""): rows
        for partner, by_ratio in found.items()
        for ratio, rows in by_ratio.items()
    }
    note = "± is half the 95 % bootstrap interval over events; n/n/… are selections in the peers' order."
    swapped = f"The strong peer is swapped with a wrong one: {', '.join(partners)} (docs/lab/paper.md)."
    results = {"partner": partners[0], "ratios": values[partners[0]]}
    return league_table(
        "Counterfactual attack",
        stream,
        columns,
        results | ({"partners": values} if len(partners) > 1 else {}),
        judged=None if center is None else center.judged(stream),
        selections=True,
        remarks=[note, swapped, "", *(f"- {name}: {standing(rows)}." for name, rows in columns.items())],
    )


def mechanism_table(
    stream: Stream, phis: FloatArray, setup: Setup = DEFAULT, center: BenchCenter | None = None
) -> Table:
    """Every mechanism on the clean stream: its difference to the reference row, and every domain."""
    rows = attacked_rows(stream, phis, [0.0], setup, center)[0.0]
    places = range(len(stream)) if center is None else center.places(stream)
    domains = np.asarray([stream.events[t].domain for t in places], dtype=str)
    values, spans = row_values(rows), row_intervals(rows)
    header = ["mechanism", "accuracy", "95 % interval", f"− {reference_row(rows)} (95 % interval)"]
    header += ["selections"] if center is not None else []
    body = []
    for name, row in rows.items():
        span, of_domains = spans[name], _by_domain(row, domains)
        values[name]["domains"] = {domain: round(share, 6) for domain, share in of_domains.items()}
        line = [name, f"{span.mean:.2%}", f"{span.low:.2%} … {span.high:.2%}", difference_text(span)]
        line += [selection_counts(row)] if center is not None else []
        body.append([*line, *(f"{share:.1%}" for share in of_domains.values())])
    table = league_table(
        "Mechanisms",
        stream,
        {"clean": rows},
        {"mechanisms": values},
        judged=None if center is None else center.judged(stream),
        remarks=[standing(rows) + "."],
    )
    return replace(table, header=[*header, *map(str, np.unique(domains))], rows=body)


def _by_domain(row: TableRow, domains: "np.ndarray[tuple[int], np.dtype[np.str_]]") -> dict[str, float]:
    return {str(name): float(row.correct[domains == name].mean()) for name in np.unique(domains)}
