"""What the formats share beyond rows: which fields the user asked for, costs, scores and records."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigma_mem.errors import StreamError
from sigma_mem.streams.rows import number

Files = Sequence[tuple[Path, Any]]  # each with what was parsed from it


@dataclass(frozen=True, slots=True)
class Fields:
    """Which score, peer field and event field the user asked for; None for the format's own."""

    score: str | None = None
    peer: str | None = None
    event: str | None = None


def amount_of(*values: Any) -> float | None:
    """The first of the values that is a number, 0 or more; a cost of 0 says that nobody counted."""
    found = (number(value) for value in values)
    return next((value for value in found if value is not None and 0.0 < value < math.inf), None)


def only_score(file: Path, names: Sequence[str]) -> str | None:
    """The name of the only score, None if there is none; an error if there are several."""
    if len(names) > 1:
        raise StreamError(f"{file}: got the scores {', '.join(names)}; expected one: choose with --score")
    return names[0] if names else None


def records(value: Any) -> list[dict[str, Any]] | None:
    """Return the records of a parsed table: a list of objects, also under ``data``; else None."""
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        value = value["data"]
    if isinstance(value, list) and value and all(isinstance(record, dict) for record in value):
        return value
    return None
