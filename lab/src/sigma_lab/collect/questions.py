"""Questions as values and as files of JSON lines: what peers see, what the center sees, what is right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sigma_lab.collect.task_prompts import json_lines, unique, write_json_lines


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
    file = Path(fspath(path))
    return unique(file, json_lines(file, Question, "a line of data questions"), lambda question: question.id)
