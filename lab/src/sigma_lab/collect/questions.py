"""Questions as values and as files of JSON lines: what peers see, what the center sees, what is right."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from sigma_mem.errors import InputError
from sigma_mem.files import replace_file
from sigma_mem.streams.jsonl import file_error, read_file

T = TypeVar("T")


class TaskPrompt(msgspec.Struct, frozen=True):
    """The part of a question that peers see."""

    id: Annotated[str, Meta(pattern=r"\S")]
    prompt: Annotated[str, Meta(pattern=r"\S")]
    dataset: str = ""


def read_task_prompts(path: Path, limit: int | None = None) -> list[TaskPrompt]:
    """The prompts of a file of questions (JSON lines with ``id`` and ``prompt``, plain or compressed)."""
    found = json_lines(path, TaskPrompt, "a question with id and prompt")
    prompts = unique(path, found, lambda task: task.id)
    clean = [TaskPrompt(clean_text(task.id), clean_text(task.prompt), task.dataset) for task in prompts]
    return clean[:limit]


def json_lines(path: Path, kind: type[T], expected: str) -> list[tuple[int, T]]:
    """The objects of a file of JSON lines as values of a type, with their line numbers."""
    found: list[tuple[int, T]] = []
    for number, line in enumerate(read_file(path).split(b"\n"), start=1):
        if line.strip():
            try:
                found.append((number, msgspec.convert(json.loads(line), kind)))
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path}, line {number}: {error}; expected {expected} as JSON") from error
    return found


def unique(path: Path, found: Sequence[tuple[int, T]], key: Callable[[T], object]) -> list[T]:
    """The values, of which there must be some, and no two with one key."""
    seen: dict[object, T] = {}
    for number, value in found:
        if seen.setdefault(key(value), value) is not value:
            raise InputError(f"{path}, line {number}: {key(value)!r} is there twice; expected it once")
    if not seen:
        raise InputError(f"{path}: is empty; expected one JSON object per line")
    return list(seen.values())


def write_json_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write objects, compressed if the name ends in ``.gz``: whole or not at all, and equal ones alike."""
    lines = (json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for record in records)
    data = b"".join(lines)
    try:
        with replace_file(path) as temporary:
            temporary.write_bytes(gzip.compress(data, 6, mtime=0) if path.suffix == ".gz" else data)
    except OSError as error:
        raise file_error(path, "write", error) from error


def clean_text(text: str) -> str:
    """The text as valid UTF-8: a lone surrogate, which JSON can carry, could not be written to a file."""
    return text.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class Reference:
    """What a right answer is: accepted answers, or tests that a program must pass; and a worked solution."""

    answers: tuple[str, ...] = ()
    solution: str = ""
    tests: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """One task of a dataset."""

    id: str  # dataset/number, or dataset/kind/number if a dataset has subsets
    dataset: str
    domain: str  # the paper's: mathematics, rag, code …
    kind: str  # the dataset's own subject or subset
    split: str
    prompt: str  # what peers see, context and the form of an answer included
    center_prompt: str  # what the center sees: the supporting context of a RAG question is hidden from it
    grader: str  # a name in `sigma_lab.collect.graders.GRADERS`, or program
    reference: Reference
    choices: tuple[tuple[str, str], ...] = ()  # label and text; peers see them in the prompt too


def write_questions(questions: Iterable[Question], path: str | PathLike[str]) -> None:
    """Write one question per line, compressed if the name ends in ``.gz``; whole or not at all."""
    write_json_lines(Path(fspath(path)), map(asdict, questions))


def read_questions(path: str | PathLike[str]) -> list[Question]:
    """Read and check a file of questions; an InputError names the line."""
    file = Path(fspath(path))
    return unique(file, json_lines(file, Question, "a line of data questions"), lambda question: question.id)
