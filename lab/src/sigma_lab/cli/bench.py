"""``sigma-mem bench``: the paper's experiments on recorded streams, one command each, and timings.

A command checks its own options, and returns what to do with the experiment once its stream is loaded.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

import typer

from sigma_lab.attack import PARTNERS, Partner
from sigma_lab.cli.bench_options import (
    Ratios,
    Seeds,
    Work,
    experiment_command,
    judged_command,
    numbers_of,
    show_table,
    warm_command,
)
from sigma_mem.cli.options import Json, named_values, names_of
from sigma_mem.cli.output import progress_bar
from sigma_mem.errors import InputError
from sigma_mem.memory import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The paper's experiments, and timings.")


@app.command()
@judged_command()
def cf(
    ratios: Ratios = "0,0.5,0.7,0.9",
    partner: Annotated[
        str, typer.Option(help="The strong peer's partner in the swap: random, weakest, last, or several.")
    ] = "random",
    text_features: Annotated[
        bool,
        typer.Option(
            "--text-features/--no-text-features", help="Whether votes learn from the answers' texts."
        ),
    ] = True,
) -> Work:
    """Accuracy and selections of every mechanism under the counterfactual attack."""
    from sigma_lab.bench.experiments.cf import counterfactual_table

    at, partners = numbers_of(ratios, "--ratios"), cast("list[Partner]", names_of(partner) or [])
    if unknown := [name for name in partners if name not in PARTNERS]:
        raise InputError(f"got --partner {unknown[0]}; expected among {', '.join(PARTNERS)}")
    settings = Settings(text_features=text_features)
    return lambda e: counterfactual_table(
        e.stream, e.phis, at, replace(e.setup, settings=settings), e.center, partners
    )


@app.command()
@judged_command()
def mechanisms() -> Work:
    """Every mechanism on the clean stream, overall and by domain, with paired intervals."""
    from sigma_lab.bench.experiments.cf import mechanism_table

    return lambda e: mechanism_table(e.stream, e.phis, e.setup, e.center)


@app.command()
@judged_command()
def feedback(
    shares: Annotated[str, typer.Option(help="Shares of labelled events.")] = "0,0.005,0.01,0.02,0.05,0.1,1",
    seeds: Seeds = 3,
) -> Work:
    """Accuracy against the share of events with feedback, over several masks."""
    from sigma_lab.bench.experiments.feedback import feedback_table

    at = numbers_of(shares, "--shares")
    return lambda e: feedback_table(e.stream, e.phis, at, e.seeds(seeds), e.setup, e.center)


@app.command()
@experiment_command(limit=1000)
def theory(
    simulations: Annotated[int, typer.Option(min=2, help="Memories per setting of Theorem 1.")] = 1000,
) -> Work:
    """Theorem 1's bound against simulated memories, and Weyl's at every event of the stream."""
    from sigma_lab.bench.experiments.theory import theory_table

    return lambda e: theory_table(e.stream, e.phis, e.setup, simulations=simulations)


@app.command()
@warm_command(limit=2000)
def drift(
    size: Annotated[int, typer.Option(help="Models in the pool; the others stand by to replace them.")] = 3,
    seeds: Seeds = 3,
    conditions: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
) -> Work:
    """Models updated under one name: one, all, gradually, swapped; compared with every single γ."""
    from sigma_lab.bench.experiments.drift import drift_table

    named = names_of(conditions)
    return lambda e: drift_table(e.stream, e.phis, named, e.setup, size=size, seeds=e.seeds(seeds))


@app.command()
@experiment_command(limit=1000)
def poison(
    attacks: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
) -> Work:
    """What lying label sources cost, with a trusted source named and without."""
    from sigma_lab.bench.experiments.poison import poison_table

    return lambda e: poison_table(e.stream, e.phis, names_of(attacks), e.setup)


@app.command()
@experiment_command()
def confidence(
    share: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of labelled events.")] = 1.0,
    min_confidence: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Answer only if this share of the answers is right.")
    ] = 0.9,
) -> Work:
    """Whether the confidence can be believed: calibration error, Brier, AUC, and when to abstain."""
    from sigma_lab.bench.experiments.confidence import confidence_table

    return lambda e: confidence_table(e.stream, e.phis, share, min_confidence, e.setup)


@app.command()
@experiment_command()
def panel(
    change: Annotated[
        str | None,
        typer.Option(
            help="Stop once the chance that the rest would change the answer is at most this; several "
            "separated by commas. Default: 0.03,0.06,0.15,0.25,0.4.",
            show_default=False,
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PEER=AMOUNT",
            help="What a call to a peer costs, for every peer; by default what the stream has, if any.",
            show_default=False,
        ),
    ] = None,
) -> Work:
    """Asking only as many as needed: accuracy against mean calls and costs, compared with asking everyone."""
    from sigma_lab.bench.experiments.panel import CHANGES, panel_table

    given = named_values(price or [], "price")
    prices = {peer: numbers_of(amount, "--price")[0] for peer, amount in given.items()} or None
    limits = CHANGES if change is None else numbers_of(change, "--change")
    return lambda e: panel_table(e.stream, e.phis, limits, e.setup, prices)


@app.command()
@experiment_command(limit=3000)
def judge(
    real: Annotated[
        str | None,
        typer.Option(help="A peer of the stream that judges the others, instead of simulated judges."),
    ] = None,
    aucs: Annotated[str, typer.Option(help="Of simulated judges, within a question.")] = "0.5,0.6,0.7,0.8",
    shares: Annotated[str, typer.Option(help="Shares of labelled events, with --real.")] = "1,0.05,0.01",
    ratios: Annotated[
        str | None, typer.Option(help="Attack ratios; 0 and 0.5 by default, with --real also 0.9.")
    ] = None,
    seeds: Seeds = 3,
) -> Work:
    """What judges' verdicts are worth as evidence: simulated ones, or a model kept out of the pool."""
    from sigma_lab.bench.experiments.judge import judge_table, real_judge_table

    at = numbers_of(ratios or ("0,0.5" if real is None else "0,0.5,0.9"), "--ratios")
    quality, labelled = numbers_of(aucs, "--aucs"), numbers_of(shares, "--shares")
    if real is None:
        return lambda e: judge_table(e.stream, e.phis, e.setup, seeds=e.seeds(seeds), aucs=quality, ratios=at)
    return lambda e: real_judge_table(e.stream, e.phis, real, e.setup, shares=labelled, ratios=at)


@app.command()
@experiment_command()
def regimes(seeds: Seeds = 3) -> Work:
    """Labels as users have them: all, few, of the served peer only, until a pause, in bursts."""
    from sigma_lab.bench.experiments.regimes import regimes_table

    return lambda e: regimes_table(e.stream, e.phis, e.setup, e.seeds(seeds), shuffled=e.shuffled)


@app.command()
@experiment_command()
def topics(
    seeds: Seeds = 5,
    pools: Annotated[
        str | None, typer.Option(help="Instead of orders: pools of these sizes, separated by commas.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Pools of each size.")] = 10,
    ratios: Ratios = "0,0.9",
    adaptive: Annotated[bool, typer.Option("--adaptive", help="Also the adaptive read; slower.")] = False,
) -> Work:
    """What each event's domain gains as its topic, and what false topics cost."""
    from sigma_lab.bench.experiments.topics import drawn_pools, ordered, topics_table

    at = numbers_of(ratios, "--ratios")
    sizes = None if pools is None else [int(size) for size in numbers_of(pools, "--pools")]
    return lambda e: topics_table(
        e.stream,
        e.phis,
        ordered(e.stream, e.seeds(seeds)) if sizes is None else drawn_pools(e.stream, sizes, draws),
        at,
        e.setup,
        adaptive=adaptive,
    )


@app.command()
@experiment_command()
def costs(
    budgets: Annotated[
        str | None,
        typer.Option(
            help="What to spend per event, separated by commas. Default: eight, from the cheapest peer's "
            "mean cost to the dearest's.",
            show_default=False,
        ),
    ] = None,
    orders: Annotated[
        str, typer.Option(help="Orders of the stream, as seeds, separated by commas.")
    ] = "0,1,2",
    rival: Annotated[
        bool, typer.Option("--rival/--no-rival", help="Whether to play ParetoBandit (extra rivals) as well.")
    ] = True,
) -> Work:
    """Accuracy against spending, compared with ParetoBandit and the best fixed peer one can afford."""
    from sigma_lab.bench.experiments.costs import costs_table

    at = None if budgets is None else numbers_of(budgets, "--budgets")
    seeds = [int(seed) for seed in numbers_of(orders, "--orders")]
    return lambda e: costs_table(e.stream, e.phis, at, seeds, rival, e.setup)


@app.command()
@experiment_command()
def offpolicy(
    replays: Annotated[int, typer.Option(min=2, help="Orders of the stream.")] = 100,
    length: Annotated[int, typer.Option(min=50, help="Events of each order.")] = 300,
    observed: Annotated[int, typer.Option(min=0, help="Orders to observe, report on, then switch on.")] = 3,
) -> Work:
    """Whether off-policy estimates and the report can be believed, if every label is known."""
    from sigma_lab.bench.experiments.offpolicy import offpolicy_table

    return lambda e: offpolicy_table(e.stream, e.phis, replays, min(length, len(e.stream)), observed, e.setup)


@app.command()
@experiment_command()
def conversations(
    values: Annotated[
        str, typer.Option(help="What a right answer is worth, in the unit of the stream's costs.")
    ] = "0,0.01,0.1",
    seeds: Seeds = 3,
) -> Work:
    """What it saves to keep a conversation on its peer, on runs of related questions."""
    from sigma_lab.bench.experiments.conversations import conversations_table

    worth = numbers_of(values, "--values")
    return lambda e: conversations_table(e.stream, e.phis, worth, e.seeds(seeds), e.setup)


# --- what plays no stream ---


@app.command()
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


@app.command()
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


@app.command()
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
