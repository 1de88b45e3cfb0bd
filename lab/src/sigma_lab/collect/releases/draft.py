"""What a builder makes of a release's record, and the one way from there to a question."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sigma_lab.collect.questions import Question, Reference
from sigma_mem.errors import InputError
from sigma_mem.streams.tables import parse

Row = Mapping[str, Any]
PARQUET = "refs/convert/parquet"
Choices = tuple[tuple[str, str], ...]

# How peers are asked to state an answer, by grader: what a grader reads first.
_FORMS = {
    "number": 'Reason step by step. End with a line "Answer: " and the number.',
    "math": "Reason step by step. Put the final answer in \\boxed{}.",
    "choice": 'End with a line "Answer: " and the letter of the right option.',
    "label": 'End with a line "Answer: " and one of these words: {labels}.',
    "span": 'Answer in as few words as possible, on a line "Answer: ".',
    "words": 'End with a line "Answer: " and the words, separated by spaces.',
    "brackets": 'End with a line "Answer: " and the brackets that are missing.',
    "program": "Reply with all of the code in one ```python block.",
}


@dataclass(frozen=True, slots=True)
class Draft:
    """One record of a release: the question, its context and options, and what is right."""

    question: str
    answers: tuple[str, ...] = ()
    key: str = ""  # by default the number of the record
    kind: str = ""
    split: str = ""
    grader: str = ""
    context: str = ""
    choices: Choices = ()
    solution: str = ""
    tests: Mapping[str, Any] = field(default_factory=dict)


def parsed_rows(file: Path) -> Iterable[Row]:
    """The records of a JSON or JSON-lines file."""
    value = parse(file)
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True, slots=True)
class Release:
    """A dataset as it was released: where its files are, and how a record becomes questions.

    A repository whose files are read by a script of its own is read at `PARQUET`, the hub's conversion of it:
    ``datasets`` from version 4 on runs no scripts, and no code of a repository is ever run here.

    ``files`` are patterns below the folder of all releases, the first that matches anything holds. On the
    hub it is ``hub``: repository, split, and configurations (each becomes the row's ``subset``).
    """

    name: str
    domain: str
    split: str
    grader: str
    files: tuple[str, ...]
    build: Callable[[Row], Iterator[Draft]]
    read: Callable[[Path], Iterable[Row]] = parsed_rows
    hub: tuple[str, str, tuple[str, ...]] | None = None
    subsets: bool = False  # the kind is part of the id
    revision: str = "main"  # of the hub's repository

    def found(self, folder: Path) -> list[Path]:
        """The files that are there; none if this release is not available."""
        matches = (sorted(folder.glob(pattern)) for pattern in self.files)
        return next((files for files in matches if files), [])

    def questions(self, rows: Iterable[Row], place: str) -> Iterator[Question]:
        """Build the questions of records; an InputError names the one that is not as released."""
        number = 0
        for row_number, row in enumerate(rows, start=1):
            try:
                for draft in self.build(row):
                    yield assemble(self, draft, number)
                    number += 1
            except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
                got = f"{type(error).__name__}: {error}"
                raise InputError(
                    f"{place}, record {row_number}: not as {self.name} is released ({got})"
                ) from error


def lettered(texts: Iterable[str]) -> Choices:
    """Label options with letters.

    >>> lettered(["red", "blue"])
    (('A', 'red'), ('B', 'blue'))
    """
    return tuple(zip(string.ascii_uppercase, (text.strip() for text in texts), strict=False))


def labels(*names: str) -> Choices:
    """Options that are their own labels, such as yes and no."""
    return tuple((name, name) for name in names)


def assemble(release: Release, draft: Draft, number: int) -> Question:
    """Put the parts together: peers see context, question and form of answer, the center the question."""
    grader = draft.grader or release.grader
    options = "".join(f"\n{label}. {text}" for label, text in draft.choices) if grader == "choice" else ""
    shown = draft.question.strip() + options
    form = _FORMS[grader].replace("{labels}", ", ".join(label for label, _ in draft.choices))
    context = f"Context:\n{draft.context.strip()}\n\nQuestion: " if draft.context else ""
    key = draft.key or str(number)
    return Question(
        id="/".join([release.name, draft.kind, key] if release.subsets else [release.name, key]),
        dataset=release.name,
        domain=release.domain,
        kind=draft.kind,
        split=draft.split or release.split,
        prompt=f"{context}{shown}\n\n{form}",
        center_prompt=shown,
        grader=grader,
        reference=Reference(draft.answers, draft.solution, draft.tests),
        choices=draft.choices,
    )
