"""The table of every setting of ``sigma-mem.toml``, from the dataclasses that read it.

``python docs/hooks/settings.py`` writes it into docs/reference/settings.md; a test fails if the page differs.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from sigma_mem.serve.config import LISTS, TABLES, ServerConfig

PAGE = Path(__file__).parents[1] / "reference" / "settings.md"
MARKS = "<!-- settings -->", "<!-- end of settings -->"


def table() -> str:
    """A row for every setting: its name, its default, and what it does."""
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    rows += _rows(ServerConfig, "", (*TABLES, *LISTS))
    for name, kind in TABLES.items():
        rows += _rows(kind, f"[{name}] ", ("trusted",))
    for name, kind in LISTS.items():
        rows += _rows(kind, f"[[{name}]] ", ())
    return "\n".join(rows)


def page(text: str) -> str:
    """The page with the table as it should be."""
    before, _, rest = text.partition(MARKS[0])
    return f"{before}{MARKS[0]}\n{table()}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"


def _rows(kind: type, prefix: str, left_out: tuple[str, ...]) -> list[str]:
    """Settings that are described together share a row."""
    said, rows = _described(kind), dict[str, list[Field[Any]]]()
    for each in fields(kind):
        if each.name not in left_out:
            rows.setdefault(said[each.name], []).append(each)
    return [
        f"| {', '.join(f'`{prefix}{each.name}`' for each in group)} "
        f"| {', '.join(filter(None, map(_default, group)))} | {text} |"
        for text, group in rows.items()
    ]


def _default(each: Field[Any]) -> str:
    if each.default is MISSING and each.default_factory is MISSING:
        return "required"
    value = each.default if each.default is not MISSING else each.default_factory()  # type: ignore[misc]
    if value in (None, "", ()) or value == {}:
        return ""
    written = str(list(value)) if isinstance(value, tuple) else str(value)
    return f"`{written.lower() if isinstance(value, bool) else written}`"


def _described(kind: type) -> dict[str, str]:
    """What is said of each field: in the docstring's section of attributes, or in comments before it.

    Fields that follow each other without a comment are described together. KeyError later if nothing is said.
    """
    found: dict[str, str] = {}
    _, _, section = (inspect.getdoc(kind) or "").partition("Attributes\n----------\n")
    for heading, text in re.findall(r"^(\S.*)\n((?:[ ]+.*\n?)*)", section, re.MULTILINE):
        for name in heading.partition(" :")[0].split(", "):
            found[name] = text
    said = ""
    for text, name in re.findall(r"((?:^    # .*\n)*)^    (\w+): ", inspect.getsource(kind), re.MULTILINE):
        said = text.replace("    # ", "") or said
        found.setdefault(name, said)
    return {
        name: " ".join(text.split()).replace("``", "`").replace("|", "\\|") for name, text in found.items()
    }


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
