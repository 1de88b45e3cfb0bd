"""``sigma-mem import``: recordings of other tools as a stream."""

from dataclasses import asdict
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
    imported = import_stream(files, format=format, kind=checked)
    save_stream(imported.stream, output)
    stream, report = imported.stream, imported.report
    if as_json:
        values = {"output": str(output), "format": imported.format, "peers": list(stream.peers)}
        print_json({**values, "sha256": stream.sha256, **asdict(report)})
        return
    typer.echo(
        f"{output}: {report.events} events, {len(stream.peers)} peers ({', '.join(stream.peers)}), "
        f"from {imported.format}\n"
        f"kept {report.kept} of {report.rows} answers, {report.unlabelled} of them without a label; "
        f"{report.partial} events lack an answer of some peer"
    )
    for reason, count in report.dropped.items():
        typer.echo(f"dropped {count}: {reason}")
