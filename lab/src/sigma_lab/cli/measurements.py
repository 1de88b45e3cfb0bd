"""``sigma-mem bench encoder``, ``speed``, ``age``, ``gateway`` and ``center-speed``: no experiments."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sigma_lab.cli.bench_options import show_table
from sigma_mem.cli.options import Json, names_of
from sigma_mem.cli.output import print_json, print_table, progress_bar


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
    pairs, stream = load_paraphrases(paraphrases), load_stream(learn).select(seed=0)
    with progress_bar() as progress:
        found = paraphrase_table(encoders, pairs, stream, progress)
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


def gateway(
    calls: Annotated[int, typer.Option(min=20, help="Calls to each server.")] = 400,
    litellm: Annotated[
        Path | None, typer.Option(help="A virtual environment with LiteLLM's proxy, to time it as well.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Time what the gateway adds to a call of an upstream, compared with LiteLLM's proxy."""
    from sigma_lab.bench.gateway import measure_gateway

    with progress_bar() as progress:
        found = measure_gateway(calls, litellm, progress)
    show_table(found.table(), as_json)


def center_speed(
    stream: Annotated[Path, typer.Argument(help="A recorded stream, as JSON lines.")],
    peers: Annotated[
        str | None, typer.Option(help="Names separated by commas; the first three if absent.")
    ] = None,
    center: Annotated[
        str, typer.Option(help="smollm2, a folder, or a name on the Hugging Face hub.")
    ] = "smollm2",
    events: Annotated[int, typer.Option(min=1, help="How many events to time.")] = 12,
    rounds: Annotated[int, typer.Option(min=1, help="How often.")] = 2,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the model.")] = 1,
    as_json: Json = False,
) -> None:
    """Time a center's scoring of an event compared with one plain forward with hooks per peer."""
    from sigma_lab.bench.center_speed import measure
    from sigma_mem.center import Center
    from sigma_mem.streams import load_stream

    names = names_of(peers)
    recorded = load_stream(stream, peers=names, seed=0, limit=events)
    chosen = list(recorded.peers)[:3] if names is None else names
    pairs = [[(event.question, event.answers[p].text) for p in chosen] for event in recorded.events]
    found = measure(Center.load(center), pairs, rounds=rounds, threads=threads)
    if as_json:
        reached = {name: found.ratios[name] / bound for name, bound in found.work.items()}
        values = {**asdict(found), "ratios": found.ratios, "reached": reached}
        print_json({**values, "events": len(pairs), "peers": chosen})
        return
    ratios, work = found.ratios, found.work
    rows = [
        ("plain forward per peer", found.plain, 1.0, None),
        ("fresh", found.fresh, ratios["fresh"], work["fresh"]),
        ("only the memory changed", found.cached, ratios["memory changed"], work["memory changed"]),
        ("plain training step", found.plain_step, 1.0, None),
        ("training step", found.step, ratios["training step"], None),
    ]
    note = (
        f"{len(pairs)} events, {len(chosen)} peers, {found.tokens:.0f} tokens a prompt, "
        f"{found.shared:.0%} of them shared by the peers, {threads} thread(s)"
    )
    body = [
        (way, f"{seconds:.3f}", f"{ratio:.2f}×")
        + (("", "") if bound is None else (f"{bound:.2f}×", f"{ratio / bound:.0%}"))
        for way, seconds, ratio, bound in rows
    ]
    aims = (
        "bound: what arithmetic allows with δ on all tokens; aimed at: 85 % of it when fresh, and 2.4 times "
        "when only the memory changed"
    )
    print_table(("way", "seconds per event", "times faster", "bound", "reached"), body, [note, aims])
