"""SQL in files: numbered migrations, and queries by name."""

import re
from importlib.resources.abc import Traversable


def numbered_scripts(folder: Traversable) -> tuple[str, ...]:
    """Texts of ``NNN_*.sql``; number k (from 1) takes a ledger from version k − 1 to k."""
    found = sorted(file.name for file in folder.iterdir() if re.match(r"\d{3}_.*\.sql$", file.name))
    return tuple((folder / name).read_text("utf-8") for name in found)


def named_queries(folder: Traversable) -> dict[str, str]:
    """The statements of ``queries.sql`` by the name in the line ``-- name --`` above each."""
    text = (folder / "queries.sql").read_text("utf-8")
    _, *parts = re.split(r"^-- (\w+) --$", text, flags=re.MULTILINE)
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
