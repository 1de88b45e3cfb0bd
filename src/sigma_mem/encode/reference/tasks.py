"""Tasks of three kinds that phrases cannot imitate: word problems, competition mathematics, code."""

from __future__ import annotations

import random

from sigma_mem.encode.reference.templates import templates

__all__ = ["code", "competition", "word_problem"]


def _numbers(rng: random.Random, high: int) -> dict[str, int]:
    out = {letter: rng.randint(2, high) for letter in "abcd"}
    return out | {"p": out["a"] * out["b"]}


def word_problem(rng: random.Random) -> str:
    """Arithmetic told as a story."""
    (n, m), (t, u) = rng.sample(templates("name"), 2), rng.sample(templates("thing"), 2)
    return rng.choice(templates("word problem")).format(n=n, m=m, t=t, u=u, **_numbers(rng, 60))


def competition(rng: random.Random) -> str:
    """Competition mathematics in LaTeX."""
    return rng.choice(templates("competition")).format(**_numbers(rng, 30))


def _word(rng: random.Random) -> str:
    return "".join(rng.choice("abcdefghijklmnoprstuvw") for _ in range(rng.randint(2, 7)))


def code(rng: random.Random) -> str:
    """A small Python function, and what to do with it."""
    name = rng.choice(["text", "nums", "items", "data", "s", "values", "array", "string", "d"])
    body = rng.choice(templates("code body")).format(
        v=name, w=_word(rng), a=rng.randint(0, 9), b=rng.randint(2, 9)
    )
    argument = rng.choice(
        [
            f"'{_word(rng)} {_word(rng)}'",
            str([rng.randint(-9, 99) for _ in range(rng.randint(3, 8))]),
            str({_word(rng): rng.randint(0, 20) for _ in range(3)}),
            f"'{_word(rng)}', {rng.randint(0, 9)}",
        ]
    )
    return rng.choice(templates("code")).format(f=f"def f({name}):\n{body}", x=argument)
