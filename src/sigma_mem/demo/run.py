"""Run the demo: route, let everybody answer, vote, grade and tell the memory, and show it as it goes."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sigma_mem.demo.agents import PEERS, team
from sigma_mem.demo.screen import progress_line, screen
from sigma_mem.demo.story import Notice, Step, Story
from sigma_mem.demo.tasks import Task, draw, is_right
from sigma_mem.session import SigmaMem

Show = Callable[[SigmaMem, Story, Step, list[Notice]], None]  # called after every task, with what is new


def run(
    tasks: int = 1500,
    seed: int = 0,
    speed: float | None = None,
    memory: Path | None = None,
    console: Console | None = None,
) -> Story:
    """Run the demo and return its story; the calculator goes bad after half of the tasks.

    ``speed`` is in tasks per second, None for as fast as possible. On a console it is shown live if that
    is a terminal, else in lines.
    """
    story = Story(tasks, fault_at=tasks // 2)
    with ExitStack() as stack:
        mem = stack.enter_context(SigmaMem(PEERS, memory))
        show: Show | None = None
        if console is not None and console.is_terminal:
            live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
            show = _frames(stack.enter_context(live))
        elif console is not None:
            show = _lines(console)
        begin = time.monotonic()
        for step in play_tasks(mem, draw(tasks, seed), story.fault_at):
            notices = story.add(step)
            if show is not None:
                show(mem, story, step, notices)
            if speed:
                time.sleep(max(0.0, begin + step.number / speed - time.monotonic()))
        story.relation = mem.state.G
    return story


def play_tasks(mem: SigmaMem, tasks: Sequence[Task], fault_at: int) -> Iterator[Step]:
    """Work through the tasks; after task `fault_at` the calculator is updated to its faulty version.

    Every task is one event of the memory: routed before anyone answers, voted on, decided adaptively, then
    graded. The memory sees the question and the answers, and afterwards the grades.
    """
    for number, task in enumerate(tasks, start=1):
        agents = team(calculator_version=1 if number <= fault_at else 2)
        routed = mem.route(task.question)
        answers = {peer: answer(task.question) for peer, answer in agents.items()}
        given = {peer: answer or None for peer, answer in answers.items()}
        voted = mem.vote(task.question, given, after=routed.id)
        decided = mem.decide(task.question, given, after=routed.id)
        right = {peer: is_right(task, answer) for peer, answer in answers.items()}
        mem.feedback(voted.id, right, source="grader")
        chosen = {"route": routed.peer or "", "vote": voted.peer or "", "decide": decided.peer or ""}
        chosen["majority"] = decided.reads.get("majority", "")
        yield Step(number, task, answers, right, chosen, routed.probs, routed.effective, routed.id)


def _lines(console: Console) -> Show:
    """Plain lines, 15 over the whole run, for a pipe or a file."""

    def show(mem: SigmaMem, story: Story, step: Step, notices: list[Notice]) -> None:
        lines = [f"task {notice.number:5d}  {notice.text}" for notice in notices]
        if step.number % math.ceil(story.tasks / 15) == 0 or step.number == story.tasks:
            story.look(mem, step)
            lines += [progress_line(story), f"            why: {story.why}"]
        for line in lines:
            console.print(Text(line), soft_wrap=True)

    return show


def _frames(live: Live) -> Show:
    """A live screen, for a terminal."""
    blocks = (live.console.encoding or "").lower().startswith("utf")
    next_frame = next_why = 0.0

    def show(mem: SigmaMem, story: Story, step: Step, notices: list[Notice]) -> None:
        nonlocal next_frame, next_why
        now = time.monotonic()
        last = step.number == story.tasks
        if now < next_frame and not last:
            return
        next_frame = now + 1 / 8
        if now >= next_why or last:  # long enough to be read
            next_why = now + 2.5
            story.look(mem, step)
        live.update(screen(story, blocks), refresh=True)

    return show
