"""``sigma-mem train``: learn a steering from a recorded stream, which ``sigma-mem paper`` does as well."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sigma_lab.cli.bench_options import CenterPlace
from sigma_mem.cli.options import Json, check_folder, grouped_options, names_of
from sigma_mem.cli.output import print_json, progress_bar
from sigma_mem.errors import InputError

if TYPE_CHECKING:
    from sigma_lab.train import TrainedSteering
    from sigma_mem.center.prompt import JudgePrompt
    from sigma_mem.streams import Stream


@dataclass(frozen=True, slots=True)
class SteeringOptions:
    """How φ is made and P and g are learned: each field is an option."""

    events: Annotated[
        int | None, typer.Option(min=1, help="How many events the language model reads at most.")
    ] = None
    steps: Annotated[int, typer.Option(help="At most this many steps of stage 2.")] = 100
    margin_steps: Annotated[int, typer.Option(help="At most this many steps of stage 3.")] = 20
    rows: Annotated[int, typer.Option(help="Prompts per step.")] = 12
    gamma: Annotated[float, typer.Option(help="Decay γ of the memory.")] = 0.9995
    cap: Annotated[
        float, typer.Option(help="Longest shift δ, as a share of the center's median hidden norm.")
    ] = 0.03
    rank: Annotated[
        int | None,
        typer.Option(min=2, help="Of φ, the constant included; one more than the domains by default."),
    ] = None
    block: Annotated[
        int | None, typer.Option(min=0, help="Block whose input makes φ; a quarter of the way up by default.")
    ] = None
    pooling: Annotated[
        Literal["mean", "last", "max"], typer.Option(help="From a question's tokens to one vector.")
    ] = "mean"
    phi_tokens: Annotated[int, typer.Option(min=4, help="Of a question that φ reads.")] = 80
    question_tokens: Annotated[int, typer.Option(help="Longer questions are cut in the middle.")] = 512
    answer_tokens: Annotated[int, typer.Option(help="Longer answers are cut in the middle.")] = 256
    prompt: Annotated[
        Literal["anonymous", "named"],
        typer.Option(help="Whether the judge sees which peer answered."),
    ] = "anonymous"
    threads: Annotated[
        int, typer.Option(min=1, help="Of torch; only with one are equal seeds equal bit for bit.")
    ] = 1

    def judge_prompt(self) -> "JudgePrompt":
        """The judging prompt."""
        from sigma_mem.center.prompt import JudgePrompt

        return JudgePrompt(
            question_tokens=self.question_tokens,
            answer_tokens=self.answer_tokens,
            names_peer=self.prompt == "named",
        )


def train_center(
    stream: "Stream",
    out: Path,
    options: SteeringOptions,
    *,
    center: str,
    encoder: str = "center",
    seed: int = 0,
    cache: Path | None = None,
    cache_gb: float = 8.0,
    show: Callable[[str, int, int], None],
    **where: Any,
) -> "TrainedSteering":
    """Learn a steering of a center and write its checkpoint; a killed run continues where it stood.

    ``where`` is dtype, device and device_map.
    """
    from sigma_lab.train import SteeringSettings, train_steering
    from sigma_mem.center import Center
    from sigma_mem.center.load import cache_dir, torch_threads
    from sigma_mem.center.phi import cached_features
    from sigma_mem.center.state_cache import open_cache
    from sigma_mem.center.trained import open_features

    settings = SteeringSettings(
        seed=seed, judged=options.events, gamma=options.gamma, cap=options.cap, threads=options.threads
    )
    run = replace(settings.run, steps=options.steps, margin_steps=options.margin_steps, rows=options.rows)
    settings = replace(settings, run=run, phi=replace(settings.phi, rank=options.rank))
    folder = cache or cache_dir() / "states"
    with torch_threads(options.threads):
        model = Center.load(
            center, prompt=options.judge_prompt(), cache=open_cache(folder, cache_gb), **where
        )
        source = open_features(
            encoder, model, tokens=options.phi_tokens, block=options.block, pooling=options.pooling
        )
        questions = [event.question for event in stream]
        unfinished = out.with_name(f"{out.name}.run")
        trained = train_steering(
            stream,
            cached_features(source, questions, folder, progress=lambda n, of: show("features", n, of)),
            model,
            encoder=source.name,
            settings=settings,
            run_file=unfinished,
            report=show,
        )
    trained.steering.save(out)
    unfinished.unlink(missing_ok=True)
    return trained


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Learn a steering from a recorded stream.",
)


@app.callback()
def train() -> None:
    """Keep ``steering`` a command of its own, though it is the only one."""


@app.command()
@grouped_options
def steering(
    stream: Annotated[Path, typer.Argument(help="JSON-lines stream, plain, .gz or .zst.")],
    out: Annotated[Path, typer.Option(help="Checkpoint to write.")] = Path("steering.safetensors"),
    center: Annotated[str, typer.Option(help="smollm2, a folder, or a hub name.")] = "smollm2",
    encoder: Annotated[str, typer.Option(help="center (its hidden states), static or hashed.")] = "center",
    peers: Annotated[str | None, typer.Option(help="Comma-separated; all of the stream by default.")] = None,
    share: Annotated[float, typer.Option(help="Leading share of the shuffled stream to learn from.")] = 0.5,
    cache: Annotated[Path | None, typer.Option(help="Folder for states and features.")] = None,
    seed: Annotated[int, typer.Option(help="Of the order, the draws and the start.")] = 0,
    as_json: Json = False,
    *,
    options: SteeringOptions,
    place: CenterPlace,
) -> None:
    """Learn W, P and g of the steering through a frozen center. A killed run continues where it stood."""
    check_folder("--out", out)
    part = _leading(stream, peers, seed, share)
    with progress_bar() as show:
        trained = train_center(
            part,
            out,
            options,
            center=center,
            encoder=encoder,
            seed=seed,
            cache=cache,
            show=show,
            **place.where,
        )
    _finish(trained, out, as_json)


def _leading(file: Path, peers: str | None, seed: int, share: float) -> "Stream":
    from sigma_mem.streams import load_stream

    if not 0.0 < share <= 1.0:
        raise InputError(f"share is {share}; expected a number in (0, 1], such as 0.5 for the first half")
    whole = load_stream(file, peers=names_of(peers), seed=seed)
    return whole.select(limit=int(share * len(whole)))


def _finish(trained: "TrainedSteering", out: Path, as_json: bool) -> None:
    """Report how it went."""
    first, saved, gain = trained.checks[0], trained.saved, float(trained.steering.gain)
    if as_json:
        values = {
            "checkpoint": str(out),
            "model": trained.steering.info.model,
            "gain": gain,
            "events": dict(trained.events),
            "base": asdict(first),
            "best": asdict(saved),
            "worse_than_base": trained.is_worse_than_base,
            "phi": [list(row) for row in trained.phi_history],
            "checks": [asdict(check) for check in trained.checks],
        }
        print_json(values)
        return
    typer.echo(
        f"held-out listwise loss {first.held_loss:.4f} → {saved.held_loss:.4f}, "
        f"accuracy on contested events {first.held_accuracy:.1%} → {saved.held_accuracy:.1%}, g = {gain:.4f}"
    )
    if trained.is_worse_than_base:
        typer.echo(
            "warning: on held-out events this steering is worse than the base judge; train on more events "
            "(--events), or judge without it",
            err=True,
        )
    typer.echo(_what_was_read(trained))
    typer.echo(str(out))


def _what_was_read(trained: "TrainedSteering") -> str:
    """One sentence: which of the events the language model saw."""
    n = trained.events
    return (
        f"{n['stream']:,} events, all written to the memory; {n['held_out']:,} held out; "
        f"the language model read {n['read']:,} of the {n['to_read']:,} that it may"
    )
