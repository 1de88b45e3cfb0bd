"""The store's SQL: numbered migrations, applied in order, and the queries by name."""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from importlib.resources import files

__all__ = ["migrations", "queries", "statements"]


@cache
def migrations() -> tuple[str, ...]:
    """Texts of ``NNN_*.sql``; number k (from 1) takes a file from version k − 1 to k."""
    found = sorted(file.name for file in files(__name__).iterdir() if re.match(r"\d{3}_.*\.sql$", file.name))
    return tuple(files(__name__).joinpath(name).read_text("utf-8") for name in found)


@cache
def queries() -> dict[str, str]:
    """The statements of ``queries.sql`` by the name in the line ``-- name --`` above each."""
    text = files(__name__).joinpath("queries.sql").read_text("utf-8")
    _, *parts = re.split(r"^-- (\w+) --$", text, flags=re.MULTILINE)
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def statements(script: str) -> list[str]:
    """Split a script into statements, for a transaction (``executescript`` would commit it).

    Examples
    --------
    >>> statements("CREATE TABLE a (x); CREATE TABLE b (y);")
    ['CREATE TABLE a (x);', 'CREATE TABLE b (y);']
    """
    found, text = [], ""
    for piece in re.split(r"(?<=;)", script):
        text += piece
        if sqlite3.complete_statement(text):
            found.append(text.strip())
            text = ""
    return found
