"""From the peers' answers to a stream with labels and canons."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

import msgspec

from sigma_lab.collect.graders import GRADERS, Grade
from sigma_lab.collect.program_grader import grade_program
from sigma_lab.collect.questions import Question, json_lines, unique
from sigma_lab.collect.sandbox import DEFAULT, Limits, check_isolation
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Event
from sigma_mem.files import replace_file
from sigma_mem.streams.stream import Stream

Progress = Callable[[str, int, int], None]
Match = Literal["exact", "contained"]


@dataclass(frozen=True, slots=True)
class Graded:
    """The stream, and by (dataset, peer) how many answers there were: right, wrong, unread, failed."""

    stream: Stream
    counts: Mapping[tuple[str, str], Counter[str]]
    how: Mapping[str, Any]  # what decided which answers are right

    def save_how(self, stream: Path) -> None:
        """Write how the answers were graded next to the file of the stream, for reports."""
        text = json.dumps({"sha256": self.stream.sha256, **self.how}, indent=1) + "\n"
        with replace_file(how_graded(stream)) as temporary:
            Path(temporary).write_text(text, encoding="utf-8")


def how_graded(stream: Path) -> Path:
    """The file that records how the answers of a stream were graded.

    >>> how_graded(Path("data/ood.jsonl.gz")).name
    'ood.grading.json'
    """
    return stream.with_name(f"{stream.name.split('.')[0]}.grading.json")


class Response(msgspec.Struct, frozen=True):
    """One peer's answer to one question, as ``sigma-mem data answer`` writes it."""

    id: str
    peer: str
    text: str | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if self.text is None and self.error is None:
            raise ValueError("got neither text nor error")


def read_responses(path: str | PathLike[str]) -> list[Response]:
    """Read a file of answers: one per question and peer."""
    file = Path(fspath(path))
    found = json_lines(file, Response, "an answer of sigma-mem data answer, with id, peer and text")
    return unique(file, found, lambda response: (response.id, response.peer))


def grade_answers(
    questions: Sequence[Question],
    responses: Sequence[Response],
    *,
    name: str = "graded",
    match: Match = "exact",
    limits: Limits = DEFAULT,
    workers: int | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Graded:
    """Grade every response, and gather those of a question into an event that shows what the center sees.

    A peer that failed is absent from the event: no answer, no label. A span is right if it equals an
    accepted answer, or with ``match="contained"`` also if it contains one.
    """
    by_id = {question.id: question for question in questions}
    if unknown := next((r.id for r in responses if r.id not in by_id), None):
        raise InputError(
            f"an answer is to question {unknown!r}, which is not among the questions; give their file"
        )
    asked = [(by_id[r.id], r.text or "") for r in responses if r.error is None]
    grades, memory = grade_all(asked, limits, workers, progress)
    peers = tuple(dict.fromkeys(response.peer for response in responses))
    answers: dict[str, dict[str, Answer]] = {}
    labels: dict[str, dict[str, float]] = {}
    counts: dict[tuple[str, str], Counter[str]] = {}
    for response in responses:
        question, text = by_id[response.id], response.text or ""
        count = counts.setdefault((question.dataset, response.peer), Counter())
        if response.error is not None:
            count["failed"] += 1
            continue
        grade = grades[response.id, text]
        right = grade.right or (match == "contained" and grade.contained)
        count["right" if right else "wrong"] += 1
        count["unread"] += grade.canon is None
        answers.setdefault(question.id, {})[response.peer] = Answer(text, grade.canon)
        labels.setdefault(question.id, {})[response.peer] = 1.0 if right else -1.0
    events = tuple(_event(q, answers[q.id], labels[q.id], peers) for q in questions if q.id in answers)
    graders = sorted({question.grader for question, _ in asked})
    how = {
        "spans": match,
        "graders": graders,
        "programs": {**asdict(limits), "bound": memory} if memory else {},
    }
    return Graded(Stream(name, peers, events), counts, how)


def _event(
    question: Question, answers: Mapping[str, Answer], labels: Mapping[str, float], peers: Sequence[str]
) -> Event:
    here = [peer for peer in peers if peer in answers]
    return Event(
        question.id,
        question.center_prompt,
        {peer: answers[peer] for peer in here},
        {peer: labels[peer] for peer in here},
        question.domain,
        question.dataset,
        question.reference.answers[0] if question.reference.answers else None,
    )


def grade_all(
    asked: Iterable[tuple[Question, str]],
    limits: Limits = DEFAULT,
    workers: int | None = None,
    progress: Progress = lambda what, done, total: None,
) -> tuple[dict[tuple[str, str], Grade], str]:
    """Grades by (question's id, response), programs side by side in sandboxes; and how these are bounded."""
    todo = {(question.id, text): question for question, text in asked}
    programs = [key for key, question in todo.items() if question.grader == "program"]
    grades: dict[tuple[str, str], Grade] = {}
    memory = check_isolation(limits) if programs else ""  # before any work is done
    texts = [key for key, question in todo.items() if question.grader != "program"]
    for number, key in enumerate(texts):
        question = todo[key]
        if question.grader not in GRADERS:
            known = ", ".join([*GRADERS, "program"])
            raise InputError(
                f"question {question.id!r} wants grader {question.grader!r}; expected one of {known}"
            )
        progress("answers", number, len(texts))
        grades[key] = GRADERS[question.grader](question, key[1])
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        running = {pool.submit(grade_program, todo[key], key[1], limits): key for key in programs}
        for number, done in enumerate(as_completed(running)):
            progress("programs", number, len(programs))
            grades[running[done]] = done.result()
    return grades, memory
