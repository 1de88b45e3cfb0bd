"""``sigma-mem pool``: what a recorded pool of peers, or a panel of judges, is worth."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigma_mem.cli.options import Json, check_folder, names_of
from sigma_mem.cli.output import print_json, print_table
from sigma_mem.errors import InputError

if TYPE_CHECKING:
    from sigma_mem.streams.pool import PoolReport

_PICTURES = (".png", ".svg", ".pdf")
_PAIRS = 8  # that are printed


def pool(
    stream: Annotated[Path, typer.Argument(help="A recorded stream with labels: JSON lines, .gz or .zst.")],
    peers: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw accuracy and error correlation: PNG, SVG or PDF.")
    ] = None,
    json: Json = False,
) -> None:
    """Say who in a pool is right, who errs with whom, and who adds nothing.

    Example:
    sigma-mem pool verdicts.jsonl --picture pool.png
    """
    from sigma_mem.streams import load_stream
    from sigma_mem.streams.pool import pool_report

    if picture is not None:
        if picture.suffix not in _PICTURES:
            raise InputError(f"got --picture {picture}; expected a name that ends in {', '.join(_PICTURES)}")
        check_folder("--picture", picture)
    report = pool_report(load_stream(stream).select(peers=names_of(peers)))
    if picture is not None:
        from sigma_mem.cli.picture import draw_pool

        draw_pool(report, picture)
    if json:
        print_json(_values(report))
    else:
        _print(report)


def _values(report: PoolReport) -> dict[str, Any]:
    """The report as one JSON object."""
    return {
        **{name: getattr(report, name) for name in ("events", "majority", "joint", "best")},
        "effective_votes": report.effective_votes,
        "peers": [asdict(line) | {"adds_nothing": line.adds_nothing} for line in report.peers],
        "correlation": [[x if x == x else None for x in row] for row in report.correlation.tolist()],
        "deceiving": [asdict(line) for line in report.deceiving],
    }


def _print(report: PoolReport) -> None:
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
    print_table(header, rows, remarks)
