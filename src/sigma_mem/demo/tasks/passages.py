"""Questions about a passage of a few sentences on three people.

The truth is the drawn fact itself, before it was put into words. Some sentences speak
of "he" or "she", and some passages hold years and counts while others hold none.
"""

from __future__ import annotations

import random

__all__ = ["reading"]

_WOMEN = ("Ada", "Bina", "Clara", "Dora", "Edith", "Freya", "Greta", "Hanna")
_MEN = ("Abel", "Boris", "Conrad", "Dmitri", "Emil", "Felix", "Gustav", "Hugo")
_JOBS = ("baker", "surgeon", "carpenter", "pilot", "librarian", "gardener", "tailor", "chemist")
_CITIES = ("Lisbon", "Oslo", "Prague", "Nairobi", "Quito", "Hanoi", "Turin", "Perth", "Lagos", "Kyoto")
_THINGS = ("violins", "clocks", "maps", "lamps", "bicycles", "kettles")


def _profile(
    rng: random.Random, name: str, she: bool, job: str, cities: list[str]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Two sentences without a figure, and the questions they answer."""
    home, origin = cities
    who = ("She" if she else "He") if rng.random() < 0.4 else name
    sentences = [f"{name} works as a {job} in {home}.", f"{who} grew up in {origin}."]
    asked = [
        (f"Who works as a {job}?", name),
        (f"In which city does {name} work?", home),
        (f"In which city did {name} grow up?", origin),
    ]
    return sentences, asked


def _account(
    rng: random.Random, name: str, she: bool, job: str, things: list[str]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Two sentences with a year and a count, and the questions they answer."""
    year, count, thing = rng.randint(1950, 2020), rng.randint(3, 60), rng.choice(things)
    who = ("she" if she else "he") if rng.random() < 0.4 else name
    sentences = [f"{name} became a {job} in {year}.", f"Today {who} owns {count} {thing}."]
    asked = [
        (f"Who became a {job}?", name),
        (f"In which year did {name} become a {job}?", str(year)),
        (f"How many {thing} does {name} own?", str(count)),
    ]
    return sentences, asked


def reading(rng: random.Random) -> tuple[str, str]:
    """Draw a passage with a question, and the true answer.

    >>> question, answer = reading(random.Random(3))
    >>> question.startswith("Read the passage.") and answer in question
    True
    """
    people = [(name, True) for name in rng.sample(_WOMEN, 2)] + [(rng.choice(_MEN), False)]
    rng.shuffle(people)
    jobs, cities, things = rng.sample(_JOBS, 3), rng.sample(_CITIES, 6), rng.sample(_THINGS, 2)
    with_figures = rng.random() < 0.5
    sentences: list[str] = []
    asked: list[tuple[str, str]] = []
    for i, (name, she) in enumerate(people):
        if with_figures:
            told, asks = _account(rng, name, she, jobs[i], things)
        else:
            told, asks = _profile(rng, name, she, jobs[i], cities[2 * i : 2 * i + 2])
        sentences += told
        asked += asks
    question, answer = rng.choice(asked)
    return f"Read the passage. {' '.join(sentences)}\nQuestion: {question}", answer
