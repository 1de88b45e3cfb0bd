"""Answering by words alone: the option, or the part of the passage, that shares most with the question."""

from collections.abc import Sequence

from sigma_lab.collect.local.passages import asked_part, candidates, stem_words, without_options

YES = frozenset({"yes", "true", "entailment"})
NO = frozenset({"no", "false", "not_entailment", "contradiction"})
_ENTAILED = 0.6  # share of the shorter text's words that the longer one repeats


def lexical(prompt: str, choices: Sequence[tuple[str, str]]) -> str:
    """The label of an option, or some words of the passage.

    >>> lexical("Which animal barks at the postman?", [("A", "a fish"), ("B", "a dog that barks")])
    'B'
    >>> lexical("The capital of Bolivia is Sucre. What is the capital of Bolivia?", [])
    'Sucre'
    """
    if (verdict := yes_no_labels(choices)) is not None:
        return (
            verdict[0]
            if repeated_share(without_options(prompt, _texts(choices))) >= _ENTAILED
            else verdict[1]
        )
    if choices:
        known = set(stem_words(without_options(prompt, _texts(choices))))
        return max(choices, key=lambda choice: _share(stem_words(choice[1]), known))[0]
    found = candidates(prompt)
    if found:
        return found[0].text
    words = stem_words(asked_part(prompt))
    return words[-1] if words else "unknown"


def yes_no_labels(choices: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """The labels of "yes" and "no" where the options are such words."""
    by_text = {text.strip().lower(): label for label, text in choices}
    yes, no = (next((by_text[t] for t in by_text if t in words), None) for words in (YES, NO))
    return (yes, no) if yes is not None and no is not None else None


def repeated_share(prompt: str) -> float:
    r"""How much of the shorter of the two longest lines the longer one repeats.

    >>> repeated_share("Dogs bark loudly at night.\nDogs bark.")
    1.0
    """
    lines = sorted((line for line in prompt.splitlines() if line.strip()), key=len)
    if len(lines) < 2:
        return 0.0
    return _share(stem_words(lines[-2]), set(stem_words(lines[-1])))


def _share(words: Sequence[str], known: set[str]) -> float:
    return sum(word in known for word in words) / len(words) if words else 0.0


def _texts(choices: Sequence[tuple[str, str]]) -> list[str]:
    return [text for _, text in choices]
