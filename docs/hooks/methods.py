"""Tables of methods for the classes that have the methods of `SigmaMem` in another form.

A page writes `<!-- methods of sigma_mem.AsyncSigmaMem -->`. These methods are made by wrapping others, which
mkdocstrings, reading source text, does not see.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

from sigma_mem import SigmaMem

PLACE = re.compile(r"<!-- methods of ([\w.]+)\.(\w+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """What mkdocs calls with the text of every page."""
    return PLACE.sub(lambda found: table(found[1], found[2]), markdown)


def table(module: str, name: str) -> str:
    """One row for every public method: its name, linked to that of `SigmaMem`, and what it does."""
    kind = getattr(importlib.import_module(module), name)
    rows = ["| name | what it does |", "|---|---|"]
    for member in sorted(member for member in dir(kind) if not member.startswith("_")):
        summary = (inspect.getdoc(getattr(kind, member)) or "").partition("\n\n")[0].replace("\n", " ")
        shown = f"[`{member}`][sigma_mem.SigmaMem.{member}]" if hasattr(SigmaMem, member) else f"`{member}`"
        rows.append(f"| {shown} | {summary.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)
