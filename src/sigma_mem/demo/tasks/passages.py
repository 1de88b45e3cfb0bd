"""Questions about a passage of a few sentences on three cooks.

The truth is the drawn fact itself, before it was put into words. Some sentences speak
of "he" or "she", and some passages hold figures while others hold none.
"""

from __future__ import annotations

import random

__all__ = ["reading"]

_WOMEN = ("Ada", "Bina", "Clara", "Dora", "Edith", "Freya", "Greta", "Hanna")
_MEN = ("Abel", "Boris", "Conrad", "Dmitri", "Emil", "Felix", "Gustav", "Hugo")
_DISHES = (
    "onion soup",
    "apple pie",
    "rye bread",
    "lentil stew",
    "pepper salad",
    "carrot cake",
    "garlic noodles",
)
_SPICES = ("cumin", "ginger", "basil", "nutmeg", "thyme", "saffron", "paprika", "mint")
_CITIES = ("Lisbon", "Oslo", "Prague", "Nairobi", "Quito", "Hanoi", "Turin", "Perth", "Lagos", "Kyoto")
_GOODS = ("eggs", "lemons", "potatoes", "figs", "leeks")

Told = tuple[list[str], list[tuple[str, str]]]  # sentences, and the questions they answer


def _seasoned(name: str, who: str, dish: str, city: str, spice: str) -> Told:
    """Two sentences without a figure."""
    sentences = [f"{name} cooks {dish} in {city}.", f"{who} seasons it with {spice}."]
    asked = [
        (f"Who cooks {dish}?", name),
        (f"In which city does {name} cook?", city),
        (f"Which spice does {name} season it with?", spice),
    ]
    return sentences, asked


def _counted(name: str, who: str, dish: str, guests: int, bought: int, goods: str) -> Told:
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
            told, asks = _counted(name, who, dishes[i], *figures, rng.choice(goods))
        else:
            told, asks = _seasoned(name, who, dishes[i], cities[i], spices[i])
        sentences += told
        asked += asks
    question, answer = rng.choice(asked)
    return f"Read the passage. {' '.join(sentences)}\nQuestion: {question}", answer
