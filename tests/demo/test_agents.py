"""Agents solve what they claim, fail where they say they fail, and the fault is a real one."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from sigma_mem.demo.agents import (
    PEERS,
    Unsupported,
    almanac,
    calculator,
    generalist,
    reader,
    run_program,
    runner,
    team,
)
from sigma_mem.demo.tasks import DOMAINS, draw, is_right

TASKS = draw(800, seed=4)
SIZES = Counter(task.domain for task in TASKS)


def accuracy(version: int) -> dict[tuple[str, str], float]:
    agents = team(version)
    right: Counter[tuple[str, str]] = Counter()
    for task in TASKS:
        for peer in PEERS:
            right[peer, task.domain] += is_right(task, agents[peer](task.question))
    return {(peer, domain): right[peer, domain] / SIZES[domain] for peer in PEERS for domain in DOMAINS}


@pytest.fixture(scope="module")
def before() -> dict[tuple[str, str], float]:
    return accuracy(version=1)


@pytest.mark.parametrize(
    ("peer", "domain", "low", "high"),
    [
        ("calculator", "arithmetic", 0.75, 0.95),  # all but remainders
        ("runner", "code", 0.75, 0.95),  # all but dictionaries
        ("reader", "reading", 0.80, 0.97),  # all but pronouns
        ("almanac", "calendar", 0.93, 1.0),  # all but 1900 and 2100
        ("runner", "arithmetic", 0.5, 0.75),
        ("generalist", "arithmetic", 0.3, 0.6),
        ("generalist", "code", 0.45, 0.75),
        ("generalist", "reading", 0.4, 0.75),
        ("generalist", "calendar", 0.3, 0.6),
        ("calculator", "reading", 0.0, 0.1),
        ("reader", "code", 0.0, 0.1),
        ("almanac", "reading", 0.0, 0.2),
        ("runner", "calendar", 0.0, 0.0),
    ],
)
def test_skills(before, peer, domain, low, high):
    assert low <= before[peer, domain] <= high


def test_the_fault_breaks_the_calculator_and_the_guesser_who_copies_it(before):
    after = accuracy(version=2)
    for peer in ("calculator", "guesser"):
        assert after[peer, "arithmetic"] < before[peer, "arithmetic"] / 2 - 0.1
    for peer in ("runner", "reader", "almanac", "generalist"):
        assert all(after[peer, domain] == before[peer, domain] for domain in DOMAINS)


def test_the_guesser_says_of_sums_what_the_calculator_says_right_or_wrong() -> None:
    for version in (1, 2):
        agents = team(version)
        for task in TASKS:
            if re.search(r"\d [-+*/] ", task.question):
                assert agents["guesser"](task.question) == agents["calculator"](task.question)


def test_every_agent_answers_anything_at_all() -> None:
    endless = "```python\nwhile 1:\n    x = 1\n```"
    for question in ("", "Why?", "(((", "1 / 0", endless, "7 days after 31 May 2001"):
        assert all(isinstance(agent(question), str) for agent in team().values())


@pytest.mark.parametrize(
    ("question", "first", "second"),
    [
        ("What is 2 + 3 * 4?", "14", "20"),
        ("What is 2 + (3 * 4)?", "14", "14"),
        ("Compute 3 times 4 minus 2.", "10", "10"),
        ("Work out 5 added to 6 multiplied by 2.", "17", "22"),
        ("What is 7 / 2?", "3.50", "3.50"),
        ("No figures here.", "", ""),
    ],
)
def test_calculator_versions(question: str, first: str, second: str) -> None:
    assert (calculator(question, 1), calculator(question, 2)) == (first, second)


def test_reader_does_not_resolve_pronouns() -> None:
    told = (
        "Read the passage. Abel cooks soup in Rome. Abel seasons it with mint. Ada cooks rice in Oslo. {}\n"
    )
    assert reader(told + "Question: In which city does Ada cook?") == "Oslo"
    told += "Question: Which spice does Ada season it with?"
    assert reader(told.format("Ada seasons it with thyme.")) == "thyme"
    assert reader(told.format("She seasons it with thyme.")) == "mint"


def test_generalist_reads_only_the_beginning() -> None:
    told = "Read the passage. Ada is a baker. Emil is a pilot.\nQuestion: Who is a pilot?"
    assert generalist(told) == "Emil"
    assert generalist(told, sentences=1) == "Ada"


@pytest.mark.parametrize(
    ("agent", "question", "answer"),
    [
        (runner, "```python\nx = {}\nprint(len(x))\n```", ""),
        (runner, "What is 2 + 3 * 4?", "14"),
        (runner, "Evaluate 2 plus 3 times 4 and say it.", "14"),
        (runner, "Compute 2 added to 3.", ""),
        (runner, "Which day of the week is 3 May 2020?", ""),
        (almanac, "Which date is 45 days after 17 March 2024?", "1 May 2024"),
        (almanac, "Which date is 20 days before 5 January 1999?", "16 December 1998"),
        (almanac, "Which day of the week is 29 February 2024?", "Thursday"),
        (almanac, "How many days pass from 27 February 2023 to 2 March 2023?", "3"),
        (almanac, "How many days pass from 27 February 1900 to 2 March 1900?", "4"),  # wrong, and known to be
        (almanac, "How many minutes are there in 3 hours?", "180"),
        (almanac, "What remainder is left when 87 is divided by 13?", "9"),
    ],
)
def test_answers(agent, question, answer):
    assert agent(question) == answer


@pytest.mark.parametrize(
    "program",
    [
        "x = {}\nprint(len(x))",
        "while 1 < 2:\n    x = 1",
        "def f(n):\n    return f(n)\nf(1)",
        "print('a' + 1)",
        "print(open('x'))",
        "this is not python",
    ],
)
def test_a_program_is_given_up(program: str) -> None:
    with pytest.raises(Unsupported):
        run_program(program)
