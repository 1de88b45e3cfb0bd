"""Find the part of a response that states its answer."""

from __future__ import annotations

import json
import re

__all__ = ["final_answer", "unwrap"]

_JSON_FIELD = re.compile(r'"(?:final[_ ])?answer\\?"\s*:\s*')
_JSON_END = re.compile(r'"?\s*\}\s*(?:`|$)|"\s*\n|"?\s*$')
_AFTER_ANSWER = re.compile(r"[*_]*\s*(?:is\b\s*:?|:)[\s*_]*", re.IGNORECASE)
_STATED_END = re.compile(r"\n|[.!?](?=\s|$|[*<])")
_HASHES = re.compile(r"####\s*(.+)")


def final_answer(text: str) -> str | None:
    r"""Return the stated answer of a response, or None where none is marked.

    Looked for, in this order: the last JSON field ``"answer"``, the last ``\boxed{…}``, the
    last ``#### …``, the first ``answer is …`` or ``Answer: …``. The first, because models
    that run on after their answer go on with another question.

    Examples
    --------
    >>> final_answer("Half of 34 is 17. The answer is (B). Q: next …")
    '(B)'
    >>> final_answer(r"so $x = \boxed{\frac{1}{2}}$")
    '\\frac{1}{2}'
    """
    if '"' in text and (fields := list(_JSON_FIELD.finditer(text))):
        return _json_value(text[fields[-1].end() :])
    if "\\boxed" in text and (boxed := _last_boxed(text)) is not None:
        return boxed
    if "####" in text and (marks := _HASHES.findall(text)):
        return str(marks[-1]).strip()
    return _stated(text)


def _stated(text: str) -> str | None:
    """The rest of the first sentence that says "answer is …" or "answer: …"."""
    folded = (
        text.lower()
    )  # may differ in length from the text for a few letters, which only shifts the search
    place = folded.find("answer")
    while place >= 0:
        if (said := _AFTER_ANSWER.match(text, place + len("answer"))) is not None:
            end = _STATED_END.search(text, said.end())
            answer = text[said.end() : end.start() if end else len(text)].strip()
            return (_stated(answer) if "answer" in answer.lower() else None) or answer or None
        place = folded.find("answer", place + 1)
    return None


def _json_value(rest: str) -> str:
    """Read a JSON value, or what a model wrote in its place."""
    if rest.startswith('\\"'):  # JSON inside a JSON string
        rest = rest.replace('\\"', '"')
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(rest)
    except (json.JSONDecodeError, RecursionError):  # e.g. one backslash where JSON wants two
        end = _JSON_END.search(rest)
        return (rest[: end.start()] if end else rest).removeprefix('"').strip()
    return value.strip() if isinstance(value, str) else repr(value)


def _last_boxed(text: str) -> str | None:
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 0, start + len("\\boxed")
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[begin + 1 : place].strip()
    return None  # cut off inside the box


_WRAPS = (("**", "**"), ("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]"), ("$", "$"), ("`", "`"), ("*", "*"))
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"))


def unwrap(text: str, quotes: bool = True) -> str:
    """Strip blanks, markdown and math delimiters, and quotes that enclose the whole text."""
    text = text.strip()
    for left, right in _WRAPS + (_QUOTES if quotes else ()):
        if len(text) > len(left) + len(right) and text.startswith(left) and text.endswith(right):
            inner = text[len(left) : -len(right)]
            if left not in inner and right not in inner:
                return unwrap(inner, quotes)
    return text
