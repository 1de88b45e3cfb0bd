"""Graders are checked on what is known: reference answers must come out right, broken ones wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sigma_lab.collect.graded import grade_all
from sigma_lab.collect.math_answers import math_canon
from sigma_lab.collect.questions import Question
from sigma_mem.answers.canon import canon

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Checked:
    """How a dataset's references were graded; questions without any reference are not in ``graded``."""

    dataset: str
    questions: int
    graded: int
    right: int
    broken: int  # broken references that could be made
    caught: int  # and were graded as wrong
    misgraded: tuple[tuple[str, str], ...]  # id and reason


def check_references(
    questions: Sequence[Question],
    workers: int | None = None,
    progress: Progress = lambda what, done, total: None,
) -> list[Checked]:
    """Grade every reference, and a broken form of it, as if a peer had given them."""
    good = {question.id: reference_response(question) for question in questions}
    by_dataset: dict[str, list[Question]] = {}
    for question in questions:
        by_dataset.setdefault(question.dataset, []).append(question)
    bad = {
        question.id: _broken(question, own, n)
        for own in by_dataset.values()
        for n, question in enumerate(own)
    }
    pairs = [(q, text) for q in questions for text in (good[q.id], bad[q.id]) if text]
    grades, _ = grade_all(pairs, workers=workers, progress=progress)
    rows = []
    for dataset, own in by_dataset.items():
        wrong = [(q.id, g.why or f"read as {g.canon!r:.80}") for q in own
                 if good[q.id] and not (g := grades[q.id, good[q.id]]).right]  # fmt: skip
        passed = [
            (q.id, "broken, and graded as right") for q in own if bad[q.id] and grades[q.id, bad[q.id]].right
        ]
        graded, broken = sum(bool(good[q.id]) for q in own), sum(bool(bad[q.id]) for q in own)
        caught = broken - len(passed)
        rows.append(
            Checked(dataset, len(own), graded, graded - len(wrong), broken, caught, (*wrong, *passed))
        )
    return rows


def reference_response(question: Question) -> str:
    """The reference as a peer would have written it; "" if there is none."""
    reference = question.reference
    if question.grader == "program":
        return f"```python\n{reference.solution}\n```" if reference.solution else ""
    return reference.solution or _written(question, reference.answers[0])


def _written(question: Question, answer: str) -> str:
    return f"So it is \\boxed{{{answer}}}." if question.grader == "math" else f"I think so.\nAnswer: {answer}"


def _broken(question: Question, questions: Sequence[Question], place: int) -> str:
    """A wrong response: another option, another question's answer, a program without results."""
    if question.grader == "program":
        code = _without_results(question.reference.solution)
        return f"```python\n{code}\n```" if code else ""
    if question.choices:
        wrong = [label for label, _ in question.choices if label not in question.reference.answers]
        return _written(question, wrong[0]) if wrong else ""  # one record of BBH has a single option
    read: Callable[[str], str | None] = math_canon if question.grader == "math" else canon
    right = {_comparable(answer, read) for answer in question.reference.answers}
    near = [questions[(place + step) % len(questions)] for step in range(1, 31)]
    same_kind = {q.reference.answers[0] for q in near if q.grader == question.grader and q.reference.answers}
    by_length = sorted(
        same_kind, key=lambda answer: (len(answer), answer)
    )  # math-verify is quick with short ones
    other = next((answer for answer in by_length if _comparable(answer, read) not in right), "")
    return _written(question, other) if other else ""


def _comparable(answer: str, read: Callable[[str], str | None]) -> str:
    return read(f"\\boxed{{{answer}}}") or answer


class _Forgetful(ast.NodeTransformer):
    """Takes the value out of every return and the effect out of every print."""

    def visit_Return(self, node: ast.Return) -> ast.AST:
        return ast.Return(ast.Constant(None))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        printed = isinstance(node.func, ast.Name) and node.func.id == "print"
        return ast.Constant(None) if printed else self.generic_visit(node)


def _without_results(solution: str) -> str:
    try:
        tree = ast.parse(solution)
    except SyntaxError:
        return ""
    return ast.unparse(ast.fix_missing_locations(_Forgetful().visit(tree)))
