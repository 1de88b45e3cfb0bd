"""Import files of another tool as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sigma_mem.answers.canon import Kind
from sigma_mem.errors import InputError, StreamError
from sigma_mem.streams.formats import inspect_log, langfuse, llmrouterbench, routerbench
from sigma_mem.streams.formats.gather import Dropped, Report, Row, gather
from sigma_mem.streams.formats.table import parse, records
from sigma_mem.streams.stream import Stream

__all__ = ["FORMATS", "Imported", "import_stream"]

FORMATS = ("routerbench", "llmrouterbench", "inspect", "langfuse")


@dataclass(frozen=True, slots=True)
class Imported:
    """The stream that was made, the format of its files, and what was kept and dropped."""

    stream: Stream
    format: str
    report: Report


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    value: Any
    format: str


def import_stream(
    paths: Sequence[str | PathLike[str]],
    *,
    format: str = "auto",
    kind: Kind = "auto",
    score: str | None = None,
    peer: str | None = None,
    event: str | None = None,
    name: str | None = None,
) -> Imported:
    """Turn one or more files of one format into a stream.

    Parameters
    ----------
    paths : sequence of paths
        Files, or folders whose ``.json`` files are all read. inspect_ai and LLMRouterBench write
        one file per model: give them all. Langfuse's scores may be a file of their own.
    format : str
        One of :data:`FORMATS`, or ``"auto"`` to look at the files.
    kind : str
        How answers are read, as in :func:`~sigma_mem.answers.canon.canon`.
    score : str, optional
        Which score says that an answer is right, where there are several (inspect, Langfuse).
    peer, event : str, optional
        Langfuse: the field that names the peer (``metadata.agent``), and the one that says which
        traces belong to the same event; by default the model, and the same input.
    name : str, optional
        Of the stream; by default that of the first path.

    Raises
    ------
    StreamError
        For an unknown format, files of several formats, or files that hold no usable answer.
    """
    if format not in ("auto", *FORMATS):
        raise InputError(f"the format is {format!r}; expected auto or one of {', '.join(FORMATS)}")
    files = [_File(path, value := parse(path), _detected(path, value, format)) for path in _found(paths)]
    names = {file.format for file in files}
    if len(names) > 1:
        raise StreamError(
            f"the files are of several formats ({', '.join(sorted(names))}); import each by itself"
        )
    (found,) = names
    peers, events, report = gather(_rows(files, found, score, peer, event), kind)
    if not events:
        why = "; ".join(f"{count} dropped: {reason}" for reason, count in report.dropped.items())
        raise StreamError(f"{files[0].path}: holds no usable answer ({why or 'no rows'})")
    plain = Path(fspath(paths[0])).name.split(".")[0]
    return Imported(Stream(name if name is not None else plain, peers, events), found, report)


def _found(paths: Sequence[str | PathLike[str]]) -> list[Path]:
    files: list[Path] = []
    for path in (Path(fspath(p)) for p in paths):
        files += sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files:
        raise StreamError(
            f"no file to import in {', '.join(map(str, paths)) or 'no paths'}; name files or a folder"
        )
    return files


def _detected(path: Path, value: Any, asked: str) -> str:
    table = records(value)
    holds = {
        "inspect": inspect_log.holds(value),
        "llmrouterbench": llmrouterbench.holds(value),
        "routerbench": table is not None and routerbench.holds(table),
        "langfuse": bool(_traces(value) or (table is not None and langfuse.is_scores(table))),
    }
    if asked != "auto" and not holds[asked]:
        raise StreamError(f"{path}: does not look like {asked}{_looks(holds)}; check the file or --format")
    for format, fits in holds.items():
        if fits and asked in ("auto", format):
            return format
    raise StreamError(
        f"{path}: is of no known format; expected one of {', '.join(FORMATS)} (see docs/streams.md)"
    )


def _looks(holds: dict[str, bool]) -> str:
    likely = [format for format, fits in holds.items() if fits]
    return f" but like {likely[0]}" if likely else ""


def _traces(value: Any) -> list[dict[str, Any]]:
    """Langfuse's traces: a table of them, a single one, or one trace's download."""
    if isinstance(value, dict) and isinstance(value.get("trace"), dict):
        return [value] if langfuse.holds([value["trace"]]) else []
    table = records(value) or ([value] if isinstance(value, dict) else [])
    return table if table and langfuse.holds(table) else []


def _rows(
    files: list[_File], format: str, score: str | None, peer: str | None, event: str | None
) -> Iterator[Row | Dropped]:
    if format == "langfuse":
        traces = [trace for file in files for trace in _traces(file.value)]
        scores = [s for file in files if not _traces(file.value) for s in records(file.value) or []]
        yield from langfuse.rows(files[0].path, traces, scores, score=score, peer=peer, event=event)
        return
    for file in files:
        if format == "routerbench":
            yield from routerbench.rows(file.path, records(file.value) or [])
        elif format == "llmrouterbench":
            yield from llmrouterbench.rows(file.path, file.value)
        else:
            yield from inspect_log.rows(file.path, file.value, score)
