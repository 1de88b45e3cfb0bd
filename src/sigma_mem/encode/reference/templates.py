"""The forms' and tasks' templates, from ``templates.txt``: sections "=== name" of entries parted by "--"."""

from __future__ import annotations

from functools import cache
from importlib import resources

__all__ = ["templates"]


@cache
def templates(section: str) -> tuple[str, ...]:
    """The entries of one section.

    >>> templates("language")[:2]
    ('French', 'German')
    """
    text = resources.files(__package__).joinpath("templates.txt").read_text(encoding="utf-8")
    for part in text.removeprefix("=== ").split("\n=== "):
        name, _, body = part.partition("\n")
        if name == section:
            return tuple(body.removesuffix("\n").split("\n--\n"))
    raise KeyError(section)
