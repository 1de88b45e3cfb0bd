"""Short text: "The Eiffel Tower." and "eiffel tower" are the same answer."""

from __future__ import annotations

import re
import string
import unicodedata

from sigma_mem.answers.final import final_answer, unwrap

__all__ = ["cautious_text", "short_text", "squad"]

_PUNCTUATION = str.maketrans("", "", string.punctuation + "“”‘’«»…–—")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_TELLING = re.compile(r"[\d+*/=<>^#@&|%$\\_~{}\[\]]")


def short_text(text: str) -> str | None:
    """Return the stated answer, or else the whole text, normalised as SQuAD does; None where it is empty.

    Examples
    --------
    >>> short_text("The Eiffel Tower."), short_text("Answer: an  apple"), short_text(" ")
    ('eiffel tower', 'apple', None)
    """
    stated = final_answer(text)
    return squad(unwrap(text if stated is None else stated)) or None


def squad(text: str) -> str:
    """Lower case, no punctuation, no articles, single blanks; text made of these alone stays."""
    folded = _folded(text)
    bare = " ".join(_ARTICLES.sub(" ", folded.translate(_PUNCTUATION)).split())
    return bare or folded


def cautious_text(text: str) -> str:
    """Like :func:`squad`, but inner signs stay where they can tell answers apart: C++ or C, 3:45 or 345."""
    if _TELLING.search(text) is None:
        return squad(text)
    folded = _folded(text)
    return folded.rstrip(".!?,;: ") or folded


def _folded(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())
