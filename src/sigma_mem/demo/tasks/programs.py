"""Small Python programs, and the question what they print.

The truth is what CPython prints when it really runs the program, which this file itself wrote.
"""

from __future__ import annotations

import contextlib
import io
import random

__all__ = ["code"]

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
