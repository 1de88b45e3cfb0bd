"""What every ``sigma-mem bench`` command takes, and how it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sigma_mem.cli.output import console, print_json
from sigma_mem.encode import Encoder, open_encoder
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream, load_stream

if TYPE_CHECKING:
    from sigma_mem.bench.tables import Result

__all__ = [
    "EncoderName",
    "Limit",
    "PhiFile",
    "Pool",
    "Ratios",
    "Recorded",
    "Report",
    "Rivals",
    "Seed",
    "StreamFile",
    "Warm",
    "WarmShare",
    "answer",
    "names_of",
    "numbers_of",
    "opened_encoder",
    "recorded",
    "rivals_of",
    "warmed",
]

StreamFile = Annotated[Path, typer.Argument(help="A recorded stream: JSON lines, plain, .gz or .zst.")]
Pool = Annotated[str | None, typer.Option("--peers", help="Peers, separated by commas; all by default.")]
Ratios = Annotated[str, typer.Option(help="Attack ratios, separated by commas.")]
Seed = Annotated[int, typer.Option(help="Of the order, the attack, the clusters and the rivals.")]
Limit = Annotated[int | None, typer.Option(help="At most this many events.")]
EncoderName = Annotated[str, typer.Option("--encoder", help="static, hashed or sentence.")]
PhiFile = Annotated[Path | None, typer.Option("--phi", help="A learned φ, made by  sigma-mem train phi.")]
Rivals = Annotated[bool, typer.Option("--rivals", help="Also the rivals (extra [rivals]); slower.")]
Report = Annotated[Path | None, typer.Option(help="Folder for Markdown, CSV and figures.")]
Warm = Annotated[Path | None, typer.Option(help="A stream of the same peers to learn from first.")]
WarmShare = Annotated[
    float, typer.Option(help="Leading share of the shuffled stream to learn from first, not in the table.")
]


WarmUp = tuple[Stream, FloatArray] | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A stream in its order, and φ of its questions."""

    stream: Stream
    phis: FloatArray


def names_of(text: str | None) -> list[str] | None:
    """Names separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",")]


def numbers_of(text: str, what: str) -> list[float]:
    """Numbers separated by commas.

    >>> numbers_of("0, 0.5", "--ratios")
    [0.0, 0.5]
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"got {what} {text!r}; expected numbers separated by commas, like 0,0.5") from error


def opened_encoder(name: str, learned: Path | None) -> Encoder:
    """The encoder of this name, or the learned one over it."""
    base = open_encoder(name)
    if learned is None:
        return base
    from sigma_mem.encode.learned import LearnedEncoder

    return LearnedEncoder.load(learned, base)


def recorded(
    file: Path,
    peers: str | None,
    seed: int,
    limit: int | None,
    encoder: Encoder,
    domains: Sequence[str] | None = None,
) -> Recorded:
    """Load and shuffle a stream, and encode its questions."""
    stream = load_stream(file).select(peers=names_of(peers), domains=domains, seed=seed, limit=limit)
    if not len(stream):
        raise InputError(f"{file} has no event left; expected at least one: check --peers and --limit")
    return Recorded(stream, encoder.encode([event.question for event in stream]))


def warmed(data: Recorded, share: float, before: Recorded | None) -> tuple[Recorded, WarmUp]:
    """The events of the table, and what every mechanism learns from before them."""
    if not 0.0 <= share < 1.0:
        raise InputError(f"got --warm-share {share}; expected a number in [0, 1), such as 0.5")
    if share > 0.0 and before is not None:
        raise InputError("got --warm and --warm-share; expected one of them")
    if share == 0.0:
        return data, None if before is None else (before.stream, before.phis)
    cut, stream = int(share * len(data.stream)), data.stream
    rest = Recorded(Stream(stream.name, stream.peers, stream.events[cut:]), data.phis[cut:])
    return rest, (stream.select(limit=cut), data.phis[:cut])


def rivals_of(wanted: bool) -> list[str]:
    """The rivals' names, if they are wanted."""
    if not wanted:
        return []
    from sigma_mem.bench.rivals import RIVALS

    return list(RIVALS)


def answer(
    result: Result, *, as_json: bool, report: Path | None, write: Callable[[Path], list[Path]]
) -> None:
    """Write the report where one is asked for, and print one JSON object or a table."""
    files = [] if report is None else write(report)
    if as_json:
        print_json(result.values())
        return
    from sigma_mem.bench.report import remarks
    from sigma_mem.bench.tables import grid

    header, rows = grid(result)
    table = Table(*header, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    out = console()
    out.print(table)
    for line in (*remarks(result), *(str(file) for file in files)):
        out.print(line, markup=False)
