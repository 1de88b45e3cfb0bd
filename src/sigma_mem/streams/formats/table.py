"""Read a foreign file into plain values: CSV, JSON, JSON lines, Parquet. Never pickle."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

from sigma_mem.errors import MissingExtraError, StreamError
from sigma_mem.streams.load import opened

__all__ = ["parse", "records"]

_PICKLES = (".pkl", ".pickle", ".p", ".joblib", ".npy", ".pt")


def parse(file: Path) -> Any:
    """Return what a file holds: a JSON value, or a list of records.

    Raises
    ------
    StreamError
        For a file that cannot be read, an unknown ending, or a pickle: opening one can run code.
    """
    ending = Path(file.name.removesuffix(".gz").removesuffix(".zst")).suffix.lower()
    if ending in _PICKLES:
        raise StreamError(
            f"{file}: is a pickle, which can run code when it is opened; "
            "write it as CSV or JSON lines where you trust it (pandas: to_csv, to_json) and import that"
        )
    if ending == ".eval":
        raise StreamError(
            f"{file}: is a packed log; run: inspect log convert --to json --output-dir DIR {file}"
        )
    if ending == ".parquet":
        return _parquet(file)
    text = _text(file)
    if ending == ".csv":
        return _csv(file, text)
    if ending in (".jsonl", ".ndjson"):
        return [_json(file, line, number) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if ending == ".json":
        return _json(file, text)
    raise StreamError(
        f"{file}: has the ending {ending!r}; expected .csv, .json, .jsonl, .parquet (or these with .gz)"
    )


def records(value: Any) -> list[dict[str, Any]] | None:
    """Return the records of a parsed table: a list of objects, also under ``data``; else None."""
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        value = value["data"]
    if isinstance(value, list) and value and all(isinstance(record, dict) for record in value):
        return value
    return None


def _text(file: Path) -> str:
    try:
        with opened(file) as lines:
            return lines.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StreamError(f"{file}: byte {error.start} is not UTF-8; write the file as UTF-8") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise StreamError(f"{file}: damaged or cut off ({error}); fetch it again") from error
    except OSError as error:
        raise StreamError(f"{file}: cannot be read ({error.strerror or error}); check the path") from error


def _json(file: Path, text: str, line: int | None = None) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise StreamError(f"{file}, line {line or error.lineno}: not JSON ({error.msg})") from error
    except RecursionError as error:
        raise StreamError(f"{file}: JSON is nested too deeply") from error


def _csv(file: Path, text: str) -> list[dict[str, Any]]:
    before = csv.field_size_limit(sys.maxsize)  # a response may be longer than the 128 KiB allowed otherwise
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        return [_whole(file, reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise StreamError(f"{file}, line {reader.line_num}: not CSV ({error})") from error
    finally:
        csv.field_size_limit(before)


def _whole(file: Path, line: int, row: dict[str | None, Any]) -> dict[str, Any]:
    if None in row or None in row.values():
        raise StreamError(f"{file}, line {line}: has not as many fields as the header; repair the row")
    return {str(name): value for name, value in row.items()}


def _parquet(file: Path) -> list[dict[str, Any]]:
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError(
            f"{file}: Parquet needs the package pyarrow; run: pip install pyarrow, or import CSV or JSON"
        ) from error
    try:
        rows: list[dict[str, Any]] = parquet.read_table(file).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise StreamError(f"{file}: is not Parquet ({error})") from error
    return rows
