"""LLMRouterBench: one JSON file per dataset and model, ``bench/<dataset>/<split>/<model>/<time>.json``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sigma_lab.formats.fields import Files, amount_of
from sigma_mem.errors import StreamError
from sigma_mem.streams.tables import Row, label_of_score


def matches(value: Any) -> bool:
    """Whether a parsed file is one result of LLMRouterBench."""
    return isinstance(value, dict) and isinstance(value.get("records"), list) and "performance" in value


def rows(files: Files) -> Iterator[Row | str]:
    """One row per record; dataset and model are named in the file or by the folders it is in."""
    for path, value in files:
        names = _names(path, value)
        for record in value["records"]:
            yield _row(record, *names) if isinstance(record, dict) else "not a record"


def _names(file: Path, value: dict[str, Any]) -> tuple[str, str, str]:
    folders = file.resolve().parts[-4:-1]
    given = [value.get("dataset_name"), value.get("split"), value.get("model_name")]
    if len(folders) < 3 and not all(given):
        remedy = "keep the folders <dataset>/<split>/<model>/ around it"
        raise StreamError(f"{file}: names no dataset and model; {remedy}")
    dataset, split, model = (str(name or folder) for name, folder in zip(given, folders, strict=True))
    return dataset, split, model


def _row(record: dict[str, Any], dataset: str, split: str, model: str) -> Row | str:
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
        cost=amount_of(record.get("cost")),
    )
