"""Questions as values and as files of JSON lines: what peers see, what the center sees, what is right."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from gzip import compress
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sigma_lab.collect.task_prompts import json_lines
from sigma_mem.errors import InputError
from sigma_mem.files import replace_file
from sigma_mem.streams.jsonl import file_error


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
        ``dataset/number``, or ``dataset/kind/number`` where a dataset has subsets.
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
    """Write one question per line, compressed where the name ends in ``.gz``; whole or not at all."""
    target = Path(fspath(path))
    lines = "".join(json.dumps(asdict(question), ensure_ascii=False) + "\n" for question in questions)
    data = lines.encode("utf-8", "replace")
    try:
        with replace_file(target) as temporary:
            temporary.write_bytes(compress(data, 6, mtime=0) if target.suffix == ".gz" else data)
    except OSError as error:
        raise file_error(target, "write", error) from error


def read_questions(path: str | PathLike[str]) -> list[Question]:
    """Read and check a file of questions; an InputError names the line."""
    questions: dict[str, Question] = {}
    for number, record in json_lines(Path(fspath(path))):
        question = _question(place := f"{fspath(path)}, line {number}", record)
        if questions.setdefault(question.id, question) is not question:
            raise InputError(f"{place}: id {question.id!r} is there twice; ids must differ")
    if not questions:
        raise InputError(f"{fspath(path)}: holds no question; make it with sigma-mem data questions")
    return list(questions.values())


_TEXTS = ("id", "dataset", "domain", "kind", "split", "prompt", "center_prompt", "grader")


def _question(place: str, record: dict[str, Any]) -> Question:
    for name in _TEXTS:
        if not isinstance(record.get(name), str):
            raise InputError(f"{place}: {name!r} is {record.get(name)!r:.60}; expected a string")
    reference, choices = record.get("reference"), record.get("choices", [])
    if not isinstance(reference, dict) or not _strings(reference.get("answers", [])):
        raise InputError(f"{place}: 'reference' is {reference!r:.60}; expected answers, solution and tests")
    if not isinstance(choices, list) or not all(_strings(pair) and len(pair) == 2 for pair in choices):
        raise InputError(f"{place}: 'choices' is {choices!r:.60}; expected pairs of label and text")
    return Question(
        **{name: record[name] for name in _TEXTS},
        reference=Reference(
            tuple(reference.get("answers", [])), reference.get("solution", ""), reference.get("tests", {})
        ),
        choices=tuple((label, text) for label, text in choices),
    )


def _strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
