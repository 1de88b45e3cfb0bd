"""Recordings of other tools as streams: RouterBench and LLMRouterBench.

A format is two functions: whether a parsed file is of it, and from parsed files to `Row` values. The rows are
gathered into events, and what was dropped is counted by its reason.
"""

import ast
import math
from collections.abc import Callable, Iterator, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from sigma_mem.answers.canon import Kind
from sigma_mem.errors import InputError, StreamError
from sigma_mem.streams.tables import Imported, Row, gather_events, label_of_score, number, parse

Files = Sequence[tuple[Path, Any]]  # each with what was parsed from it
_RESPONSE, _COST = "|model_response", "|total_cost"


def import_stream(
    paths: Sequence[str | PathLike[str]],
    *,
    format: str = "auto",
    kind: Kind = "auto",
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
    return gather_events(Path(fspath(paths[0])), FORMATS[found].rows(files), kind)


def _found(paths: Sequence[str | PathLike[str]]) -> list[Path]:
    files: list[Path] = []
    for path in (Path(fspath(p)) for p in paths):
        files += sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files:
        raise StreamError(f"got no file to import in {', '.join(map(str, paths)) or 'no paths'}; name files")
    return files


def _detect(path: Path, value: Any, asked: str) -> str:
    likely = [name for name, form in FORMATS.items() if form.matches(value)]
    if asked in likely:
        return asked
    if asked != "auto":
        looks = f" but like {likely[0]}" if likely else ""
        raise StreamError(f"{path}: does not look like {asked}{looks}; check the file or --format")
    if not likely:
        known = ", ".join(FORMATS)
        raise StreamError(f"{path}: is of no known format; expected one of {known} (see docs/lab/streams.md)")
    return likely[0]


def _cost(value: Any) -> float | None:
    """A cost; 0 means that it was not counted."""
    found = number(value)
    return found if found is not None and 0.0 < found < math.inf else None


# --- RouterBench: sample_id, prompt, eval_name, and for every model its score, response and total cost ---


def _is_routerbench(value: Any) -> bool:
    table = _records(value)
    return table is not None and "prompt" in table[0] and bool(_models(table[0]))


def _records(value: Any) -> list[dict[str, Any]] | None:
    """The records of a parsed table: a list of objects, also under ``data``; else None."""
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        value = value["data"]
    if isinstance(value, list) and value and all(isinstance(record, dict) for record in value):
        return value
    return None


def _models(record: dict[str, Any]) -> list[str]:
    named = [name.removesuffix(_RESPONSE).removesuffix(_COST) for name in record if "|" in name]
    return [name for name in dict.fromkeys(named) if name in record]


def _routerbench(files: Files) -> Iterator[Row | str]:
    """One row per question and model."""
    for path, value in files:
        table = _records(value) or []
        if "sample_id" not in table[0]:
            raise StreamError(
                f"{path}: got the columns {', '.join([*table[0]][:8])} …; expected sample_id, prompt, "
                f"eval_name, and <model>, <model>{_RESPONSE}, <model>{_COST} for every model"
            )
        for record in table:
            yield from (_scored(record, model) for model in _models(table[0]))


def _scored(record: dict[str, Any], model: str) -> Row | str:
    score = record.get(model)
    if score in (None, ""):
        return "the model was not run on this question"
    if number(score) is None:
        return "the score is not a number"
    return Row(
        key=str(record["sample_id"]),
        peer=model,
        question=_joined(record.get("prompt")),
        text=_joined(record.get(model + _RESPONSE)),
        label=label_of_score(score),
        dataset="routerbench",
        domain=str(record.get("eval_name") or ""),
        cost=_cost(record.get(model + _COST)),
    )


def _joined(value: Any) -> str:
    """The text of a cell, which may be the repr of a list of turns."""
    if isinstance(value, str) and value[:1] == "[" and value[-1:] == "]":
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return str(value)
    if isinstance(value, list | tuple):
        return "\n".join(str(turn) for turn in value)
    return "" if value is None else str(value)


# --- LLMRouterBench: a JSON file per dataset and model, bench/<dataset>/<split>/<model>/<time>.json ---


def _is_llmrouterbench(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("records"), list) and "performance" in value


def _llmrouterbench(files: Files) -> Iterator[Row | str]:
    """One row per record; dataset and model are named in the file or by the folders it is in."""
    for path, value in files:
        folders = path.resolve().parts[-4:-1]
        given = [value.get("dataset_name"), value.get("split"), value.get("model_name")]
        if len(folders) < 3 and not all(given):
            remedy = "keep the folders <dataset>/<split>/<model>/ around it"
            raise StreamError(f"{path}: names no dataset and model; {remedy}")
        dataset, split, model = (str(name or folder) for name, folder in zip(given, folders, strict=True))
        for record in value["records"]:
            yield _judged(record, dataset, split, model) if isinstance(record, dict) else "not a record"


def _judged(record: dict[str, Any], dataset: str, split: str, model: str) -> Row | str:
    index, score = record.get("index"), record.get("score")
    if index is None:
        return "the record has no index"
    prediction, raw, truth = record.get("prediction"), record.get("raw_output"), record.get("ground_truth")
    return Row(
        key=f"{dataset}-{split}-{index}",
        peer=model,
        question=str(record.get("origin_query") or record.get("prompt") or ""),
        text=str(raw if raw not in (None, "") else prediction or ""),
        label=label_of_score(score) if isinstance(score, int | float) else None,
        dataset=dataset,
        domain=dataset,
        reference=None if truth is None else str(truth),
        answer=None if prediction in (None, "") else str(prediction),
        cost=_cost(record.get("cost")),
    )


class Format(NamedTuple):
    """How a parsed file is recognised, and how parsed files become rows."""

    matches: Callable[[Any], bool]
    rows: Callable[[Files], Iterator[Row | str]]


FORMATS = {
    "routerbench": Format(_is_routerbench, _routerbench),
    "llmrouterbench": Format(_is_llmrouterbench, _llmrouterbench),
}
