"""The forms in which questions come; a form takes phrases of a subject and returns a text."""

from __future__ import annotations

import random

from sigma_mem.encode.reference.templates import templates

__all__ = ["FORMS", "chat", "numeric"]


def _number(rng: random.Random) -> str:
    return rng.choice(
        [
            str(rng.randint(2, 99)),
            str(rng.randint(100, 5000)),
            f"{rng.uniform(0, 10):.2f}",
            f"{rng.uniform(0, 100):.1f}",
            f"{rng.uniform(1, 9):.1f} x 10^{rng.randint(-9, 9)}",
        ]
    )


def _lettered(choices: list[str]) -> str:
    return "\n" + "\n".join(f"{chr(65 + i)}. {choice}" for i, choice in enumerate(choices))


def _three(rng: random.Random, phrases: list[str]) -> dict[str, str]:
    return dict(zip("abc", rng.sample(phrases, 3), strict=True))


def open_question(rng: random.Random, subject: str, phrases: list[str]) -> str:
    """A question to be answered in words."""
    return rng.choice(templates("stem")).format(s=subject, **_three(rng, phrases))


def multiple_choice(rng: random.Random, subject: str, phrases: list[str]) -> str:
    """A question with four to ten lettered choices."""
    n = rng.choice([4, 4, 5, 10, 10])
    if rng.random() < 0.3:
        unit = rng.choice(templates("unit"))
        choices = [f"{_number(rng)} {unit}" for _ in range(n)]
    else:
        choices = [rng.choice(templates("choice")).format(**_three(rng, phrases)) for _ in range(n)]
    return open_question(rng, subject, phrases) + _lettered(choices)


def numeric(rng: random.Random, subject: str, phrases: list[str]) -> str:
    """A calculation with units."""
    u, v = rng.sample(templates("unit"), 2)
    text = rng.choice(templates("numeric")).format(
        n=_number(rng), m=_number(rng), u=u, v=v, k=rng.randint(2, 60), **_three(rng, phrases)
    )
    if rng.random() < 0.6:
        text += _lettered([f"{_number(rng)} {u}" for _ in range(rng.choice([4, 5, 10]))])
    return text


def passage(rng: random.Random, subject: str, phrases: list[str]) -> str:
    """A short passage, then a question about it."""
    sentences = (
        rng.choice(templates("sentence")).format(s=subject, y=rng.randint(1700, 2020), **_three(rng, phrases))
        for _ in range(rng.randint(2, 5))
    )
    text = " ".join(sentences)
    if rng.random() < 0.6:
        return f"{text}\n\nQuestion: {open_question(rng, subject, phrases)}"
    return (
        "This question refers to the following information.\n"
        f'"{text}"\n{multiple_choice(rng, subject, phrases)}'
    )


def case(rng: random.Random, subject: str, phrases: list[str]) -> str:
    """A case to be judged, as in law or medicine."""
    n, m = rng.sample(templates("name"), 2)
    text = rng.choice(templates("case")).format(n=n, m=m, k=rng.randint(5, 80), **_three(rng, phrases))
    if rng.random() < 0.6:
        verdicts = ("No, because {} is required.", "Yes, because of {}.")
        k = rng.choice([4, 8, 10])
        text += _lettered([verdicts[i % 2].format(rng.choice(phrases)) for i in range(k)])
    return text


def chat(rng: random.Random, phrases: list[str], everything: list[str]) -> str:
    """A request to an assistant, about anything."""
    return rng.choice(templates("chat")).format(
        a=rng.choice(phrases),
        b=rng.choice(everything),
        n=rng.choice(templates("name")),
        k=rng.randint(2, 200),
        l=rng.choice(templates("language")),
    )


FORMS = (multiple_choice, multiple_choice, open_question, passage, case)
