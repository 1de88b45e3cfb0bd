"""Reference prompts by subject, the same for the same seed."""

from __future__ import annotations

import random
from importlib import resources

from sigma_mem.encode.reference.forms import FORMS, chat, numeric
from sigma_mem.encode.reference.tasks import code, competition, word_problem

__all__ = ["prompts", "subjects"]

_QUANTITATIVE = (
    "mechan", "electro", "optics", "thermo", "modern ph", "chemistry", "finance", "account",
    "electrical", "statis", "astron", "economics", "econometrics",
)  # fmt: skip
_TASKS = {"word problem": word_problem, "competition": competition, "code": code}


def subjects() -> dict[str, list[str]]:
    """Every subject with its phrases."""
    text = resources.files(__package__).joinpath("subjects.txt").read_text(encoding="utf-8")
    pairs = (line.split(": ", 1) for line in text.splitlines() if line)
    return {name: [phrase.strip() for phrase in phrases.split(";")] for name, phrases in pairs}


def prompts(per_subject: int = 250, seed: int = 1) -> tuple[list[str], list[str]]:
    """Texts, and the subject of each.

    >>> texts, labels = prompts(per_subject=2)
    >>> len(texts) == len(labels), len(set(labels))
    (True, 63)
    """
    rng = random.Random(seed)
    known = subjects()
    everything = [phrase for phrases in known.values() for phrase in phrases]
    texts: list[str] = []
    labels: list[str] = []
    for subject, phrases in known.items():
        for i in range(per_subject):
            texts.append(_prompt(rng, subject, phrases, everything, i))
            labels.append(subject)
    for kind, make in _TASKS.items():
        texts += [make(rng) for _ in range(2 * per_subject)]
        labels += [kind] * (2 * per_subject)
    return texts, labels


def _prompt(rng: random.Random, subject: str, phrases: list[str], everything: list[str], i: int) -> str:
    if subject == "word problems":
        return word_problem(rng)
    if subject in ("algebra", "geometry", "number theory"):
        return competition(rng) if i % 2 else numeric(rng, subject, phrases)
    if subject == "python programming":
        return code(rng)
    if subject == "chat requests":
        return chat(rng, phrases, everything)
    counts = any(part in subject for part in _QUANTITATIVE)
    return rng.choice([*FORMS, *[numeric] * 4] if counts else FORMS)(rng, subject, phrases)
