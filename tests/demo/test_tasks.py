"""The tasks' true answers hold, by means that neither the generators nor the agents use."""

from __future__ import annotations

import datetime as dt
import random
import re
import subprocess
import sys

import pytest

from sigma_mem.demo.tasks import DOMAINS, Task, arithmetic, calendar, draw, is_right, reading

TASKS = draw(400, seed=11)


def of(domain: str) -> list[Task]:
    return [task for task in TASKS if task.domain == domain]


def test_same_seed_same_stream_and_another_seed_another() -> None:
    assert draw(400, seed=11) == TASKS
    assert draw(400, seed=12) != TASKS


def test_a_longer_stream_starts_with_the_shorter() -> None:
    assert draw(450, seed=11)[:400] == TASKS


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_domain_gets_its_share(domain: str) -> None:
    assert 70 <= len(of(domain)) <= 130


def test_symbolic_sums_are_what_python_makes_of_them() -> None:
    checked = 0
    for task in of("arithmetic"):
        expression = re.search(r"[(0-9][-+*() 0-9]+[)0-9]", task.question)
        if expression and re.search(r"\d [-+*] ", task.question):
            assert eval(expression[0]) == int(task.answer), task
            checked += 1
    assert checked > 30


def test_sums_in_words_are_what_python_makes_of_them_after_translation() -> None:
    symbols = {"plus": "+", "added to": "+", "minus": "-", "less": "-", "times": "*", "multiplied by": "*"}
    rng = random.Random(5)
    checked = 0
    for _ in range(300):
        question, answer = arithmetic(rng)
        if not any(word in question for word in symbols):
            continue
        for word, symbol in symbols.items():
            question = question.replace(word, symbol)
        assert eval(re.sub(r"[^-+*()0-9]", "", question)) == int(answer)
        checked += 1
    assert checked > 40


def test_programs_print_their_answer_in_a_fresh_python() -> None:
    tasks = of("code")[:25]
    programs = [task.question.split("```python\n")[1].removesuffix("\n```") for task in tasks]
    script = "\n".join(f"exec({program!r}, {{}})" for program in programs)
    out = subprocess.check_output([sys.executable, "-I", "-c", script], text=True)
    assert out.splitlines() == [task.answer for task in tasks]


def test_passages_hold_their_answer_in_the_sentence_that_tells_it() -> None:
    rng = random.Random(8)
    for _ in range(100):
        question, answer = reading(rng)
        assert re.search(rf"\b{answer}\b", question.split("\nQuestion:")[0])


def test_weekdays_agree_with_the_iso_calendar() -> None:
    rng = random.Random(2)
    checked = 0
    for _ in range(200):
        question, answer = calendar(rng)
        if "day of the week" in question:
            day = dt.datetime.strptime(question.split(" is ")[1].rstrip("?"), "%d %B %Y").date()
            names = ("Mon", "Tues", "Wednes", "Thurs", "Fri", "Satur", "Sun")
            assert answer == f"{names[day.isoweekday() - 1]}day"
            checked += 1
    assert checked > 20


@pytest.mark.parametrize(
    ("answer", "right"),
    [("Ada", True), (" ada. ", True), ("Ada Moreno", False), ("", False), ("Adam", False)],
)
def test_grading(answer: str, right: bool) -> None:
    assert is_right(Task("t", "reading", "Who?", "Ada"), answer) is right
