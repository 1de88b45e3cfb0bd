"""``sigma-mem report``, ``evaluate`` and ``pool``: what the memory, another read or each peer reaches."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Argument, Context, Option

from sigma_mem.admin import evaluation
from sigma_mem.cli.options import (
    MEMORY_OPTION,
    Namespace,
    Recorded,
    TableColumns,
    check_folder,
    grouped_options,
    names_of,
    opened_to_read,
    reads,
    shows,
)
from sigma_mem.cli.output import Found, print_table
from sigma_mem.errors import InputError
from sigma_mem.extras import require
from sigma_mem.files import replace_file
from sigma_mem.session import SigmaMem
from sigma_mem.streams import load_stream
from sigma_mem.streams.pool import PoolReport, pool_report

Since = Annotated[
    str | None, Option(help="Only decisions since this date, or date and time.", show_default=False)
]
Until = Annotated[str | None, Option(help="Only decisions before this time.", show_default=False)]
_PAIRS = 8  # that are printed
_PICTURES = (".png", ".svg", ".pdf")


@reads
def report(mem: SigmaMem, since: Since = None, until: Until = None) -> Found:
    """Report what the memory would have chosen: which peers, how often right, at what cost, by topic.

    Made for a gateway in mode "observe".

    Example:
    sigma-mem report --memory memory.db --since 2026-01-31
    """
    found = evaluation.report(mem, since=since, until=until)
    rows = [
        (
            each.topic or "all requests",
            str(each.requests),
            f"{each.elsewhere} ({each.elsewhere / each.requests:.0%})",
            str(each.untried),
            *(_range(x, ".1%") for x in (each.right_before, each.right_after)),
            *(_range(x, ".3g") for x in (each.cost_before, each.cost_after)),
        )
        for each in found.compared
    ]
    header = ("topic", "requests", "elsewhere", "untried", "right", "had it chosen", "cost", "had it chosen")
    untried = "untried: would have gone to a peer that served no such request; its p̂ is all that is known"
    remarks = ["", "95 % intervals; a cost is the mean of a request", untried]
    return found.to_dict(), partial(print_table, header, rows, remarks)


@shows
def evaluate(
    context: Context,
    stream: Annotated[
        Path | None, Argument(help="Instead of a memory: a recorded stream, routed with exploration first.")
    ] = None,
    memory: Annotated[Path | None, MEMORY_OPTION] = None,
    reads: Annotated[
        str | None, Option(help="Only these reads or peers, separated by commas.", show_default=False)
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int | None, Option(min=1, help="Of a stream: at most this many events.")] = None,
    seed: Annotated[int, Option(help="Of a stream: seed of its order and of the exploration.")] = 0,
    namespace: Namespace = "default",
) -> Found:
    """Estimate how often each read, or peer, would have been right, from what exploring routes logged.

    Examples:
    sigma-mem evaluate --memory memory.db --reads calibrated-route

    sigma-mem evaluate stream.jsonl.gz --limit 500
    """
    wanted = names_of(reads)
    origin = context.get_parameter_source("memory")
    if stream is not None and origin is not None and origin.name == "ENVIRONMENT":
        memory = None  # the stream was named for this command, the memory for all of them
    if (stream is None) == (memory is None):
        raise InputError("got a stream and a memory, or neither; expected STREAM or --memory FILE")
    if memory is not None:
        with opened_to_read(memory, namespace) as mem:
            found = evaluation.evaluate(mem, wanted, since=since, until=until)
    else:
        mem, truth = evaluation.explored(load_stream(str(stream)).select(seed=seed, limit=limit), seed=seed)
        with mem:
            found = evaluation.evaluate(mem, wanted, truth=truth)
    return found.to_dict(), partial(_print_evaluation, found)


def _print_evaluation(found: evaluation.Evaluation) -> None:
    rows = []
    for read, by_name in found.estimates.items():
        some = by_name["ips"]
        known = [f"{found.truth[read]:.1%}"] if found.truth else []
        behind = f"{some.effective:.0f}", f"{some.supported:.0%}"
        mark = "~" if some.is_prediction and some.value == some.value else ""
        rows.append((read, *(mark + _range(each, ".1%") for each in by_name.values()), *behind, *known))
    truth = ["truth"] if found.truth else []
    header = ("read or peer", "IPS", "SNIPS", "doubly robust", "effective", "supported", *truth)
    remarks = [
        "",
        f"{found.decisions} labelled decisions; 95 % intervals",
        "supported: decisions in which that peer could well have been drawn; the others are as p̂ predicts",
        "~ is a prediction: too many decisions are not supported; explore more to know",
    ]
    if found.elsewhere:
        remarks.append(
            f"{found.elsewhere} more were served by another peer than the one drawn: "
            "they count as logged only, and `sigma-mem report` compares them"
        )
    print_table(header, rows, remarks)


def _range(found: evaluation.Estimate | None, form: str) -> str:
    if found is None or found.value != found.value:
        return "—"
    low, high = found.interval
    return f"{found.value:{form}} ({low:{form}} … {high:{form}})"


@shows
@grouped_options
def pool(
    file: Recorded,
    columns: TableColumns,
    peers: Annotated[str | None, Option(help="Only these, separated by commas.")] = None,
    picture: Annotated[
        Path | None, Option(help="Also draw accuracy and error correlation: PNG, SVG or PDF.")
    ] = None,
) -> Found:
    """Report which peers of a pool are right, which err together, and which add nothing.

    Examples:
    sigma-mem pool stream.jsonl --picture pool.png

    sigma-mem pool verdicts.csv --event id --question task --peer judge --answer verdict --label right
    """
    if picture is not None:
        if picture.suffix not in _PICTURES:
            raise InputError(f"got --picture {picture}; expected a name that ends in {', '.join(_PICTURES)}")
        check_folder("--picture", picture)
    stream, dropped = columns.load(file)
    found = pool_report(stream.select(peers=names_of(peers)))
    if picture is not None:
        _draw_pool(found, picture)
    values = {**found.values(), "dropped": dict(dropped)}
    return values, partial(_print_pool, found, columns.dropped_lines(dropped))


def _print_pool(report: PoolReport, dropped: Sequence[str]) -> None:
    orders = any(line.consistent is not None for line in report.peers)
    header = ["peer", "labels", "right", "95 %", "adds", *(["same in both orders"] if orders else [])]
    rows = []
    for line in sorted(report.peers, key=lambda line: -line.accuracy):
        row = [line.peer, str(line.labels), f"{line.accuracy:.1%}", f"{line.low:.1%} … {line.high:.1%}"]
        row.append(f"{100 * line.adds:+.1f} ± {100 * line.adds_error:.1f}")
        if orders:
            row.append("—" if line.consistent is None else f"{line.consistent:.1%}")
        rows.append(row)
    remarks = [
        "",
        f"majority {report.majority:.1%}, best peer {report.best:.1%}, "
        f"joint vote {report.joint:.1%} (weights from the other four fifths)",
        f"{len(report.peers)} peers are worth {report.effective_votes:.1f} independent votes",
        f"add nothing: {', '.join(report.redundant) or 'none'}",
    ]
    remarks += [
        f"deceive together: {one} and {other}, the same wrong answer in {line.together:.1%} of the events, "
        f"{line.expected:.1%} by chance"
        for line in report.deceiving[:_PAIRS]
        for one, other in [line.peers]
    ]
    print_table(header, rows, [*remarks, *dropped])


def _draw_pool(report: PoolReport, path: Path) -> None:
    """Write accuracy with intervals, and which peers are wrong together, as a picture."""
    figure = require("matplotlib.figure", extra="plot", purpose="the picture").Figure(
        figsize=(12, max(4.0, 0.3 * len(report.peers) + 1.5)), layout="constrained"
    )
    order = sorted(range(len(report.peers)), key=lambda place: -report.peers[place].accuracy)
    lines = [report.peers[place] for place in order]
    places = range(len(lines))
    names = [line.peer.replace("$", r"\$") for line in lines]  # matplotlib takes $ for mathematics
    bars, pairs = figure.subplots(1, 2)
    rates = np.array([line.accuracy for line in lines])
    away = np.abs(np.array([(line.low, line.high) for line in lines]).T - rates)
    bars.barh(places, rates, color="#1f6feb", alpha=0.8)
    bars.errorbar(rates, places, xerr=away, fmt="none", ecolor="#24292f", capsize=3)
    for value, name in ((report.majority, "majority"), (report.joint, "joint vote")):
        bars.axvline(value, color="#24292f", linestyle=":")
        bars.text(value, -0.6, name, ha="center", va="bottom", fontsize=8.5)
    bars.set_yticks(places, names, fontsize=8.5)
    bars.invert_yaxis()
    bars.set_xlim(0, 1)
    bars.set_xlabel("share right, 95 % interval")
    shades = pairs.imshow(
        report.correlation[np.ix_(order, order)], cmap="PuOr_r", vmin=-1.0, vmax=1.0, aspect="auto"
    )
    figure.colorbar(shades, ax=pairs, label="correlation of being wrong")
    pairs.set_xticks(places, names, rotation=60, ha="right", fontsize=8.5)
    pairs.set_yticks(places, names, fontsize=8.5)
    pairs.set_title(f"Wrong together; worth {report.effective_votes:.1f} votes", loc="left")
    with replace_file(path) as temporary:
        figure.savefig(temporary, dpi=110)
