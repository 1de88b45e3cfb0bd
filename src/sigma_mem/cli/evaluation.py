"""``sigma-mem report`` and ``evaluate``: what the memory, or another way of choosing, would have reached."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigma_mem.cli.options import MEMORY, Json, MemoryFile, Namespace, memory_path, names_of, opened_to_read
from sigma_mem.cli.output import print_json, print_table
from sigma_mem.errors import InputError

if TYPE_CHECKING:
    from sigma_mem.admin.evaluation import Estimate, Evaluation

Since = Annotated[
    str | None, typer.Option(help="Only decisions since this date, or date and time.", show_default=False)
]
Until = Annotated[str | None, typer.Option(help="Only decisions before this time.", show_default=False)]
Memory = Annotated[
    Path | None,
    typer.Option(
        "--memory",
        "-m",
        help="The memory's file, or postgresql://…",
        envvar=MEMORY,
        parser=memory_path,
        metavar="PATH",
    ),
]


def report(
    memory: MemoryFile,
    since: Since = None,
    until: Until = None,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Report what the memory would have chosen: which peers, how often right, at what cost, by topic.

    Made for a gateway in mode "observe".

    Example:
    sigma-mem report --memory memory.db --since 2026-01-31
    """
    from sigma_mem.admin.evaluation import report as report_on

    with opened_to_read(memory, namespace) as mem:
        found = report_on(mem, since=since, until=until)
    if json:
        print_json(found.to_dict())
        return
    rows = [
        (
            each.topic or "all requests",
            str(each.requests),
            f"{each.elsewhere} ({each.elsewhere / each.requests:.0%})",
            str(each.untried),
            *(_percent(x) for x in (each.right_before, each.right_after)),
            *(_amount(x) for x in (each.cost_before, each.cost_after)),
        )
        for each in found.compared
    ]
    header = ("topic", "requests", "elsewhere", "untried", "right", "had it chosen", "cost", "had it chosen")
    untried = "untried: would have gone to a peer that served no such request; its p̂ is all that is known"
    print_table(header, rows, ["", "95 % intervals; a cost is the mean of a request", untried])


def evaluate(
    context: typer.Context,
    stream: Annotated[
        Path | None,
        typer.Argument(help="Instead of a memory: a recorded stream, routed with exploration first."),
    ] = None,
    memory: Memory = None,
    reads: Annotated[
        str | None, typer.Option(help="Only these reads or peers, separated by commas.", show_default=False)
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Of a stream: at most this many events.")] = None,
    seed: Annotated[int, typer.Option(help="Of a stream: seed of its order and of the exploration.")] = 0,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Estimate how often each read, or peer, would have been right, from what exploring routes logged.

    Examples:
    sigma-mem evaluate --memory memory.db --reads calibrated-route

    sigma-mem evaluate stream.jsonl.gz --limit 500
    """
    from sigma_mem.admin.evaluation import evaluate as evaluated
    from sigma_mem.admin.evaluation import explored
    from sigma_mem.streams import load_stream

    wanted = names_of(reads)
    origin = context.get_parameter_source("memory")
    if stream is not None and origin is not None and origin.name == "ENVIRONMENT":
        memory = None  # the stream was named for this command, the memory for all of them
    if (stream is None) == (memory is None):
        raise InputError("got a stream and a memory, or neither; expected STREAM or --memory FILE")
    if memory is not None:
        with opened_to_read(memory, namespace) as mem:
            found = evaluated(mem, wanted, since=since, until=until)
    else:
        mem, truth = explored(load_stream(str(stream)).select(seed=seed, limit=limit), seed=seed)
        with mem:
            found = evaluated(mem, wanted, truth=truth)
    if json:
        print_json(found.to_dict())
    else:
        _print(found)


def _print(found: Evaluation) -> None:
    rows = []
    for read, by_name in found.estimates.items():
        some = by_name["ips"]
        known = [f"{found.truth[read]:.1%}"] if found.truth else []
        behind = f"{some.effective:.0f}", f"{some.supported:.0%}"
        mark = "~" if some.is_prediction and some.value == some.value else ""
        rows.append((read, *(mark + _percent(each) for each in by_name.values()), *behind, *known))
    truth = ["truth"] if found.truth else []
    header = ("read or peer", "IPS", "SNIPS", "doubly robust", "effective", "supported", *truth)
    remarks = [
        f"{found.decisions} labelled decisions; 95 % intervals",
        "supported: decisions in which that peer could well have been drawn; the others are as p̂ predicts",
        "~ is a prediction: too many decisions are not supported; explore more to know",
    ]
    print_table(header, rows, ["", *remarks])


def _percent(found: Estimate | None) -> str:
    if found is None or found.value != found.value:
        return "—"
    return f"{found.value:.1%} ({found.interval[0]:.1%} … {found.interval[1]:.1%})"


def _amount(found: Estimate | None) -> str:
    return "—" if found is None else f"{found.value:.3g} ({found.interval[0]:.3g} … {found.interval[1]:.3g})"
