"""RouterBench: a wide table, one row per question and a group of columns per model.

``sample_id, prompt, eval_name, <model> (score), <model>|model_response, <model>|total_cost``
"""

import ast
from collections.abc import Iterator
from typing import Any

from sigma_lab.formats.fields import Files, amount_of, records
from sigma_mem.errors import StreamError
from sigma_mem.streams.tables import Row, label_of_score, number

_RESPONSE, _COST = "|model_response", "|total_cost"


def matches(value: Any) -> bool:
    """Whether a parsed file is a RouterBench table."""
    table = records(value)
    return table is not None and "prompt" in table[0] and bool(_models(table[0]))


def rows(files: Files) -> Iterator[Row | str]:
    """One row per question and model."""
    for path, value in files:
        table = records(value) or []
        if "sample_id" not in table[0]:
            raise StreamError(
                f"{path}: got the columns {', '.join([*table[0]][:8])} …; expected sample_id, prompt, "
                f"eval_name, and <model>, <model>{_RESPONSE}, <model>{_COST} for every model"
            )
        models = _models(table[0])
        for record in table:
            for model in models:
                yield _row(record, model)


def _models(record: dict[str, Any]) -> list[str]:
    named = [name.removesuffix(_RESPONSE).removesuffix(_COST) for name in record if "|" in name]
    return [name for name in dict.fromkeys(named) if name in record]


def _row(record: dict[str, Any], model: str) -> Row | str:
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
        cost=amount_of(record.get(model + _COST)),
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
