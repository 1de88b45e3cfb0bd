"""The paper's tables of mechanisms: under attack, in larger pools, by domain, and learned elsewhere.

tab:CF_results and tab:CF_Mresults, tab:scaling_results, tab:coordination_roles, tab:generalization_results.
"""

from collections.abc import Mapping, Sequence
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
from sigma_mem.errors import InputError
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


def peer_table(
    stream: Stream,
    phis: FloatArray,
    sizes: Sequence[int] | None = None,
    ratios: Sequence[float] = RATIOS,
    setup: Setup = DEFAULT,
    center: BenchCenter | None = None,
) -> Table:
    """Play pools of the first 3, 4, … peers: a larger pool adds peers to the smaller one.

    Nothing is fitted to a pool: φ, γ and the prior are the same for all. The attack is made again
    for every pool, since the strong peer of a domain may be one that was added.
    """
    n = len(stream.peers)
    chosen = list(sizes) if sizes is not None else list(range(min(3, n), n + 1))
    if not chosen or any(not 2 <= size <= n for size in chosen):
        raise InputError(f"pool sizes are {chosen}; expected numbers from 2 to {n}, the peers of the stream")
    columns: dict[str, Rows] = {}
    pools = {}
    for size in chosen:
        pool = stream.select(peers=stream.peers[:size])
        kept = {event.id for event in pool}  # an event that none of these peers answered is not in the pool
        warm = None if setup.warm is None else (setup.warm[0].select(peers=pool.peers), setup.warm[1])
        if warm is not None and len(warm[0]) < len(warm[1]):
            raise InputError(
                f"some events of the warm-up have no answer of the first {size} peers; leave it out"
            )
        of_size = replace(setup.part(f"{size} peers"), warm=warm)
        of_pool = phis[[event.id in kept for event in stream]]
        found = attacked_rows(pool, of_pool, ratios, of_size, center)
        values = {f"{ratio:g}": row_values(rows, setup.seed) for ratio, rows in found.items()}
        pools[str(size)] = {"peers": list(pool.peers), "ratios": values}
        columns |= {f"{size} peers CF@{100 * ratio:g}": rows for ratio, rows in found.items()}
    judged = None if center is None else center.judged(stream.select(peers=stream.peers[: chosen[0]]))
    return league_table("More peers", stream, columns, {"pools": pools}, judged=judged)


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


def transfer_table(
    learn: Stream,
    test: Stream,
    phis: Mapping[str, tuple[FloatArray, FloatArray]],
    setup: Setup = DEFAULT,
    center: BenchCenter | None = None,
) -> Table:
    """Play the test stream cold, and (with the same peers) behind the one that was learned from.

    What can be carried over is φ, which knows no peer, and the memory itself if peers are the same.
    ``phis`` has φ of the learning stream and of the test stream by the encoder's name; a center's rows use
    the φ of its own steering, so they are the same for every φ.
    """
    starts: dict[str, Stream | None] = {"empty memory": None}
    if learn.peers == test.peers:
        starts[f"memory of {learn.name}"] = learn
    carried: dict[str, Rows] = {}
    for start, warm in starts.items():
        judged = {} if center is None else center.judge(test, warm=warm)
        for name, (before, after) in phis.items():
            rows: Rows = league(test, after, replace(setup, warm=None if warm is None else (warm, before)))
            carried[f"{name}, {start}"] = (
                rows if center is None else merged(rows, judged, center.places(test))
            )
    values = {what: row_values(rows) for what, rows in carried.items()}
    return league_table(
        f"Learned from {learn.name}",
        test,
        carried,
        {"learn": learn.name, "carried": values},
        judged=None if center is None else center.judged(test),
    )
