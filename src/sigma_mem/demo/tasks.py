"""Generated tasks from four domains, each with an answer that is computed without the agents.

Arithmetic is computed on the expression tree while it is drawn: agents only see its text, so an error of
theirs in precedence cannot leak into the truth. A program's truth is what CPython prints, that of a passage
the drawn fact before it was put into words, and dates come from Python's datetime.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import operator
import random
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Task:
    """A question with its true answer; agents and memory see ``question`` only.

    ``domain`` is for the tables people read. Only a memory in a service gets it, as the task's topic.
    """

    id: str
    domain: str
    question: str
    answer: str


def is_right(task: Task, answer: str) -> bool:
    """Whether an answer is the task's true answer, up to case, spaces and a final stop."""
    given, true = (" ".join(text.lower().split()).rstrip(".") for text in (answer, task.answer))
    return given == true


def draw(count: int, seed: int) -> list[Task]:
    """Draw a stream of tasks, domains mixed at random; the same seed gives the same stream."""
    rng = random.Random(seed)
    tasks = []
    for i in range(count):
        domain = rng.choice(DOMAINS)
        question, answer = _MAKERS[domain](rng)
        tasks.append(Task(f"task-{i + 1}", domain, question, answer))
    return tasks


# --- arithmetic: in symbols, in words, and remainders ---

_OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_RANK = {"+": 1, "-": 1, "*": 2}
_SPOKEN = {"+": ("plus", "added to"), "-": ("minus", "less"), "*": ("times", "multiplied by")}
_ASK = (
    "Calculate the value of this arithmetic expression: {}",
    "Evaluate the expression {} and give its value.",
    "What is the result of the calculation {}?",
)
_ASK_REMAINDER = (
    "What remainder is left when {} is divided by {}?",
    "Divide with remainder: what remains of {} divided by {}?",
)


class _Node(NamedTuple):
    """An integer, or an operation on two nodes, with its value."""

    value: int
    op: str = ""
    sides: tuple[_Node, ...] = ()


def _join(op: str, *sides: _Node) -> _Node:
    return _Node(_OPERATIONS[op](*(side.value for side in sides)), op, sides)


def _tree(rng: random.Random, operations: int) -> _Node:
    if operations == 0:
        return _Node(rng.randint(2, 30))
    on_left = rng.randint(0, operations - 1)
    left, right = _tree(rng, on_left), _tree(rng, operations - 1 - on_left)
    return _join(rng.choice("++-**"), left, right)


def _text(node: _Node, spoken: random.Random | None = None) -> str:
    """Infix with the brackets that are needed, operators as symbols or as words."""
    if not node.sides:
        return str(node.value)
    left, right = (_text(side, spoken) for side in node.sides)
    ranks = [_RANK.get(side.op, 3) for side in node.sides]
    left = f"({left})" if ranks[0] < _RANK[node.op] else left
    right = f"({right})" if ranks[1] <= _RANK[node.op] else right
    return f"{left} {spoken.choice(_SPOKEN[node.op]) if spoken else node.op} {right}"


def arithmetic(rng: random.Random) -> tuple[str, str]:
    """Draw a question and its true answer.

    >>> arithmetic(random.Random(1))
    ('Evaluate the expression 17 times 26 times 17 and give its value.', '7514')
    """
    kind = rng.random()
    if kind < 0.12:
        divisor = rng.randint(3, 19)
        quotient, rest = rng.randint(4, 40), rng.randrange(divisor)
        return rng.choice(_ASK_REMAINDER).format(quotient * divisor + rest, divisor), str(rest)
    if rng.random() < 0.7:  # ends in a product, so that the order of operations matters
        left = _tree(rng, 0 if rng.random() < 0.6 else 1)
        node = _join(rng.choice("+-"), left, _join("*", _tree(rng, 0), _tree(rng, 0)))
    else:
        node = _tree(rng, rng.choice((2, 3)))
    text = _text(node, rng if kind < 0.42 else None)
    return rng.choice(_ASK).format(text), str(node.value)


# --- code: what does this program print? ---

_WORDS = ("copper", "lantern", "meadow", "pepper", "river", "saddle", "willow", "harbor", "banana", "needle")


_KINDS = {"sum": 4, "filter": 3, "halving": 3, "word": 4, "recursion": 3, "letters": 3, "print": 2}


def _program(rng: random.Random) -> str:
    """A short program of one of `_KINDS`, which are drawn by these weights."""
    match rng.choices(tuple(_KINDS), tuple(_KINDS.values()))[0]:
        case "sum":
            n, step, start = rng.randint(4, 9), rng.randint(2, 5), rng.randint(0, 20)
            body = f"for i in range({n}):\n    total {rng.choice(('+=', '-='))} i * {step}"
            return f"total = {start}\n{body}\nprint(total)"
        case "filter":
            numbers = [rng.randint(1, 40) for _ in range(rng.randint(4, 7))]
            rest, by = rng.randint(0, 1), rng.randint(2, 3)
            body = f"for n in numbers:\n    if n % {by} == {rest}:\n        kept.append(n)"
            return f"numbers = {numbers}\nkept = []\n{body}\nprint({rng.choice(('len', 'sum'))}(kept))"
        case "halving":
            start, by = rng.randint(30, 400), rng.randint(2, 4)
            return f"n = {start}\nsteps = 0\nwhile n > 1:\n    n = n // {by}\n    steps += 1\nprint(steps)"
        case "word":
            word, other = rng.sample(_WORDS, 2)
            expressions = (
                "word[::-1]",
                f"word.upper() + '{other}'",
                "len(word) * 3",
                f"word.replace('{rng.choice(word)}', '{rng.choice('xyz')}')",
                f"word.count('{rng.choice(word)}')",
                f"word[{rng.randint(1, 2)}:{rng.randint(3, 5)}]",
            )
            return f"word = '{word}'\nprint({rng.choice(expressions)})"
        case "recursion":
            a, b = rng.randint(2, 5), rng.randint(1, 4)
            rest_of_sum = rng.choice((f"{a} * n", "f(n - 2)"))
            body = f"    if n < 2:\n        return n + {b}\n    return f(n - 1) + {rest_of_sum}"
            return f"def f(n):\n{body}\nprint(f({rng.randint(4, 7)}))"
        case "letters":
            word, letter = rng.choice(_WORDS), rng.choice("aeprn")
            body = "for c in word:\n    seen[c] = seen.get(c, 0) + 1"
            return f"word = '{word}'\nseen = {{}}\n{body}\nprint(seen.get('{letter}', 0) + len(seen))"
    a, b, c = (rng.randint(2, 20) for _ in range(3))
    return f"print({a} {rng.choice('+-*')} {b} {rng.choice('+-*')} {c})"


def code(rng: random.Random) -> tuple[str, str]:
    """Draw a program as a question, and what it prints.

    >>> print(code(random.Random(2))[0])
    What does this Python program print?
    ```python
    print(3 - 4 + 4)
    ```
    """
    program = _program(rng)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(program, "task", "exec"), {})
    return f"What does this Python program print?\n```python\n{program}\n```", out.getvalue().strip()


# --- reading: a passage of a few sentences on three cooks ---

_WOMEN = ("Ada", "Bina", "Clara", "Dora", "Edith", "Freya", "Greta", "Hanna")
_MEN = ("Abel", "Boris", "Conrad", "Dmitri", "Emil", "Felix", "Gustav", "Hugo")
_DISHES = (
    "onion soup", "apple pie", "rye bread", "lentil stew", "pepper salad", "carrot cake", "garlic noodles",
)  # fmt: skip
_SPICES = ("cumin", "ginger", "basil", "nutmeg", "thyme", "saffron", "paprika", "mint")
_CITIES = ("Lisbon", "Oslo", "Prague", "Nairobi", "Quito", "Hanoi", "Turin", "Perth", "Lagos", "Kyoto")
_GOODS = ("eggs", "lemons", "potatoes", "figs", "leeks")


def reading(rng: random.Random) -> tuple[str, str]:
    """Draw a passage, with figures or without, and a question on it; and the true answer."""
    people = [(name, "She") for name in rng.sample(_WOMEN, 2)] + [(rng.choice(_MEN), "He")]
    rng.shuffle(people)
    dishes, cities, spices = rng.sample(_DISHES, 3), rng.sample(_CITIES, 3), rng.sample(_SPICES, 3)
    goods, with_figures = rng.sample(_GOODS, 2), rng.random() < 0.5
    sentences: list[str] = []
    asked: list[tuple[str, str]] = []
    for (name, pronoun), dish, city, spice in zip(people, dishes, cities, spices, strict=True):
        who = pronoun if rng.random() < 0.6 else name
        asked.append((f"Who cooks {dish}?", name))
        if with_figures:
            guests, bought, what = rng.randint(3, 60), rng.randint(3, 60), rng.choice(goods)
            sentences.append(f"{name} cooks {dish} for {guests} guests.")
            sentences.append(f"{who} buys {bought} {what} at the market.")
            asked.append((f"How many guests does {name} cook for?", str(guests)))
            asked.append((f"How many {what} does {name} buy?", str(bought)))
        else:
            sentences.append(f"{name} cooks {dish} in {city}.")
            sentences.append(f"{who} seasons it with {spice}.")
            asked.append((f"In which city does {name} cook?", city))
            asked.append((f"Which spice does {name} season it with?", spice))
    question, answer = rng.choice(asked)
    return f"Read the passage. {' '.join(sentences)}\nQuestion: {question}", answer


# --- calendar: dates, weekdays and units of time ---

_UNITS = (("weeks", "days", 7), ("hours", "minutes", 60), ("days", "hours", 24), ("minutes", "seconds", 60))


def _spoken(day: dt.date) -> str:
    return f"{day.day} {day:%B} {day.year}"


def calendar(rng: random.Random) -> tuple[str, str]:
    """Draw a question about time and its true answer.

    >>> calendar(random.Random(5))
    ('How many hours are there in 25 days?', '600')
    """
    kind = rng.choice(("shift", "shift", "weekday", "between", "units"))
    if kind == "units":
        big, small, factor = rng.choice(_UNITS)
        count = rng.randint(3, 40)
        return f"How many {small} are there in {count} {big}?", str(count * factor)
    day = dt.date(1890, 1, 1) + dt.timedelta(days=rng.randrange(220 * 365))
    if kind == "weekday":
        return f"Which day of the week is {_spoken(day)}?", f"{day:%A}"
    if kind == "between":
        days = rng.randint(5, 120)
        later = day + dt.timedelta(days=days)
        return f"How many days pass from {_spoken(day)} to {_spoken(later)}?", str(days)
    days, after = rng.randint(3, 60), rng.random() < 0.6
    target = day + dt.timedelta(days=days if after else -days)
    return f"Which date is {days} days {'after' if after else 'before'} {_spoken(day)}?", _spoken(target)


_MAKERS = {"arithmetic": arithmetic, "code": code, "reading": reading, "calendar": calendar}
DOMAINS = tuple(_MAKERS)
