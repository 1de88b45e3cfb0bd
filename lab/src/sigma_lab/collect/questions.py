"""Questions as values and as files of JSON lines: what peers see, what the center sees, what is right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import msgspec

from sigma_lab.collect.task_prompts import json_lines, write_json_lines
from sigma_mem.errors import InputError


@dataclass(frozen=True, slots=True)
class Reference:
    """What a right answer is: accepted answers, or tests that a program must pass; and a worked solution."""

    answers: tuple[str, ...] = ()
    solution: str = ""
    tests: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """One task of a dataset.

    Attributes
    ----------
    id : str
        ``dataset/number``, or ``dataset/kind/number`` if a dataset has subsets.
    domain, kind : str
        The paper's domain (mathematics, rag, code …), and the dataset's own subject or subset.
    prompt : str
        What peers see, context and the form of an answer included.
    center_prompt : str
        What the center sees: the supporting context of a RAG question is hidden from it.
    choices : pairs of (label, text)
        The options, if it has any; peers see them in the prompt too.
    grader : str
        A name in `sigma_lab.collect.graders.GRADERS`.
    """

    id: str
    dataset: str
    domain: str
    kind: str
    split: str
    prompt: str
    center_prompt: str
    grader: str
    reference: Reference
    choices: tuple[tuple[str, str], ...] = ()


def write_questions(questions: Iterable[Question], path: str | PathLike[str]) -> None:
    """Write one question per line, compressed if the name ends in ``.gz``; whole or not at all."""
    write_json_lines(Path(fspath(path)), map(asdict, questions))


def read_questions(path: str | PathLike[str]) -> list[Question]:
    """Read and check a file of questions; an InputError names the line."""
    questions: dict[str, Question] = {}
    for number, record in json_lines(Path(fspath(path))):
        place = f"{fspath(path)}, line {number}"
        try:
            question = msgspec.convert(record, Question)
        except msgspec.ValidationError as error:
            raise InputError(f"{place}: no question ({error}); expected a line of data questions") from error
        if questions.setdefault(question.id, question) is not question:
            raise InputError(f"{place}: id {question.id!r} is there twice; ids must differ")
    if not questions:
        raise InputError(f"{fspath(path)}: holds no question; make it with sigma-mem data questions")
    return list(questions.values())
