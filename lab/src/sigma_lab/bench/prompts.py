"""Everyday prompts of our own writing, by kind of task and language, to judge encoders with.

``data/prompts.txt``: "=== kind", then lines of a tag and a prompt. The tag is a language. A number behind it
is that of the English prompt of the kind that it translates. A plus means that the prompt was written after
the glossary of `sigma_mem.encode.glossary`, which therefore was not fitted to it.
"""

import re
from dataclasses import dataclass
from importlib import resources

LANGUAGES = {
    "English": ("en",),
    "European": ("de", "es", "fr", "it", "nl", "pl", "pt", "ru", "tr"),
    "Asian": ("ar", "hi", "ja", "ko", "zh"),
}
_TAG = re.compile(r"([a-z]{2})(\d*)(\+?)")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, its kind of task and its language."""

    kind: str
    language: str
    text: str
    later: bool  # written after the glossary
    translates: int | None = None  # which English prompt of its kind, from 1

    @property
    def group(self) -> str:
        """English, European or Asian."""
        return next(group for group, languages in LANGUAGES.items() if self.language in languages)


def everyday_prompts() -> tuple[Prompt, ...]:
    """All prompts, in the order of the file."""
    text = resources.files("sigma_lab.bench").joinpath("data/prompts.txt").read_text(encoding="utf-8")
    out: list[Prompt] = []
    kind = ""
    for line in text.splitlines():
        if line.startswith("=== "):
            kind = line.removeprefix("=== ")
            continue
        tag, prompt = line.split("\t")
        found = _TAG.fullmatch(tag)
        if found is None:
            raise ValueError(f"prompts.txt has the tag {tag!r}; expected one such as en, de3 or de+")
        language, number, plus = found.groups()
        out.append(
            Prompt(kind, language, prompt.replace("\\n", "\n"), bool(plus), int(number) if number else None)
        )
    return tuple(out)
