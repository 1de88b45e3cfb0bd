"""The demo end to end: reproducible, above its baselines, and away from the agent that went bad."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from sigma_mem.demo.agents import FAULTY, PEERS, team
from sigma_mem.demo.run import play_tasks, run
from sigma_mem.demo.screen import result, screen, table
from sigma_mem.demo.story import CEILING, QUIET, READS, Step, Story, related_pairs, why
from sigma_mem.demo.tasks import DOMAINS, Task, draw, is_right
from sigma_mem.session import SigmaMem


@pytest.fixture(scope="module")
def story() -> Story:
    return run(tasks=900, seed=3)


def test_the_same_seed_gives_the_same_object_twice() -> None:
    first, second = (json.dumps(result(run(tasks=120, seed=5), 5)) for _ in range(2))
    assert first == second
    assert json.dumps(result(run(tasks=120, seed=6), 6)) != first


def test_grades_are_those_of_the_agents_themselves(story: Story) -> None:
    """Worked out again outside the run: same tasks, same agents, same grades, fault at half."""
    tasks = draw(900, 3)
    for peer in PEERS:
        for part, agents in ((tasks[:450], team(1)), (tasks[450:], team(2))):
            start = 0 if part[0].id == "task-1" else 450
            share = sum(is_right(task, agents[peer](task.question)) for task in part) / 450
            assert story.mean(peer, start, start + 450) == pytest.approx(share)


def test_the_fault_comes_after_exactly_so_many_tasks() -> None:
    task = Task("t", "arithmetic", "What is 2 + 3 * 4?", "14")
    mem = SigmaMem(PEERS, encoder="hashed")
    steps = list(play_tasks(mem, [task] * 6, fault_at=3))
    assert [step.right[FAULTY] for step in steps] == [True, True, True, False, False, False]
    assert [step.answers["guesser"] for step in steps] == ["14"] * 3 + ["20"] * 3
    assert mem.events == 6  # route, vote and decide on one task are one event


def test_route_and_vote_are_above_majority_and_the_best_fixed_peer(story: Story) -> None:
    accuracy = story.mean
    baseline = max(accuracy("majority"), accuracy(story.best_peer()))
    for read in ("route", "vote", "decide"):
        assert accuracy(read) > baseline + 0.1
        assert accuracy(read) <= accuracy(CEILING)


def test_the_memory_moves_away_from_the_agent_that_goes_bad(story: Story) -> None:
    assert story.fault_domain == "arithmetic"
    assert story.moved
    assert 0 <= story.own_tasks <= story.events < 120
    faulty, arithmetic = PEERS.index(FAULTY), DOMAINS.index("arithmetic")
    before, end = story.trust[story.fault_at - 1], story.trust[-1]
    assert before[:, arithmetic].argmax() == faulty
    assert end[faulty, arithmetic] < before[faulty, arithmetic] - 0.2
    assert end[:, arithmetic].argmax() != faulty


def test_the_relation_shows_who_fails_related_pairs(story: Story) -> None:
    assert {"calculator", "guesser"} in [{a, b} for a, b, _ in related_pairs(story.relation, 2)]


def test_the_notices_come_once_each_and_in_order(story: Story) -> None:
    assert [notice.kind for notice in story.notices] == ["fault", "moved"]
    assert story.notices[0].number == 451


def test_result_is_json_without_nan(story: Story) -> None:
    values = json.loads(json.dumps(result(story, 3), allow_nan=False))
    assert set(values["accuracy"]) == {*READS, *PEERS, CEILING}
    assert set(values["trust"]["before"]) == set(PEERS)


def test_even_two_tasks_make_a_run() -> None:
    json.dumps(result(run(tasks=2, seed=0), 0), allow_nan=False)


def test_table_has_every_row(story: Story) -> None:
    out = io.StringIO()
    Console(file=out, width=100).print(table(story))
    for name in ("Σ-Mem route", "Σ-Mem vote", "Σ-Mem decide", "majority", "best fixed peer", *PEERS, CEILING):
        assert name in out.getvalue()


def test_the_screen_fits_a_small_terminal(story: Story) -> None:
    story.why = "quite " * 41  # as long as it gets
    console = Console(width=80, height=24, file=io.StringIO(), force_terminal=True)
    lines = console.render_lines(screen(story))
    assert len(lines) <= 24
    text = ["".join(part.text for part in line) for line in lines]
    assert max(map(cell_len, text)) <= 80
    for word in (*PEERS, *DOMAINS, "route", "vote", "majority", "best fixed peer", "Why:"):
        assert any(word in line for line in text)


def test_a_terminal_gets_frames_and_a_pipe_gets_lines() -> None:
    terminal, pipe = io.StringIO(), io.StringIO()
    run(tasks=30, console=Console(file=terminal, force_terminal=True, width=80, height=24))
    run(tasks=30, console=Console(file=pipe, width=80))
    assert "\x1b[" in terminal.getvalue()
    assert "\x1b" not in pipe.getvalue()
    lines = pipe.getvalue().splitlines()
    assert sum(line.startswith("task ") and "route" in line for line in lines) == 15
    assert sum("has a bug now" in line for line in lines) == 1


def test_why_tells_of_past_tasks() -> None:
    mem = SigmaMem(PEERS, encoder="hashed")
    tasks = draw(40, 1)
    for task in tasks:
        d = mem.route(task.question)
        right = {peer: is_right(task, agent(task.question)) for peer, agent in team().items()}
        mem.feedback(d.id, right)
    none: dict[str, str] = {}
    step = Step(40, tasks[-1], none, right, {"route": d.peer}, d.probs, d.effective, d.id)
    told = why(mem, step)
    assert f"goes to {d.peer}" in told
    labels = [term.label for term in mem.explain(d.id, top=20).contributions]
    assert (" right on “" in told) == (max(labels) > 0)
    assert (" wrong on “" in told) == (min(labels) < 0)


# --- the parts -------------------------------------------------------------------------------


def step_of(number: int, domain: str, routed: str, right: bool = True, known: float = 0.5) -> Step:
    probs, grades = dict.fromkeys(PEERS, known), dict.fromkeys(PEERS, right)
    task = Task("t", domain, "?", "!")
    return Step(number, task, {}, grades, dict.fromkeys(READS, routed), probs, probs, "d")


def test_the_move_is_counted_from_the_fault_to_the_last_task_that_went_there() -> None:
    story, moved = Story(100, fault_at=10), "moved"
    steps = [(number, "arithmetic", FAULTY) for number in range(1, 12)]
    steps += [(12, "code", FAULTY), (13, "arithmetic", FAULTY)]  # code is not its own domain
    steps += [(number, "arithmetic", "runner") for number in range(14, 14 + QUIET - 1)]
    for step in steps:
        assert moved not in [notice.kind for notice in story.add(step_of(*step))]
    assert [notice.kind for notice in story.add(step_of(30, "arithmetic", "runner"))] == [moved]
    assert (story.fault_domain, story.events, story.own_tasks) == ("arithmetic", 3, 2)
    assert not story.add(step_of(31, "arithmetic", "runner"))  # told once
    assert story.moved


def test_there_is_no_move_while_the_agent_is_still_asked() -> None:
    story = Story(100, fault_at=2)
    for number in range(1, 60):
        routed = FAULTY if number < 3 or number % QUIET == 0 else "runner"
        story.add(step_of(number, "arithmetic", routed))
    assert not story.moved


def test_means_of_grades_and_of_trust_over_the_last_tasks_of_a_domain() -> None:
    story = Story(100, fault_at=50)
    assert np.isnan(story.mean("route"))
    for number, right in enumerate([True, True, False, True], start=1):
        story.add(step_of(number, "code", "runner", right, 0.1))
    assert (story.mean("route"), story.mean("vote", 2, 4)) == (0.75, 0.5)
    for number in range(5, 19):
        story.add(step_of(number, "code", "runner", known=0.4))
    assert story.trust_now()[:, 0, DOMAINS.index("code")] == pytest.approx((0.1 + 14 * 0.4) / 15)
    assert np.isnan(story.trust_now()[:, 0, DOMAINS.index("reading")]).all()
