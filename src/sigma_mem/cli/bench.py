"""``sigma-mem bench``: the paper's experiments on recorded streams, one command each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigma_mem.cli.bench_input import (
    EncoderName,
    Limit,
    PhiFile,
    Pool,
    Ratios,
    Recorded,
    Report,
    Rivals,
    Seed,
    StreamFile,
    Warm,
    WarmShare,
    answer,
    names_of,
    numbers_of,
    opened_encoder,
    recorded,
    rivals_of,
    warmed,
)
from sigma_mem.cli.center_options import CenterChoice, takes_center
from sigma_mem.cli.options import Json
from sigma_mem.cli.progress import steps_shown
from sigma_mem.memory import Settings

if TYPE_CHECKING:
    from sigma_mem.bench.tables import Result

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The experiments, on recorded streams.")


@app.command()
@takes_center
def cf(
    stream: StreamFile,
    peers: Pool = None,
    ratios: Ratios = "0,0.5,0.7,0.9",
    seed: Seed = 0,
    limit: Limit = None,
    encoder: EncoderName = "static",
    phi: PhiFile = None,
    warm: Warm = None,
    warm_share: WarmShare = 0.0,
    rivals: Rivals = False,
    session: Annotated[
        bool, typer.Option("--session", help="Play the memory event by event instead of by exact replay.")
    ] = False,
    signs: Annotated[
        bool, typer.Option("--signs/--no-signs", help="Whether votes learn from how answers are written.")
    ] = True,
    report: Report = None,
    as_json: Json = False,
    *,
    chosen: CenterChoice,
) -> None:
    """Accuracy and selections of every mechanism under the counterfactual attack."""
    from sigma_mem.bench.experiments.cf import counterfactual_table

    model = opened_encoder(encoder, phi)
    at = numbers_of(ratios, "--ratios")
    with steps_shown() as say:
        data = recorded(stream, peers, seed, limit, model)
        before = None if warm is None else recorded(warm, peers, seed, None, model)
        data, behind = warmed(data, warm_share, before)
        with chosen.opened([data.stream, *([] if behind is None else behind[:1])], seed, say) as center:
            result = counterfactual_table(
                data.stream,
                data.phis,
                at,
                settings=Settings(signs=signs),
                rivals=rivals_of(rivals),
                warm=behind,
                session=session,
                seed=seed,
                center=center,
                say=say,
            )
    answer(result, as_json=as_json, report=report, write=_writer(result, data))


@app.command()
@takes_center
def peers(
    stream: StreamFile,
    pool: Pool = None,
    sizes: Annotated[str | None, typer.Option(help="Sizes of the pool, separated by commas.")] = None,
    ratios: Ratios = "0,0.5,0.7,0.9",
    seed: Seed = 0,
    limit: Limit = None,
    encoder: EncoderName = "static",
    phi: PhiFile = None,
    rivals: Rivals = False,
    report: Report = None,
    as_json: Json = False,
    *,
    chosen: CenterChoice,
) -> None:
    """Pools of 3, 4, 5 … peers with every parameter fixed."""
    from sigma_mem.bench.experiments.peers import peer_table

    model = opened_encoder(encoder, phi)
    with steps_shown() as say:
        data = recorded(stream, pool, seed, limit, model)
        with chosen.opened([data.stream], seed, say) as center:
            result = peer_table(
                data.stream,
                data.phis,
                None if sizes is None else [int(size) for size in numbers_of(sizes, "--sizes")],
                numbers_of(ratios, "--ratios"),
                rivals=rivals_of(rivals),
                seed=seed,
                center=center,
                say=say,
            )
    answer(result, as_json=as_json, report=report, write=_writer(result, data))


@app.command()
@takes_center
def ood(
    learn: Annotated[Path, typer.Argument(help="The stream to learn from.")],
    test: Annotated[Path, typer.Argument(help="The stream to test on; may be the same file.")],
    learn_peers: Annotated[str | None, typer.Option(help="Peers of the first stream.")] = None,
    peers: Pool = None,
    learn_domains: Annotated[str | None, typer.Option(help="Learn from these domains only.")] = None,
    test_domains: Annotated[str | None, typer.Option(help="Test on these domains only.")] = None,
    seed: Seed = 0,
    limit: Limit = None,
    encoder: EncoderName = "static",
    phi: PhiFile = None,
    report: Report = None,
    as_json: Json = False,
    *,
    chosen: CenterChoice,
) -> None:
    """Learn on one stream (its memory where peers are the same, a learned φ with --phi), test on another."""
    from sigma_mem.bench.experiments.ood import transfer_table

    models = {"default φ": opened_encoder(encoder, None)}
    if phi is not None:
        models["learned φ"] = opened_encoder(encoder, phi)
    phis = {}
    with steps_shown() as say:
        for name, model in models.items():
            before = recorded(learn, learn_peers or peers, seed, None, model, names_of(learn_domains))
            data = recorded(test, peers, seed, limit, model, names_of(test_domains))
            phis[name] = (before.phis, data.phis)
        with chosen.opened([data.stream, before.stream], seed, say) as center:
            result = transfer_table(before.stream, data.stream, phis, seed=seed, center=center, say=say)
    answer(result, as_json=as_json, report=report, write=_writer(result, data))


@app.command()
@takes_center
def mechanisms(
    stream: StreamFile,
    peers: Pool = None,
    seed: Seed = 0,
    limit: Limit = None,
    encoder: EncoderName = "static",
    phi: PhiFile = None,
    warm: Warm = None,
    warm_share: WarmShare = 0.0,
    rivals: Rivals = False,
    report: Report = None,
    as_json: Json = False,
    *,
    chosen: CenterChoice,
) -> None:
    """Every mechanism on the clean stream, overall and by domain, with paired intervals."""
    from sigma_mem.bench.experiments.cf import counterfactual_table
    from sigma_mem.bench.experiments.mechanisms import mechanism_table

    model = opened_encoder(encoder, phi)
    with steps_shown() as say:
        data = recorded(stream, peers, seed, limit, model)
        before = None if warm is None else recorded(warm, peers, seed, None, model)
        data, behind = warmed(data, warm_share, before)
        with chosen.opened([data.stream, *([] if behind is None else behind[:1])], seed, say) as center:
            clean = counterfactual_table(
                data.stream,
                data.phis,
                [0.0],
                rivals=rivals_of(rivals),
                warm=behind,
                seed=seed,
                center=center,
                say=say,
            )
        result = mechanism_table(data.stream, clean, None if center is None else center.places(data.stream))
    answer(result, as_json=as_json, report=report, write=_writer(result, data))


@app.command()
@takes_center
def feedback(
    stream: StreamFile,
    peers: Pool = None,
    shares: Annotated[str, typer.Option(help="Shares of labelled events.")] = "0.05,0.1,0.2,0.4,0.6,0.8,1",
    seeds: Annotated[int, typer.Option(min=1, help="How many masks.")] = 3,
    seed: Seed = 0,
    limit: Limit = None,
    encoder: EncoderName = "static",
    phi: PhiFile = None,
    report: Report = None,
    as_json: Json = False,
    *,
    chosen: CenterChoice,
) -> None:
    """Accuracy against the share of events with feedback, over several masks."""
    from sigma_mem.bench.experiments.feedback import feedback_table

    model = opened_encoder(encoder, phi)
    with steps_shown() as say:
        data = recorded(stream, peers, seed, limit, model)
        at, masks = numbers_of(shares, "--shares"), range(seed, seed + seeds)
        with chosen.opened([data.stream], seed, say) as center:
            result = feedback_table(data.stream, data.phis, at, masks, center=center, say=say)
    answer(result, as_json=as_json, report=report, write=_writer(result, data))


@app.command()
def theory(
    stream: StreamFile,
    peers: Pool = None,
    seed: Seed = 0,
    limit: Limit = 1000,
    simulations: Annotated[int, typer.Option(min=2, help="Memories per setting of Theorem 1.")] = 1000,
    encoder: EncoderName = "static",
    phi: PhiFile = None,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Theorem 1's bound against simulated memories, and Weyl's at every event of the stream."""
    from sigma_mem.bench.experiments.theory import theory_table

    model = opened_encoder(encoder, phi)
    with steps_shown() as say:
        data = recorded(stream, peers, seed, limit, model)
        result = theory_table(data.stream, data.phis, simulations=simulations, seed=seed, say=say)
    answer(result, as_json=as_json, report=report, write=_writer(result, data))


@app.command()
def drift(
    stream: StreamFile,
    peers: Pool = None,
    conditions: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
    seed: Seed = 0,
    limit: Limit = 2000,
    encoder: EncoderName = "static",
    phi: PhiFile = None,
    rivals: Rivals = False,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Drift, cold start, a new peer, sparse, late, bandit-only and poisoned feedback, a restart."""
    from sigma_mem.bench.experiments.drift import CONDITIONS, drift_table

    model = opened_encoder(encoder, phi)
    with steps_shown() as say:
        data = recorded(stream, peers, seed, limit, model)
        result = drift_table(
            data.stream,
            data.phis,
            names_of(conditions) or CONDITIONS,
            rivals=rivals_of(rivals),
            seed=seed,
            say=say,
        )
    answer(result, as_json=as_json, report=report, write=_writer(result, data))


@app.command()
def speed(
    rounds: Annotated[int, typer.Option(min=1, help="Repetitions; the best one counts.")] = 5,
    events: Annotated[int, typer.Option(min=1000, help="Longest stream for the cost per event.")] = 1_000_000,
    as_json: Json = False,
) -> None:
    """Time reads, writes, routes and feedback beside ParetoBandit's, replay beside the loop."""
    from sigma_mem.bench.timing import measure, print_timings
    from sigma_mem.cli.output import print_json

    with steps_shown() as say:
        found = measure(rounds=rounds, longest=events, say=say)
    if as_json:
        print_json(found.values())
    else:
        print_timings(found)


def _writer(result: Result, data: Recorded) -> Callable[[Path], list[Path]]:
    from sigma_mem.bench.report import write_report

    return lambda folder: write_report(result, folder, data.stream, data.phis)
