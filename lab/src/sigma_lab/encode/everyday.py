"""Everyday requests in addition to the subjects of `sigma_lab.encode.reference`: our own, by kind of task."""

import random
from collections.abc import Sequence

from sigma_lab.encode.reference import code_body, prompts, subjects, templates

KINDS = (
    "arithmetic", "code request", "debugging", "extraction", "message", "planning", "puzzle", "query",
    "small talk", "spreadsheet", "story", "summary", "translation", "word problems",
)  # fmt: skip
# Subjects of the reference, as people ask about them.
ASKED = (
    "computer systems", "cooking and food", "finance", "general chemistry", "geography", "law contracts",
    "literature and arts", "mechanics", "medicine", "modern history", "psychology",
)  # fmt: skip
# Subjects that share a coordinate, so that there are 63.
SHARED = {
    "word problem": "word problems", "code": "python programming", "databases": "query",
    "algebra": "competition", "geometry": "competition", "number theory": "competition",
    "virology": "medicine", "econometrics": "probability and statistics",
    "american history": "modern history", "energy and environment": "earth science",
    "software engineering": "code request",
}  # fmt: skip
LEFT_OUT = ("chat requests", "everyday common sense")  # too mixed to be a kind
_SHORT = (
    "What is {a}?", "{a}", "Explain {a}.", "Tell me about {a}.", "how does {a} work?", "{a} and {b}",
    "What do you know about {a}?", "why is there {a}?", "I have a question about {a} and {b}.",
    "Can you explain {a} in simple terms?",
)  # fmt: skip
_NAMES = ("items", "orders", "price", "users", "total", "customer", "report", "score", "city", "stock")


def kinds_of_prompts(scale: int = 20) -> tuple[list[str], list[str]]:
    """All texts that the default encoder is fitted on, and the kind of each; 97 a unit of ``scale``."""
    texts, labels = prompts(per_subject=10 * scale)
    for more, names in (short(3 * scale), everyday(KINDS, 12 * scale), everyday(ASKED, 5 * scale)):
        texts, labels = texts + more, labels + names
    kept = [i for i, label in enumerate(labels) if label not in LEFT_OUT]
    return [texts[i] for i in kept], [SHARED.get(labels[i], labels[i]) for i in kept]


def short(per_subject: int, seed: int = 7) -> tuple[list[str], list[str]]:
    """Short questions about the phrases of every subject, and the subject of each."""
    rng = random.Random(seed)
    known = subjects()
    texts = [
        rng.choice(_SHORT).format(**dict(zip("ab", rng.sample(phrases, 2), strict=True)))
        for phrases in known.values()
        for _ in range(per_subject)
    ]
    return texts, [subject for subject in known for _ in range(per_subject)]


def everyday(kinds: Sequence[str], per_kind: int, seed: int = 2) -> tuple[list[str], list[str]]:
    """Requests of these kinds, and the kind of each."""
    rng = random.Random(seed)
    phrases = [phrase for some in subjects().values() for phrase in some]
    texts = [request(rng, kind, phrases) for kind in kinds for _ in range(per_kind)]
    return texts, [kind for kind in kinds for _ in range(per_kind)]


def request(rng: random.Random, kind: str, phrases: list[str]) -> str:
    """One request, its blanks filled with anything."""
    (n, m), (t, u), (w, v) = (rng.sample(templates(what), 2) for what in ("name", "thing", "place"))
    (x, y), (C, D) = rng.sample(_NAMES, 2), sorted(rng.sample("ABCDEFG", 2))
    high = rng.choice([12, 60, 400])
    numbers = {letter: rng.randint(2, high) for letter in "acd"}
    if kind == "arithmetic":
        words = {"b": str(rng.randint(2, high))}
    else:
        words = dict(zip(("b", "b2"), rng.sample(phrases, 2), strict=True))
    text = rng.choice(templates(kind)).format(
        n=n, m=m, t=t, u=u, w=w, v=v, x=x, y=y, C=C, D=D, k=rng.randint(2, 90), p=rng.randint(100, 9999),
        l=rng.choice(templates("language")), g=rng.choice(templates("foreign")),
        e=rng.choice(templates("error")), q=rng.choice(templates("programming language")),
        f=code_body(rng), **numbers, **words,
    )  # fmt: skip
    return text[0].lower() + text[1:] if rng.random() < 0.2 else text
