"""Programs are graded by running them on a task's tests, in a sandbox.

If tests are inputs and outputs, the expected outputs never enter the sandbox: they are compared outside.
Tests that are code (HumanEval, MBPP) run in the program's own process, so a program written for it could fake
its own label, and nothing else.
"""

import ast
import json
import math
import re
import secrets
from collections.abc import Mapping
from typing import Any

from sigma_lab.collect.graders import Grade
from sigma_lab.collect.questions import Question
from sigma_lab.collect.sandbox import DEFAULT, Limits, run_isolated

_FENCE = re.compile(r"^[ \t]*```[ \t]*(\w*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)

# What competition programs may take for granted.
_PRELUDE = """
import bisect, collections, copy, datetime, functools, heapq, io, itertools, json, math, operator, random, re
import statistics, string, sys
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
from builtins import *
sys.setrecursionlimit(50_000)
"""

_MAINS = {
    "asserts": """
import sys
scope = {"__name__": "answer"}
exec(compile(open("answer.py").read(), "answer.py", "exec"), scope)
exec(compile(open("tests.py").read(), "tests.py", "exec"), scope)
token = sys.__stdin__.readline()
sys.__stdout__.write("\\n" + token)
""",
    "stdin": """
scope = {"__name__": "__main__"}
exec(open("prelude.py").read(), scope)
exec(compile(open("answer.py").read(), "answer.py", "exec"), scope)
""",
    "call": """
import json, sys
request = json.loads(sys.__stdin__.readline())
scope = {"__name__": "answer"}
exec(open("prelude.py").read(), scope)
exec(compile(open("answer.py").read(), "answer.py", "exec"), scope)
owner = scope["Solution"]() if "Solution" in scope else None
call = getattr(owner, request["function"]) if owner is not None else scope[request["function"]]
value = call(*request["arguments"])
sys.__stdout__.write("\\n" + request["token"] + json.dumps(value))
""",
}


def grade_program(question: Question, text: str, limits: Limits = DEFAULT) -> Grade:
    """Run the code of a response on every test until one fails; right if none does."""
    tests = question.reference.tests
    code = code_of(text, tests.get("entry") or tests.get("function", ""))
    if not code.strip():
        return Grade(False, None, why="no code")
    form, entry = tests["form"], tests.get("entry", "")
    program = _completed(code, tests["head"], entry) if entry else code
    files = {"main.py": _MAINS[form], "answer.py": program, "prelude.py": _PRELUDE}
    if form == "asserts":
        why = _run_asserts(files | {"tests.py": tests["code"]}, limits)
    else:
        run = _run_stdin if form == "stdin" else _run_call
        failures = (run(files, tests, case, limits) for case in tests["cases"])
        why = next((failure for failure in failures if failure), "")
    return Grade(not why, program_canon(code), why=why)


def code_of(text: str, entry: str = "") -> str:
    """The code of a response: the last block that defines ``entry``, else the longest, else all of it."""
    fenced: list[tuple[str, str]] = _FENCE.findall(text)
    blocks = [body for kind, body in fenced if kind.lower() in ("", "python", "py", "python3")]
    if not blocks:
        return text
    defining = [body for body in blocks if entry and _defines(body, entry)]
    return defining[-1] if defining else max(blocks, key=len)


def program_canon(code: str) -> str | None:
    """The program without comments, docstrings and layout; None if it cannot be parsed."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1 and _is_text(body[0]):
            del body[0]
    return ast.unparse(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _defines(code: str, entry: str) -> bool:
    return (
        re.search(rf"^\s*(?:async\s+)?def\s+{re.escape(entry)}\b|^{re.escape(entry)}\s*=", code, re.MULTILINE)
        is not None
    )


def _completed(code: str, head: str, entry: str) -> str:
    """A whole function behind what comes before its head, or a body behind the head."""
    if _defines(code, entry):
        return head[: head.rfind(f"def {entry}")] + "\n" + code
    return head + code


def _run_asserts(files: dict[str, str], limits: Limits) -> str:
    """The token is read only behind the last test: a program that merely exits does not know it."""
    token = secrets.token_hex(16)
    run = run_isolated(files, "main.py", token, limits)
    return run.failure or ("" if run.stdout.endswith(f"\n{token}") else "it ended before its tests")


def _run_stdin(files: dict[str, str], tests: Mapping[str, Any], case: list[Any], limits: Limits) -> str:
    run = run_isolated(files, "main.py", case[0], limits)
    return run.failure or ("" if same_output(run.stdout, case[1]) else f"got {run.stdout[:60]!r}")


def _run_call(files: dict[str, str], tests: Mapping[str, Any], case: list[Any], limits: Limits) -> str:
    token = secrets.token_hex(16)
    request = {"function": tests["function"], "arguments": case[0], "token": token}
    run = run_isolated(files, "main.py", json.dumps(request) + "\n", limits)
    value = run.stdout.rpartition(f"\n{token}")[2]
    if run.failure or not value:
        return run.failure or "it ended before its tests"
    try:
        got = json.loads(value)
    except ValueError:
        return f"got {value[:60]!r}"
    expected = case[1]
    wrapped = (
        isinstance(expected, list) and len(expected) == 1 and same_value(got, expected[0])
    )  # as APPS does
    return "" if same_value(got, expected) or wrapped else f"got {value[:60]!r}"


def same_output(got: str, expected: str) -> bool:
    r"""Compare line by line, blanks at the ends aside; numbers up to rounding.

    >>> same_output("1 0.30000000000000004\n", "1 0.3"), same_output("1\n2", "1 2")
    (True, False)
    """
    first, second = ([line.split() for line in text.strip().splitlines()] for text in (got, expected))
    return len(first) == len(second) and all(map(_same_words, first, second))


def _same_words(first: list[str], second: list[str]) -> bool:
    return len(first) == len(second) and all(
        a == b or _close(a, b) for a, b in zip(first, second, strict=True)
    )


def _close(first: str, second: str) -> bool:
    if first.lstrip("-").isdigit() and second.lstrip("-").isdigit():
        return False  # whole numbers are equal or not
    try:
        return math.isclose(float(first), float(second), rel_tol=1e-6, abs_tol=1e-9)
    except ValueError:
        return False


def same_value(got: Any, expected: Any) -> bool:
    """Equal JSON values, floats up to rounding."""
    if isinstance(got, float) or isinstance(expected, float):
        both = isinstance(got, int | float) and isinstance(expected, int | float)
        return both and math.isclose(got, expected, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(got, list) and isinstance(expected, list):
        return len(got) == len(expected) and all(map(same_value, got, expected))
    if isinstance(got, dict) and isinstance(expected, dict):
        return got.keys() == expected.keys() and all(same_value(got[key], expected[key]) for key in got)
    return type(got) is type(expected) and bool(got == expected)
