"""Answering by calculation, where a question can be calculated; elsewhere it says that it cannot.

Each rule reads a prompt and returns the result, or None where it does not apply.
"""

import re
from collections.abc import Callable, Sequence

from sigma_lab.collect.local.arithmetic import algebra, evaluated, write_number

CANNOT = "I cannot compute this."


def computing(prompt: str, choices: Sequence[tuple[str, str]]) -> str:
    """The label of the option that equals the result, or the result itself.

    >>> computing("not ( True ) and ( True ) is", [])
    'False'
    >>> computing("Sort the following words alphabetically: List: oven barn apple", [])
    'apple barn oven'
    >>> computing("Who wrote Hamlet?", [])
    'I cannot compute this.'
    """
    for rule in _RULES:
        result = rule(prompt)
        if result is not None and not choices:
            return result
        if result is not None and (label := _matching(result, choices)) is not None:
            return label
    return CANNOT


def _matching(result: str, choices: Sequence[tuple[str, str]]) -> str | None:
    return next((label for label, text in choices if _plain(text) == _plain(result)), None)


def _plain(text: str) -> str:
    return re.sub(r"[\s$,.\\]", "", text).lower()


def _truth_values(prompt: str) -> str | None:
    """A Boolean expression: ``not ( True ) and ( True ) is``."""
    found = [m[0] for m in re.finditer(r"(?:\b(?:not|and|or|True|False)\b|[()\s])+", prompt)]
    longest = max(found, key=len, default="").strip()
    if not re.search(r"True|False", longest) or not re.search(r"not|and|or", longest):
        return None
    value = evaluated(longest)
    return None if value is None else str(bool(value))


def _calculation(prompt: str) -> str | None:
    """The longest expression in figures."""
    text = prompt.replace("×", "*").replace("÷", "/").replace("^", "**").replace("−", "-")
    found = re.findall(r"[(\d.\-+][\d\s().*/+\-]*[\d)]", text)
    for expression in sorted(found, key=len, reverse=True):
        if re.search(r"[\d)]\s*[-+*/]", expression):
            value = evaluated(expression.strip())
            if value is not None and not isinstance(value, bool):
                return write_number(value)
    return None


def _sorted_words(prompt: str) -> str | None:
    found = re.search(r"Sort the following words alphabetically:?\s*(?:List:)?\s*([^\n]+)", prompt)
    return " ".join(sorted(found[1].split())) if found else None


_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


def _closed_brackets(prompt: str) -> str | None:
    found = re.search(r"parentheses are closed properly.*?Input:\s*([][(){}<>\s]+)", prompt, re.DOTALL)
    if not found:
        return None
    waiting: list[str] = []
    for sign in found[1].split():
        if sign in _CLOSING:
            waiting.append(_CLOSING[sign])
        elif not waiting or waiting.pop() != sign:
            return None
    return " ".join(reversed(waiting)) or None


def _walk(prompt: str) -> str | None:
    """Whether steps and turns lead back to the start."""
    if "return to the starting point" not in prompt:
        return None
    place, facing = 0j, 1j  # forward is up
    fixed = "Always face forward" in prompt
    step = r"Take (\d+) steps?(?: (forward|backward|left|right))?|Turn (left|right|around)"
    for n, way, turn in re.findall(step, prompt):
        if turn:
            facing *= {"left": 1j, "right": -1j, "around": -1}[turn]
        else:
            towards = {"forward": 1, "": 1, "backward": -1, "left": 1j, "right": -1j}[way]
            place += int(n) * towards * (1j if fixed else facing)
    return "Yes" if place == 0 else "No"


def _liars(prompt: str) -> str | None:
    """Who tells the truth, where each speaks about the one before."""
    asked = re.search(r"Does (\w+) tell the truth\?", prompt)
    honest: dict[str, bool] = {}
    for who, about, verb in re.findall(r"(\w+) (?:says (\w+) )?(tells the truth|lies)", prompt):
        says = verb == "tells the truth"
        if about and about not in honest:
            return None
        honest[who] = says if not about else honest[about] == says
    return None if not asked or asked[1] not in honest else "Yes" if honest[asked[1]] else "No"


_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def _things_counted(prompt: str) -> str | None:
    found = re.search(r"I have (.+?)\. How many \w+(?: \w+)? do I have", prompt)
    if not found:
        return None
    total = 0
    for part in re.split(r",\s*(?:and\s+)?|\s+and\s+", found[1]):
        word = part.split()[0].lower() if part.split() else ""
        total += 1 if word in ("a", "an") else _NUMBERS.index(word) if word in _NUMBERS else 0
    return str(total)


def _swaps(prompt: str) -> str | None:
    """Who has what in the end, where two at a time swap."""
    start = re.search(r":\s*([A-Z]\w+ [^.]*?)\.\s", prompt)
    asked = re.search(
        r"At the end of [^,]*, (\w+) (?:has(?: the)?|is (?:playing|dancing with|the))\b", prompt
    )
    swaps = re.findall(r"(\w+) and (\w+) (?:swap|switch|trade)", prompt)
    if not start or not asked or not swaps:
        return None
    owned = dict(
        re.findall(r"(\w+) (?:gets|has|is (?:playing|dancing with))\s+(?:a |an |the )?([^,]+)", start[1])
    )
    for one, other in swaps:
        if one in owned and other in owned:
            owned[one], owned[other] = owned[other], owned[one]
    thing: str | None = owned.get(asked[1])
    return thing


_RULES: tuple[Callable[[str], str | None], ...] = (
    _sorted_words, _closed_brackets, _walk, _liars, _things_counted, _swaps, _truth_values, algebra,
    _calculation,
)  # fmt: skip
