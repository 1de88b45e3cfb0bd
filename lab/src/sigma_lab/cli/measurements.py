"""``sigma-mem bench encoder``, ``speed`` and ``age``: no experiments."""

from pathlib import Path
from typing import Annotated

import typer

from sigma_lab.cli.bench_options import show_table
from sigma_mem.cli.options import Json, names_of
from sigma_mem.cli.output import progress_bar


def encoder(
    names: Annotated[
        str, typer.Option("--encoders", help="Encoders to compare, separated by commas.")
    ] = "static,hashed",
    paraphrases: Annotated[
        Path | None,
        typer.Option(
            help="Instead: whether these questions go to the same peer in other words (JSON lines)."
        ),
    ] = None,
    learn: Annotated[
        Path | None, typer.Option(help="With --paraphrases: the stream that a memory learns from first.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="With --paraphrases: orders of that stream.")] = 3,
    as_json: Json = False,
) -> None:
    """How often an everyday prompt is nearer to its own kind than to another, by encoder and language."""
    from sigma_lab.bench.experiments.encoder import encoder_table, load_paraphrases, paraphrase_table
    from sigma_mem.encode import open_encoder
    from sigma_mem.errors import InputError
    from sigma_mem.streams import load_stream

    encoders = {name: open_encoder(name) for name in names_of(names) or ()}
    if (paraphrases is None) != (learn is None):
        raise InputError("got one of --paraphrases and --learn; expected both or neither")
    if paraphrases is None or learn is None:
        show_table(encoder_table(encoders), as_json)
        return
    pairs, stream = load_paraphrases(paraphrases), load_stream(learn)
    with progress_bar() as progress:
        found = paraphrase_table(encoders, pairs, stream, range(seeds), progress)
    show_table(found, as_json)


def speed(
    rounds: Annotated[int, typer.Option(min=1, help="Repetitions; the best one counts.")] = 5,
    events: Annotated[int, typer.Option(min=1000, help="Longest stream for the cost per event.")] = 1_000_000,
    as_json: Json = False,
) -> None:
    """Time reads, writes, routes and feedback compared with ParetoBandit's."""
    from sigma_lab.bench.speed import measure_speed

    with progress_bar() as progress:
        found = measure_speed(rounds=rounds, longest=events, progress=progress)
    show_table(found, as_json)


def age(
    events: Annotated[
        int,
        typer.Option(min=100, help="How many; targets are for 100,000 (explain) and 1,000,000 (the others)."),
    ] = 20_000,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the file is grown, 1 kB an event; a temporary folder by default."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Grow a memory: bytes on disk, time and memory to open, replay and explain it, many peers."""
    from sigma_lab.bench.age import measure_age

    with progress_bar() as progress:
        found = measure_age(events, progress, folder)
    show_table(found, as_json)
