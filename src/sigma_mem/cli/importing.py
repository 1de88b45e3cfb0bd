"""``sigma-mem import``: recordings of other tools as a stream."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sigma_mem.answers.canon import Kind
from sigma_mem.errors import SigmaMemError
from sigma_mem.streams import save_stream
from sigma_mem.streams.formats import FORMATS, Imported, import_stream

__all__ = ["import_"]


def import_(
    files: Annotated[list[Path], typer.Argument(help="Files, or folders of JSON files.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Stream to write: .jsonl, .jsonl.gz or .jsonl.zst.")
    ],
    format: Annotated[str, typer.Option(help=f"auto, {', '.join(FORMATS)}.")] = "auto",
    kind: Annotated[str, typer.Option(help="Answers: auto, number, math, choice, code, text.")] = "auto",
    score: Annotated[str | None, typer.Option(help="The score that says an answer is right.")] = None,
    peer: Annotated[str | None, typer.Option(help="Langfuse: field that names the peer.")] = None,
    event: Annotated[str | None, typer.Option(help="Langfuse: field that names the event.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Turn RouterBench, LLMRouterBench, inspect_ai or Langfuse files into a stream."""
    try:
        checked: Kind = kind  # type: ignore[assignment]  # canon says which kinds there are
        imported = import_stream(files, format=format, kind=checked, score=score, peer=peer, event=event)
        save_stream(imported.stream, output)
    except SigmaMemError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    typer.echo(_as_json(imported, output) if as_json else _as_text(imported, output))


def _as_json(imported: Imported, output: Path) -> str:
    stream = imported.stream
    head = {
        "output": str(output),
        "format": imported.format,
        "peers": list(stream.peers),
        "sha256": stream.sha256,
    }
    return json.dumps({**head, **asdict(imported.report)}, ensure_ascii=False)


def _as_text(imported: Imported, output: Path) -> str:
    report, stream = imported.report, imported.stream
    lines = [
        f"{output}: {report.events} events, {len(stream.peers)} peers ({', '.join(stream.peers)}), "
        f"from {imported.format}",
        f"kept {report.kept} of {report.rows} answers, {report.unlabelled} of them without a label; "
        f"{report.partial} events lack an answer of some peer",
    ]
    return "\n".join(lines + [f"dropped {count}: {reason}" for reason, count in report.dropped.items()])
