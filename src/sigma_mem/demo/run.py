"""Run the demo: route, let everybody answer, vote, grade, show it as it goes; here or through a service."""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sigma_mem.client import Client
from sigma_mem.demo.agents import PEERS, team
from sigma_mem.demo.screen import progress_line, screen
from sigma_mem.demo.story import Memory, Notice, Step, Story, relation_of
from sigma_mem.demo.tasks import Task, draw, is_right
from sigma_mem.errors import SigmaMemError
from sigma_mem.session import SigmaMem

Show = Callable[[Memory, Story, Step, list[Notice]], None]  # called after every task, with what is new
UNGRADED = 5  # tasks that a served demo leaves in the dashboard's inbox
_TIMED = 40  # tasks on which the agents are timed


def run(
    tasks: int = 1500,
    seed: int = 0,
    speed: float | None = None,
    memory: Path | None = None,
    console: Console | None = None,
    service: str | None = None,
) -> Story:
    """Run the demo and return its story; the calculator goes bad after half of the tasks.

    ``speed`` is in tasks per second, None for as fast as possible. On a console it is shown live if that
    is a terminal, else in lines. With the address of a service the memory is in the service, and
    reached over HTTP. It gets each task's topic and what the agents cost. Some tasks more than ``tasks`` are
    left without grades, for a person to grade in the dashboard.
    """
    story = Story(tasks, fault_at=tasks // 2, service=service)
    with ExitStack() as stack:
        mem: Memory
        if service is None:
            mem = stack.enter_context(SigmaMem(PEERS, memory))
        else:
            mem = stack.enter_context(Client(service, key="")).namespace("default", PEERS)
            set_prices(mem, draw(_TIMED, seed))
        show: Show | None = None
        if console is not None and console.is_terminal:
            live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
            show = _frames(stack.enter_context(live))
        elif console is not None:
            show = _lines(console)
        begin = time.monotonic()
        drawn = draw(tasks + UNGRADED, seed)
        for step in play_tasks(mem, drawn[:tasks], story.fault_at, topics=service is not None):
            notices = story.add(step)
            if show is not None:
                show(mem, story, step, notices)
            if speed:
                time.sleep(max(0.0, begin + step.number / speed - time.monotonic()))
        story.relation = relation_of(mem)
        if service is not None:
            for task in drawn[tasks:]:
                given = {peer: answer(task.question) or None for peer, answer in team(2).items()}
                mem.decide(task.question, given, topic=task.domain)
    return story


def play_tasks(mem: Memory, tasks: Sequence[Task], fault_at: int, topics: bool = False) -> Iterator[Step]:
    """Work through the tasks; after task `fault_at` the calculator is updated to its faulty version.

    Every task is one event of the memory: routed before anyone answers, voted on, decided adaptively, then
    graded. The memory sees the question and the answers, and afterwards the grades; with ``topics`` also
    the task's domain.
    """
    for number, task in enumerate(tasks, start=1):
        agents = team(calculator_version=1 if number <= fault_at else 2)
        topic = task.domain if topics else None
        routed = mem.route(task.question, topic=topic)
        answers = {peer: answer(task.question) for peer, answer in agents.items()}
        given = {peer: answer or None for peer, answer in answers.items()}
        voted = mem.vote(task.question, given, topic=topic, after=routed.id)
        decided = mem.decide(task.question, given, topic=topic, after=routed.id)
        right = {peer: is_right(task, answer) for peer, answer in answers.items()}
        source: dict[str, Any] = (
            {} if isinstance(mem, Client) else {"source": "grader"}
        )  # of a service, the key
        mem.feedback(voted.id, right, **source)
        chosen = {"route": routed.peer or "", "vote": voted.peer or "", "decide": decided.peer or ""}
        chosen["majority"] = _majority(decided.canons)
        yield Step(number, task, answers, right, chosen, routed.probs, routed.effective, routed.id)


def _majority(canons: Mapping[str, str | None]) -> str:
    """A peer that gave the most frequent answer, the first one of a tie; "" if none can be read."""
    given = [canon for canon in canons.values() if canon is not None]
    most = max(given, key=given.count, default=None)
    return next((peer for peer, canon in canons.items() if canon == most and most is not None), "")


def set_prices(mem: Memory, tasks: Sequence[Task]) -> None:
    """Tell the memory what each agent costs: its milliseconds of processor time for a task, as measured."""
    for peer, answer in team(1).items():
        begin = time.process_time()
        for task in tasks:
            answer(task.question)
        seconds = (time.process_time() - begin) / len(tasks)
        mem.set_price(peer, per_call=1000.0 * seconds, latency=seconds)


def _lines(console: Console) -> Show:
    """Plain lines, 15 over the whole run, for a pipe or a file."""

    def show(mem: Memory, story: Story, step: Step, notices: list[Notice]) -> None:
        lines = [f"task {notice.number:5d}  {notice.text}" for notice in notices]
        if step.number % math.ceil(story.tasks / 15) == 0 or step.number == story.tasks:
            story.look(mem, step)
            lines += [progress_line(story), f"            why: {story.why}"]
        for line in lines:
            console.print(Text(line), soft_wrap=True)

    return show


def _frames(live: Live) -> Show:
    """A live screen, for a terminal."""
    next_frame = next_why = 0.0

    def show(mem: Memory, story: Story, step: Step, notices: list[Notice]) -> None:
        nonlocal next_frame, next_why
        now = time.monotonic()
        last = step.number == story.tasks
        if now < next_frame and not last:
            return
        next_frame = now + 1 / 8
        if now >= next_why or last:  # long enough to be read
            next_why = now + 2.5
            story.look(mem, step)
        live.update(screen(story), refresh=True)

    return show


_SERVES = "sigma-mem serves on "
_COMMAND = (sys.executable, "-c", "from sigma_mem.cli import main; main()", "serve")


@contextmanager
def running_service(memory: Path | None = None, port: int = 0) -> Iterator[str]:
    """A service that listens on loopback and keeps texts; gives its address, and ends with the block.

    It reads a configuration of its own: neither a ``sigma-mem.toml`` here nor variables change the demo.

    Parameters
    ----------
    memory : path, optional
        File of its memory; by default one that is deleted at the end.
    port : int
        0 takes a free one.
    """
    with tempfile.TemporaryDirectory(prefix="sigma-mem-demo-") as folder:
        file = Path(folder, "demo.toml")
        path = Path(folder, "demo.db") if memory is None else memory.absolute()
        settings = f"path = {json.dumps(str(path))}\nport = {port}\nkeep_text = true\naccess_log = false\n"
        file.write_text(settings, encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SIGMA_MEM_")}
        environment["OMP_NUM_THREADS"] = "1"  # its arrays are small
        with (
            Path(folder, "log").open("w", encoding="utf-8") as log,
            subprocess.Popen(
                [*_COMMAND, "--config", str(file), "--log", "text"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the demo, which then stops the service
            ) as process,
            _stopped_at_the_end(process),
        ):
            yield _address(process, log.name)


def _address(process: subprocess.Popen[str], log: str) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith(_SERVES):
        process.wait(30)
        said = Path(log).read_text(encoding="utf-8").strip().splitlines()
        raise SigmaMemError(f"the demo's service did not start: {said[-1] if said else 'it printed nothing'}")
    return line.removeprefix(_SERVES).strip()


@contextmanager
def _stopped_at_the_end(process: subprocess.Popen[str]) -> Iterator[None]:
    """Stop the process however the block ends, also by SIGTERM or when the terminal is closed."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
        for number, handler in before.items():
            signal.signal(number, handler)
