"""Six agents with different skills and shared blind spots; each is a real little program.

An agent answers a question from its text alone, "" if it has no answer. There is no accuracy to
set anywhere: an agent is right if its method works and wrong if it does not.
"""

import calendar
import operator
import re
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from types import FrameType
from typing import Any

Agent = Callable[[str], str]

# The generalist comes first: ties go to the agent that is listed first, and it loses least by a tie.
PEERS = ("generalist", "calculator", "runner", "reader", "almanac", "guesser")
FAULTY = "calculator"


def team(calculator_version: int = 1) -> dict[str, Agent]:
    """The agents by name; the guesser copies the very calculator of this team."""
    this_calculator = partial(calculator, version=calculator_version)
    return {
        "generalist": generalist,
        "calculator": this_calculator,
        "runner": runner,
        "reader": reader,
        "almanac": almanac,
        "guesser": partial(guesser, neighbour=this_calculator),
    }


def calculator(question: str, version: int = 1) -> str:
    """The value of the longest arithmetic expression of a text, in symbols or words; "" without any.

    It can read neither programs nor passages. Version 2 has a real fault: it forgot that a product
    binds before a sum.

    >>> calculator("Compute 2 plus 3 times 4."), calculator("What is 2 + 3 * 4?", version=2)
    ('14', '20')
    """
    values = (evaluate(tokens, left_to_right=version == 2) for tokens in expressions(question))
    return next((spell(value) for value in values if value is not None), "")


def guesser(question: str, neighbour: Agent) -> str:
    """The answer of ``neighbour`` if it sees a sum in symbols: a shared blind spot.

    Otherwise the last figure of the text, or the last name if there is no figure.
    """
    if re.search(r"\d [-+*/] ", question):
        return neighbour(question)
    guesses = re.findall(r"\d+", question) or re.findall(_NAME, question) or [""]
    return str(guesses[-1])


# --- the runner: programs ---

_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_SPOKEN = {"plus": "+", "minus": "-", "times": "*"}


def runner(question: str) -> str:
    """The last line that a program prints, of a Python without dictionaries; "" if that is nothing.

    Without a program it tries the question's figures as a Python expression; of words it knows plus, minus
    and times.
    """
    if block := _BLOCK.search(question):
        program = block[1]
    else:
        text = " ".join(_SPOKEN.get(word, word) for word in question.split())
        span = re.search(r"[\d(].*[\d)]", text)  # from the first figure to the last
        program = f"print({span[0] if span else text})"
    return _last_printed(program, otherwise="")


def _last_printed(program: str, otherwise: str, lines: int = 5000, functions: bool = True) -> str:
    """The last line that a program prints, or something else if it cannot be run."""
    try:
        return (run_program(program, lines, functions) or [""])[-1]
    except Unsupported:
        return otherwise


# --- the reader: passages ---

_COMMON = "a an and are as by did do does from how in is many of the there to what which who with"
_NAME = r"\b[A-Z][a-z]+\b"


def reader(question: str) -> str:
    r"""What the question word asks for, from the sentence that shares most words with the question.

    It does not resolve pronouns, so "She seasons it with mint." is lost on it. On anything that
    is not a passage it does the same, which yields some word or figure of the question.

    >>> reader("Ada is a baker in Oslo. Emil is a pilot in Quito.\nQuestion: Who is a pilot?")
    'Emil'
    """
    sentence, asked = _best_sentence(question)
    if "spice" in asked:
        found = re.findall(r"\bwith (\w+)", sentence)
    elif asked.startswith("How many"):
        found = re.findall(r"\d+", sentence)
    elif "city" in asked:
        found = re.findall(r"\b(?:in|to|from) ([A-Z][a-z]+)", sentence)
    elif asked.startswith("Who"):
        found = re.findall(_NAME, sentence)
    else:
        found = re.findall(r"\w+", sentence)[-1:]
    return found[0] if found else ""


def _best_sentence(text: str, limit: int | None = None) -> tuple[str, str]:
    """Of the first ``limit`` sentences the one that shares most stems with the question, and the question."""
    *lines, question = text.strip().splitlines() or [""]
    passage = " ".join(lines).removeprefix("Read the passage. ")
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", passage) if s]
    question = question.removeprefix("Question: ")
    wanted = _stems(question)
    return max(sentences[:limit] or [question], key=lambda s: len(wanted & _stems(s))), question


def _stems(text: str) -> set[str]:
    """Words that carry meaning, cut to six letters so that "works" meets "work"."""
    words = set(re.findall(r"[a-z0-9]+", text.lower())) - set(_COMMON.split())
    return {(w[:-1] if w.endswith("s") and len(w) > 3 else w)[:6] for w in words}


# --- the almanac: dates, by its own day count ---

_MONTHS = tuple(calendar.month_name)[1:]
_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 604800}
_DATE = re.compile(rf"(\d{{1,2}}) ({'|'.join(_MONTHS)}) (\d{{4}})")

Date = tuple[int, int, int]  # year, month, day


def almanac(question: str) -> str:
    """A date, weekday, count of days or units, or remainder; elsewhere the last figure."""
    dates = _dates(question)
    if dates and "week" in question:
        return calendar.day_name[(_day_count(*dates[0]) - _day_count(2024, 1, 1)) % 7]  # that was a Monday
    if len(dates) >= 2:
        return str(_day_count(*dates[1]) - _day_count(*dates[0]))
    if dates:
        return _date_of(_day_count(*dates[0]) + (_shift(question) or 0))
    numbers = [int(n) for n in re.findall(r"\d+", question)]
    units = [u for u in re.findall(r"[a-z]+", question.lower()) if u in _UNITS]
    if len(units) >= 2 and numbers:
        return str(numbers[0] * _UNITS[units[1]] // _UNITS[units[0]])
    if "remain" in question and len(numbers) >= 2 and numbers[1]:
        return str(numbers[0] % numbers[1])
    return str(numbers[-1]) if numbers else ""


def _dates(text: str) -> list[Date]:
    return [(int(y), _MONTHS.index(m) + 1, int(d)) for d, m, y in _DATE.findall(text)]


def _shift(question: str) -> int | None:
    """By how many days the question asks to move a date."""
    found = re.search(r"(\d+) days (after|before)", question)
    return int(found[1]) * (1 if found[2] == "after" else -1) if found else None


def _month_lengths(year: int) -> tuple[int, ...]:
    # Every fourth year, as Caesar had it: the almanac believes in 29 February 1900 and 2100.
    return 31, 29 if year % 4 == 0 else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31


def _day_count(year: int, month: int, day: int) -> int:
    """Days since 1 January of the year 0, a leap year."""
    return (1461 * year + 3) // 4 + sum(_month_lengths(year)[: month - 1]) + day - 1


def _date_of(count: int) -> str:
    """The date that is this many days after 1 January of the year 0."""
    year, month = 4 * count // 1461, 1
    day = count - _day_count(year, 1, 1)
    for length in _month_lengths(year):
        if day < length:
            break
        day, month = day - length, month + 1
    return f"{day + 1} {_MONTHS[month - 1]} {year}"


# --- the generalist: a bit of everything, nothing thoroughly ---


def generalist(question: str, lines: int = 20, sentences: int = 4) -> str:
    """An answer to any kind of task by a short method and a short span of attention.

    Sums of at most three figures; programs of few lines, without functions; the first four
    sentences of a passage, read as the reader reads them; months of thirty days.
    """
    if block := _BLOCK.search(question):
        figures = re.findall(r"\d+", block[1]) or ["0"]
        return _last_printed(block[1], figures[-1], lines=lines, functions=False)
    if question.startswith("Read the passage."):
        sentence, asked = _best_sentence(question, sentences)
        if asked.startswith("Who"):
            return next(iter(re.findall(_NAME, sentence)), "")
        return str((re.findall(r"\d+", sentence) or re.findall(r"\w+", sentence) or [""])[-1])
    if dates := _dates(question):
        return _date_roughly(question, dates)
    units = [u for u in re.findall(r"[a-z]+", question) if u in _UNITS]
    if len(units) == 2:
        count = int((re.findall(r"\d+", question) or ["0"])[0])
        return str(count * _UNITS[units[1]] // _UNITS[units[0]])
    values = (evaluate(tokens[:5]) for tokens in expressions(question))
    return next((spell(value) for value in values if value is not None), "")


def _date_roughly(question: str, dates: list[Date]) -> str:
    day_of = [year * 360 + month * 30 + day for year, month, day in dates]
    if len(dates) == 2:
        return str(day_of[1] - day_of[0])
    shift = _shift(question)
    if shift is None:
        return "Monday"
    day = day_of[0] + shift - 31
    return f"{day % 30 + 1} {_MONTHS[day // 30 % 12]} {day // 360}"


# --- programs, which Python itself runs: they come from `tasks` ---

_FUNCTIONS = {"len": len, "sum": sum, "min": min, "max": max, "range": range, "str": str}
_FAILURES = (SyntaxError, TypeError, ValueError, ArithmeticError, LookupError, NameError, RecursionError)


class Unsupported(Exception):
    """The program uses something that its reader does not know, or too much of it."""


def run_program(program: str, lines: int = 5000, functions: bool = True) -> list[str]:
    r"""What a program prints; Unsupported if it fails, has dictionaries, or takes more lines than this.

    ``functions`` is whether the program may define some.

    >>> run_program("total = 1\nfor i in range(4):\n    total += i\nprint(total)")
    ['7']
    """
    printed: list[str] = []
    left = lines

    def count(frame: FrameType, event: str, value: object) -> Any:
        nonlocal left
        left -= event == "line"
        if left < 0:
            raise Unsupported("too many lines")
        return count

    known = {**_FUNCTIONS, "print": lambda *said: printed.append(" ".join(map(str, said)))}
    if "{" in program or ("def " in program and not functions):
        raise Unsupported("a dictionary or a function")
    before = sys.gettrace()
    try:
        code = compile(program, "program", "exec")
        sys.settrace(count)
        exec(code, {"__builtins__": known})
    except _FAILURES as error:
        raise Unsupported(str(error)) from error
    finally:
        sys.settrace(before)
    return printed


# --- arithmetic in a text, by precedence climbing ---

_OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
_LEFT_TO_RIGHT = dict.fromkeys(_PRECEDENCE, 1)  # every operator binds alike
_IN_WORDS = {
    "plus": "+", "added to": "+", "minus": "-", "less": "-",
    "times": "*", "multiplied by": "*", "divided by": "/",
}  # fmt: skip
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[-+*/()]|\S")


def expressions(text: str) -> list[list[str]]:
    """Runs of numbers, operators and brackets in a text, longest first.

    >>> expressions("What is 3 plus 4 * 5, or 7?")
    [['3', '+', '4', '*', '5'], ['7']]
    """
    for word, symbol in _IN_WORDS.items():
        text = re.sub(rf"\b{word}\b", symbol, text)
    runs: list[list[str]] = [[]]
    for token in _TOKEN.findall(text):
        if token[0].isdigit() or token in "+-*/()":
            runs[-1].append(token)
        elif runs[-1]:
            runs.append([])
    with_number = [run for run in runs if any(t[0].isdigit() for t in run)]
    return sorted(with_number, key=len, reverse=True)


def evaluate(tokens: list[str], left_to_right: bool = False) -> Fraction | None:
    """The value of an infix expression, or None if it is not one.

    >>> evaluate("2 + 3 * 4".split()), evaluate("2 + 3 * 4".split(), left_to_right=True)
    (Fraction(14, 1), Fraction(20, 1))
    """
    rest = tokens[::-1]
    try:
        value = _climb(rest, _LEFT_TO_RIGHT if left_to_right else _PRECEDENCE, 1)
    except (ValueError, LookupError, ArithmeticError):  # no number, nothing left, a division by zero
        return None
    return None if rest else value


def _climb(rest: list[str], precedence: Mapping[str, int], level: int) -> Fraction:
    value = _atom(rest, precedence)
    while rest and precedence.get(rest[-1], 0) >= level:
        op = rest.pop()
        value = _OPERATIONS[op](value, _climb(rest, precedence, precedence[op] + 1))
    return value


def _atom(rest: list[str], precedence: Mapping[str, int]) -> Fraction:
    token = rest.pop()
    if token == "-":
        return -_atom(rest, precedence)
    if token != "(":
        return Fraction(token)
    value = _climb(rest, precedence, 1)
    if rest.pop() != ")":
        raise ValueError("a bracket is not closed")
    return value


def spell(value: Fraction) -> str:
    """A whole number as such, anything else with two decimals."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.2f}"
