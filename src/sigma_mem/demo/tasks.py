"""Generated tasks from four domains, each with an answer that is computed without the agents.

Arithmetic is computed on the expression tree while it is drawn: agents only see its text, so an error of
theirs in precedence cannot leak into the truth. A program's truth is what CPython prints, that of a passage
the drawn fact before it was put into words, and dates come from Python's datetime.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """A question with its true answer; agents and memory see ``question`` only.

    ``domain`` is for the tables people read. The memory never gets it.
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

_RANK = {"+": 1, "-": 1, "*": 2}
_SPOKEN = {"+": ("plus", "added to"), "-": ("minus", "less"), "*": ("times", "multiplied by")}
_ASK = (
    "Calculate the value of this arithmetic expression: {}",
    "Evaluate the expression {} and give its value.",
    "What is the result of the calculation {}?",
)


@dataclass(frozen=True, slots=True)
class _Node:
    """An integer, or an operation on two nodes, with its value."""

    value: int
    op: str = ""
    left: _Node | None = None
    right: _Node | None = None


def _leaf(rng: random.Random) -> _Node:
    return _Node(rng.randint(2, 30))


def _join(op: str, left: _Node, right: _Node) -> _Node:
    a, b = left.value, right.value
    value = a + b if op == "+" else a - b if op == "-" else a * b
    return _Node(value, op, left, right)


def _tree(rng: random.Random, operations: int) -> _Node:
    if operations == 0:
        return _leaf(rng)
    on_left = rng.randint(0, operations - 1)
    left, right = _tree(rng, on_left), _tree(rng, operations - 1 - on_left)
    return _join(rng.choice("++-**"), left, right)


def _sum(rng: random.Random) -> _Node:
    """A sum that ends in a product: where it matters in which order one works."""
    left = _leaf(rng) if rng.random() < 0.6 else _tree(rng, 1)
    return _join(rng.choice("+-"), left, _join("*", _leaf(rng), _leaf(rng)))


def _text(node: _Node, spoken: random.Random | None = None) -> str:
    """Infix with the brackets that are needed, operators as symbols or as words."""
    if node.left is None or node.right is None:
        return str(node.value)
    sides = []
    for side, child in (("left", node.left), ("right", node.right)):
        text = _text(child, spoken)
        looser = child.op and _RANK[child.op] < _RANK[node.op]
        level = child.op and _RANK[child.op] == _RANK[node.op] and side == "right"
        sides.append(f"({text})" if looser or level else text)
    op = spoken.choice(_SPOKEN[node.op]) if spoken else node.op
    return f"{sides[0]} {op} {sides[1]}"


def _remainder(rng: random.Random) -> tuple[str, str]:
    divisor = rng.randint(3, 19)
    quotient, rest = rng.randint(4, 40), rng.randrange(divisor)
    number = quotient * divisor + rest
    ask = rng.choice(
        (
            "What remainder is left when {} is divided by {}?",
            "Divide with remainder: what remains of {} divided by {}?",
        )
    )
    return ask.format(number, divisor), str(rest)


def arithmetic(rng: random.Random) -> tuple[str, str]:
    """Draw a question and its true answer.

    >>> arithmetic(random.Random(1))
    ('Evaluate the expression 17 times 26 times 17 and give its value.', '7514')
    """
    kind = rng.random()
    if kind < 0.12:
        return _remainder(rng)
    node = _sum(rng) if rng.random() < 0.7 else _tree(rng, rng.choice((2, 3)))
    text = _text(node, rng if kind < 0.42 else None)
    return rng.choice(_ASK).format(text), str(node.value)


# --- code: what does this program print? ---

_WORDS = ("copper", "lantern", "meadow", "pepper", "river", "saddle", "willow", "harbor", "banana", "needle")


def _accumulate(rng: random.Random) -> str:
    n, step, start = rng.randint(4, 9), rng.randint(2, 5), rng.randint(0, 20)
    op = rng.choice(("+=", "-="))
    return f"total = {start}\nfor i in range({n}):\n    total {op} i * {step}\nprint(total)"


def _filtered(rng: random.Random) -> str:
    numbers = [rng.randint(1, 40) for _ in range(rng.randint(4, 7))]
    rest, by = rng.randint(0, 1), rng.randint(2, 3)
    body = f"for n in numbers:\n    if n % {by} == {rest}:\n        kept.append(n)"
    return f"numbers = {numbers}\nkept = []\n{body}\nprint({rng.choice(('len', 'sum'))}(kept))"


def _loop(rng: random.Random) -> str:
    start, by = rng.randint(30, 400), rng.randint(2, 4)
    return f"n = {start}\nsteps = 0\nwhile n > 1:\n    n = n // {by}\n    steps += 1\nprint(steps)"


def _word(rng: random.Random) -> str:
    word, other = rng.sample(_WORDS, 2)
    expression = rng.choice(
        (
            "word[::-1]",
            f"word.upper() + '{other}'",
            "len(word) * 3",
            f"word.replace('{rng.choice(word)}', '{rng.choice('xyz')}')",
            f"word.count('{rng.choice(word)}')",
            f"word[{rng.randint(1, 2)}:{rng.randint(3, 5)}]",
        )
    )
    return f"word = '{word}'\nprint({expression})"


def _recursion(rng: random.Random) -> str:
    a, b = rng.randint(2, 5), rng.randint(1, 4)
    body = (
        f"    if n < 2:\n        return n + {b}\n    return f(n - 1) + {rng.choice((f'{a} * n', 'f(n - 2)'))}"
    )
    return f"def f(n):\n{body}\nprint(f({rng.randint(4, 7)}))"


def _counted(rng: random.Random) -> str:
    word, letter = rng.choice(_WORDS), rng.choice("aeprn")
    body = "for c in word:\n    seen[c] = seen.get(c, 0) + 1"
    return f"word = '{word}'\nseen = {{}}\n{body}\nprint(seen.get('{letter}', 0) + len(seen))"


def _printed(rng: random.Random) -> str:
    a, b, c = (rng.randint(2, 20) for _ in range(3))
    return f"print({a} {rng.choice('+-*')} {b} {rng.choice('+-*')} {c})"


_KINDS = (_accumulate, _filtered, _loop, _word, _recursion, _counted, _printed)
_WEIGHTS = (4, 3, 3, 4, 3, 3, 2)


def _printout(program: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "task", "exec"), {})
    return out.getvalue().strip()


def code(rng: random.Random) -> tuple[str, str]:
    """Draw a program as a question, and what it prints.

    >>> print(code(random.Random(2))[0])
    What does this Python program print?
    ```python
    print(3 - 4 + 4)
    ```
    """
    program = rng.choices(_KINDS, _WEIGHTS)[0](rng)
    return f"What does this Python program print?\n```python\n{program}\n```", _printout(program)


# --- reading: a passage of a few sentences on three cooks ---

_WOMEN = ("Ada", "Bina", "Clara", "Dora", "Edith", "Freya", "Greta", "Hanna")
_MEN = ("Abel", "Boris", "Conrad", "Dmitri", "Emil", "Felix", "Gustav", "Hugo")
_DISHES = (
    "onion soup", "apple pie", "rye bread", "lentil stew", "pepper salad", "carrot cake", "garlic noodles",
)  # fmt: skip
_SPICES = ("cumin", "ginger", "basil", "nutmeg", "thyme", "saffron", "paprika", "mint")
_CITIES = ("Lisbon", "Oslo", "Prague", "Nairobi", "Quito", "Hanoi", "Turin", "Perth", "Lagos", "Kyoto")
_GOODS = ("eggs", "lemons", "potatoes", "figs", "leeks")

Told = tuple[list[str], list[tuple[str, str]]]  # sentences, and the questions they answer


def _without_figures(name: str, who: str, dish: str, city: str, spice: str) -> Told:
    """Two sentences without a figure."""
    sentences = [f"{name} cooks {dish} in {city}.", f"{who} seasons it with {spice}."]
    asked = [
        (f"Who cooks {dish}?", name),
        (f"In which city does {name} cook?", city),
        (f"Which spice does {name} season it with?", spice),
    ]
    return sentences, asked


def _with_figures(name: str, who: str, dish: str, guests: int, bought: int, goods: str) -> Told:
    """Two sentences with a figure each."""
    sentences = [f"{name} cooks {dish} for {guests} guests.", f"{who} buys {bought} {goods} at the market."]
    asked = [
        (f"Who cooks {dish}?", name),
        (f"How many guests does {name} cook for?", str(guests)),
        (f"How many {goods} does {name} buy?", str(bought)),
    ]
    return sentences, asked


def reading(rng: random.Random) -> tuple[str, str]:
    """Draw a passage with a question, and the true answer.

    >>> question, answer = reading(random.Random(3))
    >>> question.startswith("Read the passage.") and answer in question
    True
    """
    people = [(name, "She") for name in rng.sample(_WOMEN, 2)] + [(rng.choice(_MEN), "He")]
    rng.shuffle(people)
    dishes, cities, spices = rng.sample(_DISHES, 3), rng.sample(_CITIES, 3), rng.sample(_SPICES, 3)
    goods, with_figures = rng.sample(_GOODS, 2), rng.random() < 0.5
    sentences: list[str] = []
    asked: list[tuple[str, str]] = []
    for i, (name, pronoun) in enumerate(people):
        who = pronoun if rng.random() < 0.6 else name
        if with_figures:
            figures = rng.randint(3, 60), rng.randint(3, 60)
            told, asks = _with_figures(name, who, dishes[i], *figures, rng.choice(goods))
        else:
            told, asks = _without_figures(name, who, dishes[i], cities[i], spices[i])
        sentences += told
        asked += asks
    question, answer = rng.choice(asked)
    return f"Read the passage. {' '.join(sentences)}\nQuestion: {question}", answer


# --- calendar: dates, weekdays and units of time ---

_UNITS = (("weeks", "days", 7), ("hours", "minutes", 60), ("days", "hours", 24), ("minutes", "seconds", 60))


def _spoken(day: dt.date) -> str:
    return f"{day.day} {day:%B} {day.year}"


def _some_day(rng: random.Random) -> dt.date:
    return dt.date(1890, 1, 1) + dt.timedelta(days=rng.randrange(220 * 365))


def _shifted(rng: random.Random) -> tuple[str, str]:
    day, days = _some_day(rng), rng.randint(3, 60)
    after = rng.random() < 0.6
    target = day + dt.timedelta(days=days if after else -days)
    return f"Which date is {days} days {'after' if after else 'before'} {_spoken(day)}?", _spoken(target)


def _weekday(rng: random.Random) -> tuple[str, str]:
    day = _some_day(rng)
    return f"Which day of the week is {_spoken(day)}?", f"{day:%A}"


def _between(rng: random.Random) -> tuple[str, str]:
    day, days = _some_day(rng), rng.randint(5, 120)
    later = day + dt.timedelta(days=days)
    return f"How many days pass from {_spoken(day)} to {_spoken(later)}?", str(days)


def _converted(rng: random.Random) -> tuple[str, str]:
    big, small, factor = rng.choice(_UNITS)
    count = rng.randint(3, 40)
    return f"How many {small} are there in {count} {big}?", str(count * factor)


def calendar(rng: random.Random) -> tuple[str, str]:
    """Draw a question about time and its true answer.

    >>> calendar(random.Random(5))
    ('How many hours are there in 25 days?', '600')
    """
    return rng.choice((_shifted, _shifted, _weekday, _between, _converted))(rng)


_MAKERS = {"arithmetic": arithmetic, "code": code, "reading": reading, "calendar": calendar}
DOMAINS = tuple(_MAKERS)
