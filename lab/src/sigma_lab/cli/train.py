"""``sigma-mem train``: learn from a recorded stream."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigma_lab.cli.bench_options import CenterPlace
from sigma_lab.cli.steering_options import SteeringOptions, train_center, what_was_read
from sigma_mem.cli.options import Json, check_folder, grouped_options, names_of
from sigma_mem.cli.output import print_json, progress_bar
from sigma_mem.errors import InputError
from sigma_mem.streams import Stream, load_stream

if TYPE_CHECKING:
    from sigma_lab.train.steering import TrainedSteering


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


def _leading(file: Path, peers: str | None, seed: int, share: float) -> Stream:
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
    typer.echo(what_was_read(trained))
    typer.echo(str(out))
