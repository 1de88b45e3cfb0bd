"""Choice letters: (B), B. and "the answer is B" are the same answer."""

from __future__ import annotations

import re

from sigma_mem.answers.final import final_answer, unwrap

__all__ = ["choice", "whole_choice"]

_STATED = re.compile(r"\banswer is\s*:?\s*(?:option\s+)?[*$\\]*(?:boxed\{|text\{)*\(?([A-Z])\b(?!['’])")
_LABELLED = re.compile(r"\b[Aa]nswer\**\s*:\s*(?:[Oo]ption\s+)?[*$]*\(?([A-Z])\b(?!['’])")
_LEADING = re.compile(r"\(?([A-Z])(?:[).:]|\s*$)")
_WHOLE = re.compile(r"\(?([A-Za-z])(?:[).:]?|\)\s.*)$", re.DOTALL)


def choice(text: str) -> str | None:
    """Return the letter a response chooses, or None.

    Examples
    --------
    >>> choice("The answer is (F)."), choice("C. Stakeholders"), choice("I do not know")
    ('F', 'C', None)
    """
    for pattern in (_STATED, _LABELLED):
        if (found := pattern.search(text)) is not None:
            return found[1]
    stated = final_answer(text)
    answer = unwrap(text if stated is None else stated)
    found = _LEADING.match(answer)
    return found[1] if found else whole_choice(answer)


def whole_choice(text: str) -> str | None:
    """Return the letter if the whole text is a choice (``B``, ``(B)``, ``B)``, ``B) Paris``), else None."""
    found = _WHOLE.match(text)
    return found[1].upper() if found else None
