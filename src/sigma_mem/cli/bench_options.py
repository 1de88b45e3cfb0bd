"""What every ``sigma-mem bench`` experiment on a stream takes, and how it is run and printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sigma_mem.cli.center_options import CenterChoice
from sigma_mem.cli.options import Json, names_of
from sigma_mem.cli.output import print_json, print_table
from sigma_mem.cli.progress import progress_bar
from sigma_mem.errors import InputError

if TYPE_CHECKING:
    from sigma_mem.bench.center import BenchCenter
    from sigma_mem.bench.league import Setup
    from sigma_mem.bench.table import Table
    from sigma_mem.encode import Encoder
    from sigma_mem.events import FloatArray
    from sigma_mem.streams import Stream


StreamFile = Annotated[Path, typer.Argument(help="A recorded stream: JSON lines, plain, .gz or .zst.")]
Limit = Annotated[int | None, typer.Option(help="At most this many events.")]
Ratios = Annotated[str, typer.Option(help="Attack ratios, separated by commas.")]
Rivals = Annotated[bool, typer.Option("--rivals", help="Also four other libraries (extra 'rivals'); slower.")]
Warm = Annotated[Path | None, typer.Option(help="A stream of the same peers to learn from first.")]
WarmShare = Annotated[
    float, typer.Option(help="Leading share of the stream to learn from first, not in the table.")
]


@dataclass(frozen=True, slots=True)
class Experiment:
    """What an experiment works on: a stream in its order with φ of its questions, and what goes with it."""

    stream: Stream
    phis: FloatArray
    setup: Setup
    center: BenchCenter | None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Which peers, in which order, under which φ, and how to print the result: each field is an option."""

    peers: Annotated[
        str | None, typer.Option("--peers", help="Peers, separated by commas; all by default.")
    ] = None
    order: Annotated[
        Literal["shuffled", "recorded"],
        typer.Option(help="Shuffle the events by the seed, or keep their order."),
    ] = "shuffled"
    seed: Annotated[int, typer.Option(help="Of the order, the attack, the clusters and the rivals.")] = 0
    encoder: Annotated[str, typer.Option("--encoder", help="static, hashed or sentence.")] = "static"
    phi: Annotated[Path | None, typer.Option("--phi", help="A learned φ, made by  sigma-mem train phi.")] = (
        None
    )
    report: Annotated[Path | None, typer.Option(help="Folder for Markdown, CSV and figures.")] = None
    as_json: Json = False

    @contextmanager
    def experiment(
        self,
        file: Path,
        *,
        limit: int | None,
        warm: Path | None = None,
        warm_share: float = 0.0,
        rivals: bool = False,
        center: CenterChoice | None = None,
    ) -> Iterator[Experiment]:
        """Load, order and encode a stream, set the warm-up apart, open the center, and show progress."""
        from sigma_mem.bench.league import Setup
        from sigma_mem.bench.rivals import RIVALS

        names = tuple(RIVALS) if rivals else ()
        choice = center or CenterChoice()
        choice.check()
        encoder = self.open_encoder(self.phi)
        with progress_bar() as progress:
            stream, phis = self.load(file, encoder, limit=limit)
            before = None if warm is None else self.load(warm, encoder)
            stream, phis, before = _warm_up(stream, phis, warm_share, before)
            streams = [stream] if before is None else [stream, before[0]]
            with choice.opened(streams, self.seed, progress) as opened:
                setup = Setup(rivals=names, warm=before, seed=self.seed, progress=progress)
                yield Experiment(stream, phis, setup, opened)

    def open_encoder(self, learned: Path | None) -> Encoder:
        """The encoder of the name given, or the learned one over it."""
        from sigma_mem.encode import open_encoder

        base = open_encoder(self.encoder)
        if learned is None:
            return base
        from sigma_mem.encode.learned import LearnedEncoder

        return LearnedEncoder.load(learned, base)

    def load(
        self,
        file: Path,
        encoder: Encoder,
        *,
        peers: str | None = None,
        limit: int | None = None,
        domains: Sequence[str] | None = None,
    ) -> tuple[Stream, FloatArray]:
        """Load a stream in the order asked for, and encode its questions."""
        from sigma_mem.streams import load_stream

        seed = self.seed if self.order == "shuffled" else None
        chosen = names_of(peers or self.peers)
        stream = load_stream(file).select(peers=chosen, domains=domains, seed=seed, limit=limit)
        if not len(stream):
            raise InputError(f"{file} has no event left; expected at least one: check --peers and --limit")
        return stream, encoder.encode([event.question for event in stream])

    def show(self, table: Table) -> None:
        """Write the report where one is asked for, and print one JSON object or a table."""
        from sigma_mem.bench.table import write_report

        files = [] if self.report is None else write_report(table, self.report)
        if self.as_json:
            print_json(table.values())
        else:
            print_table(*table.grid(), [*table.remarks(), *map(str, files)])


def _warm_up(
    stream: Stream, phis: FloatArray, share: float, before: tuple[Stream, FloatArray] | None
) -> tuple[Stream, FloatArray, tuple[Stream, FloatArray] | None]:
    """The events of the table, and what every mechanism learns from before them."""
    if not 0.0 <= share < 1.0:
        raise InputError(f"got --warm-share {share}; expected a number in [0, 1), such as 0.5")
    if share > 0.0 and before is not None:
        raise InputError("got --warm and --warm-share; expected one of them")
    if share == 0.0:
        return stream, phis, before
    from sigma_mem.streams import Stream

    cut = int(share * len(stream))
    rest = Stream(stream.name, stream.peers, stream.events[cut:])
    return rest, phis[cut:], (stream.select(limit=cut), phis[:cut])
