"""What the formats share beyond rows: costs and records."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sigma_mem.streams.tables import number

Files = Sequence[tuple[Path, Any]]  # each with what was parsed from it


def amount_of(*values: Any) -> float | None:
    """The first of the values that is a number, 0 or more; a cost of 0 means that it was not counted."""
    found = (number(value) for value in values)
    return next((value for value in found if value is not None and 0.0 < value < math.inf), None)


def records(value: Any) -> list[dict[str, Any]] | None:
    """Return the records of a parsed table: a list of objects, also under ``data``; else None."""
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        value = value["data"]
    if isinstance(value, list) and value and all(isinstance(record, dict) for record in value):
        return value
    return None
