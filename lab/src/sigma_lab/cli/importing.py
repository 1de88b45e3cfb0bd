"""``sigma-mem import``: recordings of other tools as a stream."""

from pathlib import Path
from typing import Annotated

import typer

from sigma_lab.formats import FORMATS
from sigma_mem.answers.canon import KINDS, Kind
from sigma_mem.cli.options import Json
from sigma_mem.cli.output import print_json

app = typer.Typer(add_completion=False)


@app.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(help="Files, or folders of JSON files.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Stream to write: .jsonl, .jsonl.gz or .jsonl.zst.")
    ],
    format: Annotated[str, typer.Option(help=f"auto, {', '.join(FORMATS)}.")] = "auto",
    kind: Annotated[str, typer.Option(help=f"How answers are read: {', '.join(KINDS)}.")] = "auto",
    as_json: Json = False,
) -> None:
    """Turn RouterBench or LLMRouterBench files into a stream."""
    from sigma_lab.formats import import_stream
    from sigma_mem.streams import save_stream

    checked: Kind = kind  # type: ignore[assignment]  # canon checks it
    stream, dropped = import_stream(files, format=format, kind=checked)
    save_stream(stream, output)
    kept = sum(len(event.answers) for event in stream)
    values = {
        "rows": kept + sum(dropped.values()),
        "kept": kept,
        "unlabelled": kept - sum(len(event.correct) for event in stream),
        "events": len(stream),
        "partial": sum(len(event.answers) < len(stream.peers) for event in stream),
    }
    if as_json:
        about = {"output": str(output), "peers": list(stream.peers), "sha256": stream.sha256}
        print_json({**about, **values, "dropped": dict(dropped)})
        return
    typer.echo(
        f"{output}: {len(stream)} events, {len(stream.peers)} peers ({', '.join(stream.peers)})\n"
        f"kept {kept} of {values['rows']} answers, {values['unlabelled']} of them without a label; "
        f"{values['partial']} events lack an answer of some peer"
    )
    for reason, count in dropped.items():
        typer.echo(f"dropped {count}: {reason}")
