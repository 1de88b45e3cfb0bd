"""``sigma-mem train``: learn from a recorded stream."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigma_lab.cli.steering_options import SteeringOptions, train_center, what_was_read
from sigma_mem.cli.options import Json, check_folder, grouped_options, names_of
from sigma_mem.cli.output import print_json, progress_bar
from sigma_mem.errors import InputError, MissingExtraError
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream, load_stream

if TYPE_CHECKING:
    from sigma_lab.train.steering import TrainedSteering


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Learn φ or a steering from a recorded stream.",
)


@app.command()
def phi(
    stream: Annotated[Path, typer.Argument(help="JSON-lines stream, plain, .gz or .zst.")],
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("phi.safetensors"),
    encoder: Annotated[str, typer.Option(help="The frozen encoder underneath.")] = "static",
    peers: Annotated[str | None, typer.Option(help="Comma-separated; all of the stream by default.")] = None,
    test_peers: Annotated[
        str | None, typer.Option(help="Peers to test with, such as ones not learned from.")
    ] = None,
    share: Annotated[float, typer.Option(help="Leading share of the shuffled stream to learn from.")] = 0.5,
    steps: Annotated[int, typer.Option(min=1, help="Gradient steps.")] = 150,
    seed: Annotated[int, typer.Option(help="Of the order, the draws and the start.")] = 0,
    as_json: Json = False,
) -> None:
    """Learn φ from the leading share of a stream; test it on the rest, beside the encoder as it is."""
    from sigma_lab.train.phi import PhiSettings, save_phi, train_phi
    from sigma_mem.encode import open_encoder

    check_folder("--out", out)
    learn = _leading(stream, peers, seed, share)
    whole = load_stream(stream, peers=names_of(test_peers or peers), seed=seed)
    base = open_encoder(encoder)
    with progress_bar() as show:
        learned = train_phi(learn, base, PhiSettings(steps=steps, seed=seed), show)
    save_phi(learned, out)
    summary: dict[str, Any] = {"file": str(out), **learned.about}
    if len(whole) > len(learn):
        # Both φ are tested in a memory that went through the whole stream, on the events not learned from.
        questions, skip = [event.question for event in whole], len(learn)
        before = _route_accuracies(base.encode(questions), whole, skip)
        after = _route_accuracies(learned.encoder.encode(questions), whole, skip)
        summary["test_events"] = len(whole) - skip
        summary["test_peers"] = list(whole.peers)
        summary["test"] = {name: {"default": before[name], "learned": after[name]} for name in before}
    if as_json:
        print_json(summary)
        return
    for name, row in summary.get("test", {}).items():
        typer.echo(f"{name:<18}{row['default']:.2%} → {row['learned']:.2%}")
    typer.echo(str(out))


@app.command()
@grouped_options
def steering(
    stream: Annotated[Path, typer.Argument(help="JSON-lines stream, plain, .gz or .zst.")],
    out: Annotated[Path, typer.Option(help="Checkpoint to write.")] = Path("steering.safetensors"),
    center: Annotated[str, typer.Option(help="smollm2, a folder, or a hub name.")] = "smollm2",
    encoder: Annotated[str, typer.Option(help="center (its hidden states), static or hashed.")] = "center",
    peers: Annotated[str | None, typer.Option(help="Comma-separated; all of the stream by default.")] = None,
    share: Annotated[float, typer.Option(help="Leading share of the shuffled stream to learn from.")] = 0.5,
    dtype: Annotated[str, typer.Option(help="auto, float32, float16 or bfloat16.")] = "auto",
    device: Annotated[str | None, typer.Option(help="Such as cpu or cuda:0.")] = None,
    device_map: Annotated[str | None, typer.Option(help="auto spreads a model over several GPUs.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder for states and features.")] = None,
    seed: Annotated[int, typer.Option(help="Of the order, the draws and the start.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Picture of the curve; beside OUT by default.")] = None,
    as_json: Json = False,
    *,
    options: SteeringOptions,
) -> None:
    """Learn W, P and g of the steering through a frozen center. A killed run continues where it stood."""
    check_folder("--out", out)
    part = _leading(stream, peers, seed, share)
    where: dict[str, Any] = {"dtype": dtype, "device": device, "device_map": device_map}
    with progress_bar() as show:
        trained = train_center(
            part, out, options, center=center, encoder=encoder, seed=seed, cache=cache, show=show, **where
        )
    _finish(trained, out, plot, as_json)


def _leading(file: Path, peers: str | None, seed: int, share: float) -> Stream:
    if not 0.0 < share <= 1.0:
        raise InputError(f"share is {share}; expected a number in (0, 1], such as 0.5 for the first half")
    whole = load_stream(file, peers=names_of(peers), seed=seed)
    return whole.select(limit=int(share * len(whole)))


def _route_accuracies(phis: FloatArray, stream: Stream, skip: int) -> dict[str, float]:
    """Accuracy behind the first ``skip`` events, in a memory that went through all of them."""
    from sigma_lab.bench.league import memory_choices, oracle_rows, rows_of

    tested = replace(stream, events=stream.events[skip:])
    choices = memory_choices(stream, phis)
    routes = {name: choices[name][skip:] for name in ("m-route", "calibrated-route")}
    rows = {**rows_of(tested, routes), "domain-oracle": oracle_rows(tested)["domain-oracle"]}
    return {name: row.accuracy for name, row in rows.items()}


def _finish(trained: "TrainedSteering", out: Path, plot: Path | None, as_json: bool) -> None:
    """Draw the picture, and say how it went."""
    from sigma_lab.train.steering.train import plot_checks

    picture = [plot or out.with_suffix(".png")]
    try:
        plot_checks(trained.checks, picture[0])
    except MissingExtraError:
        if plot is not None:
            raise
        picture = []  # nobody asked for it
    first, saved, gain = trained.checks[0], trained.saved, float(trained.steering.gain)
    if as_json:
        values = {
            "checkpoint": str(out),
            "picture": str(picture[0]) if picture else None,
            "model": trained.steering.info.model,
            "gain": gain,
            "events": dict(trained.events),
            "base": asdict(first),
            "best": asdict(saved),
            "phi": [list(row) for row in trained.phi_history],
            "checks": [asdict(check) for check in trained.checks],
        }
        print_json(values)
        return
    typer.echo(
        f"held-out listwise loss {first.held_loss:.4f} → {saved.held_loss:.4f}, "
        f"accuracy on contested events {first.held_accuracy:.1%} → {saved.held_accuracy:.1%}, g = {gain:.4f}"
    )
    typer.echo(what_was_read(trained))
    for file in (out, *picture):
        typer.echo(str(file))
