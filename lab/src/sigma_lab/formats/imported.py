"""Import files of another tool as a stream: parse them, find the format, gather answers into events."""

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sigma_lab.formats import llmrouterbench, routerbench
from sigma_mem.answers.canon import Kind
from sigma_mem.errors import InputError, StreamError
from sigma_mem.streams.stream import Stream
from sigma_mem.streams.tables import Imported, gather_events, parse

FORMATS = {"routerbench": routerbench, "llmrouterbench": llmrouterbench}
"""Every module has ``matches(value)`` for a parsed file, and ``rows(files)`` for all of them."""


def import_stream(
    paths: Sequence[str | PathLike[str]],
    *,
    format: str = "auto",
    kind: Kind = "auto",
    name: str | None = None,
) -> Imported:
    """Turn one or more files of one format into a stream.

    A folder among ``paths`` stands for all its ``.json`` files; LLMRouterBench writes one file per model, so
    give them all. ``kind`` is how answers are read, as in `canon`. The stream's name is that of the first
    path.
    """
    if format not in ("auto", *FORMATS):
        raise InputError(f"got format {format!r}; expected auto or one of {', '.join(FORMATS)}")
    files = [(path, parse(path)) for path in _found(paths)]
    names = {_detect(path, value, format) for path, value in files}
    if len(names) > 1:
        raise StreamError(f"got files of several formats ({', '.join(sorted(names))}); import each by itself")
    (found,) = names
    peers, events, report = gather_events(FORMATS[found].rows(files), kind)
    if not events:
        why = "; ".join(f"{count} dropped: {reason}" for reason, count in report.dropped.items())
        raise StreamError(f"{files[0][0]}: holds no usable answer ({why or 'no rows'})")
    plain = Path(fspath(paths[0])).name.split(".")[0]
    return Imported(Stream(name if name is not None else plain, peers, events), found, report)


def _found(paths: Sequence[str | PathLike[str]]) -> list[Path]:
    files: list[Path] = []
    for path in (Path(fspath(p)) for p in paths):
        files += sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files:
        raise StreamError(f"got no file to import in {', '.join(map(str, paths)) or 'no paths'}; name files")
    return files


def _detect(path: Path, value: Any, asked: str) -> str:
    likely = [name for name, module in FORMATS.items() if module.matches(value)]
    if asked in likely:
        return asked
    if asked != "auto":
        looks = f" but like {likely[0]}" if likely else ""
        raise StreamError(f"{path}: does not look like {asked}{looks}; check the file or --format")
    if not likely:
        known = ", ".join(FORMATS)
        raise StreamError(f"{path}: is of no known format; expected one of {known} (see docs/lab/streams.md)")
    return likely[0]
