"""Files parsed into plain values, and the rows that are made of them: one answer of one peer each.

What cannot be used is a string, the reason, in place of a `Row`. CSV, JSON, JSON lines and
Parquet are read. Pickles never are: opening one can run code.
"""

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigma_mem.errors import StreamError
from sigma_mem.extras import require
from sigma_mem.streams.jsonl import file_error, most_unpacked, read_file, too_large

_ROWS_AT_ONCE = 64
_PICKLES = (".pkl", ".pickle", ".p", ".joblib", ".npy", ".pt")


@dataclass(frozen=True, slots=True)
class Row:
    """One answer of one peer, as some file holds it.

    ``key`` says which rows belong to the same event; ``label`` is c ∈ [−1, 1] or None. An
    ``answer`` that the file's own scorer read from the text is what the canon is made of. ``cost`` is what
    the call cost, ``latency`` the seconds it took.
    """

    key: str
    peer: str
    question: str
    text: str
    label: float | None
    dataset: str = ""
    domain: str = ""
    reference: str | None = None
    answer: str | None = None
    cost: float | None = None
    latency: float | None = None


def number(value: Any) -> float | None:
    """The number that a value is or spells, if any."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def label_of_score(score: Any) -> float | None:
    """Turn a score in [0, 1] into c = 2·score − 1; None for anything else, NaN included."""
    value = number(score)
    return 2.0 * value - 1.0 if value is not None and 0.0 <= value <= 1.0 else None


def ending_of(file: Path) -> str:
    """What says how a file is written, whether it is compressed or not.

    >>> ending_of(Path("log.CSV.gz"))
    '.csv'
    """
    return Path(file.name.removesuffix(".gz").removesuffix(".zst")).suffix.lower()


def parse(file: Path) -> Any:
    """Return what a file holds: a JSON value, or a list of records."""
    ending = ending_of(file)
    if ending in _PICKLES:
        raise StreamError(
            f"{file}: got a pickle, which can run code when it is opened; expected CSV or JSON lines: "
            "convert it where you trust it (pandas: to_csv, to_json)"
        )
    if ending == ".eval":
        remedy = f"inspect log convert --to json --output-dir DIR {file}"
        raise StreamError(f"{file}: got a packed log; run: {remedy}")
    if ending == ".parquet":
        return _parquet(file)
    text = _text(file)
    if ending == ".csv":
        return _csv(file, text)
    if ending in (".jsonl", ".ndjson"):
        return [_json(file, line, number) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if ending == ".json":
        return _json(file, text)
    known = ".csv, .json, .jsonl or .parquet (or with .gz, .zst)"
    raise StreamError(f"{file}: got the ending {ending!r}; expected {known}")


def _text(file: Path) -> str:
    try:
        return read_file(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StreamError(f"{file}: byte {error.start} is not UTF-8; write the file as UTF-8") from error


def _json(file: Path, text: str, line: int | None = None) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        number = line or error.lineno
        raise StreamError(f"{file}, line {number}: not JSON ({error.msg}); repair it") from error
    except RecursionError as error:
        raise StreamError(f"{file}: JSON is nested too deeply; expected records") from error


def _csv(file: Path, text: str) -> list[dict[str, Any]]:
    before = csv.field_size_limit(sys.maxsize)  # a response may exceed the default of 128 KiB
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    rows = []
    try:
        _refuse_repeated(file, [name for name in reader.fieldnames or () if name])
        for row in reader:
            if None in row or None in row.values():
                raise csv.Error("it has not as many fields as the header")
            rows.append(row)
        return rows
    except csv.Error as error:
        raise StreamError(f"{file}, line {reader.line_num}: not CSV ({error}); repair it") from error
    finally:
        csv.field_size_limit(before)


def _refuse_repeated(file: Path, names: Sequence[str]) -> None:
    """Raise where two columns have one name, since either may be meant."""
    for name, times in Counter(names).items():
        if times > 1:
            raise StreamError(f"{file}: has {times} columns {name!r}; expected one: rename the others")


def _parquet(file: Path) -> list[dict[str, Any]]:
    parquet = require("pyarrow.parquet", extra="parquet", purpose="reading a Parquet file")
    rows: list[dict[str, Any]] = []
    try:
        size, packed = 0, file.stat().st_size
        with parquet.ParquetFile(file) as table:
            _refuse_repeated(file, table.schema_arrow.names)
            # A few rows at a time: a page may say of one long text that it stands in millions of rows.
            for batch in table.iter_batches(_ROWS_AT_ONCE):
                found = batch.to_pylist()
                texts = sum(len(value) for row in found for value in row.values() if isinstance(value, str))
                size += max(texts, batch.nbytes)
                if size > most_unpacked(packed):
                    raise too_large(file, packed, most_unpacked(packed))
                rows += found
    except StreamError:
        raise
    except OSError as error:
        raise file_error(file, "read", error) from error
    except ValueError as error:  # pyarrow's own errors
        raise StreamError(f"{file}: got {error}; expected Parquet") from error
    return rows
