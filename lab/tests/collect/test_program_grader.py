import pytest

from sigma_lab.collect.program_grader import code_of, grade_program, program_canon, same_output, same_value
from sigma_lab.collect.questions import Question, Reference
from sigma_lab.collect.sandbox import Limits

LIMITS = Limits(cpu=2, wall=30)


def asked(**tests):
    return Question("q", "d", "code", "", "test", "p", "c", "program", Reference(tests=tests))


HEAD = 'from typing import List\n\ndef twice(xs: List[int]):\n    """Times two."""\n'
TWICE = asked(
    form="asserts", head=HEAD, entry="twice", code="def check(f):\n    assert f([1]) == [2]\ncheck(twice)"
)
SUM = asked(form="stdin", cases=[["1 2\n", "3"], ["5 6\n", "11\n"]])
TOTAL = asked(form="call", function="total", cases=[[[[1, 2], 3], 6], [[[], 0], [0]]])


@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize(
    ("question", "text", "why"),
    [
        (TWICE, "    return [2 * x for x in xs]\n", ""),
        (
            TWICE,
            "Sure:\n```python\ndef twice(xs: List[int]):\n    return [2 * x for x in xs]\n```\nDone.",
            "",
        ),
        (TWICE, "```\ndef twice(xs):\n    return xs\n```", "AssertionError"),
        (TWICE, "def twice(xs):\n    return [2 * x", "SyntaxError: '[' was never closed"),
        (TWICE, "def twice(xs):\n    raise SystemExit(0)", "it ended before its tests"),
        (TWICE, "import os\ndef twice(xs):\n    os._exit(0)", "it ended before its tests"),
        (TWICE, "def twice(xs):\n    while True: pass", "over its limit of time"),
        (TWICE, " ", "no code"),
        (SUM, "```python\na, b = map(int, input().split())\nprint(a + b)\n```", ""),
        (SUM, "from __future__ import annotations\nprint(sum(map(int, sys.stdin.read().split())))", ""),
        (SUM, "print(3)", "got '3\\n'"),
        (
            TOTAL,
            "class Solution:\n    def total(self, xs: List[int], y: int) -> int:\n        return sum(xs) + y",
            "",
        ),
        (TOTAL, "def total(xs, y):\n    print('noise')\n    return sum(xs) + y", ""),
        (TOTAL, "def total(xs, y):\n    return 6", "got '6'"),
        (TOTAL, "def other(xs, y):\n    return 6", "KeyError: 'total'"),
    ],
)
def test_programs_run_on_their_tests(question, text, why):
    grade = grade_program(question, text, LIMITS)
    assert (grade.right, grade.why) == (not why, why)


@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize(
    "code",
    [
        "import os, sys\ndef twice(xs):\n    open('tests.py', 'w').write('')\n    return xs",
        "import sys\ndef twice(xs):\n    print('right'); print(True); sys.stdout.flush()\n    return xs",
        "import os\ndef twice(xs):\n    for fd in range(3, 64):\n        try: os.write(fd, b'right')\n"
        "        except OSError: pass\n    return xs",
        "import os\nfor pid in (1, os.getppid()):\n    try: open(f'/proc/{pid}/fd/1', 'w').write('{}')\n"
        "    except OSError: pass\ndef twice(xs):\n    return xs",
    ],
)
def test_writing_to_the_grader_does_not_help(code):
    assert not grade_program(TWICE, code, LIMITS).right
    assert grade_program(TWICE, "    return [2 * x for x in xs]\n", LIMITS).right


def test_code_is_found_in_a_response():
    blocks = ("helper = 1\n", "def f():\n    pass\n")
    text = (
        "First ```x```.\n"
        + "".join(f"```python\n{block}```\nthen\n" for block in blocks)
        + "```text\nlong\n```"
    )
    assert code_of(text, "f") == "def f():\n    pass\n"
    assert code_of("```python\ndef f(): return 1") == "def f(): return 1"  # cut off
    assert code_of("def f(): return 1") == "def f(): return 1"


def test_programs_vote_together_if_they_are_the_same():
    first = 'def f(x):\n    """Doc."""\n    return x+1  # more'
    assert program_canon(first) == program_canon("def f(x):\n\n    return (x + 1)")
    assert program_canon(first) != program_canon("def f(x):\n    return x + 2")
    assert program_canon("def f(:") is None


def test_outputs_are_compared_up_to_blanks_and_rounding():
    assert same_output("1  2 \n3\n\n", "1 2\n3")
    assert not same_output("1 2 3", "1 2\n3")
    assert not same_output("10000000000001", "10000000000002")
    assert not same_output("Yes", "yes")
    assert same_value([1, {"a": 0.1 + 0.2}], [1, {"a": 0.3}])
    assert not same_value(True, 1)
    assert not same_value([1], [1, 2])
