"""Runs the demo on a screen, in plain lines, or silently."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sigma_mem.session import SigmaMem

from .agents import PEERS
from .lines import progress_line
from .play import SETTINGS, play
from .screen import screen
from .step import Step
from .story import Notice, Story
from .tasks import draw

__all__ = ["Plan", "run"]

_FRAMES = 8  # per second
_LINES = 15  # in a pipe, over the whole run


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: how many tasks, from which seed, how fast, and where to keep the memory."""

    tasks: int = 1500
    seed: int = 0
    speed: float | None = None  # tasks per second, None for as fast as possible
    memory: Path | None = None

    @property
    def fault_at(self) -> int:
        """After so many tasks the calculator goes bad."""
        return self.tasks // 2


class Display(Protocol):
    """Shows a run as it goes."""

    def show(self, mem: SigmaMem, story: Story, step: Step, news: list[Notice]) -> None:
        """Called after every task."""


class _Silent:
    def show(self, mem: SigmaMem, story: Story, step: Step, news: list[Notice]) -> None:
        pass


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, mem: SigmaMem, story: Story, step: Step, news: list[Notice]) -> None:
        for notice in news:
            self._print(f"task {notice.number:5d}  {notice.text}")
        if step.number % math.ceil(story.tasks / _LINES) == 0 or step.number == story.tasks:
            story.look(mem, step)
            self._print(progress_line(story))
            self._print(f"            why: {story.why}")

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


class _Screen:
    def __init__(self, live: Live, blocks: bool) -> None:
        self._live = live
        self._blocks = blocks
        self._half_life = math.log(2) / SETTINGS.rate
        self._next = self._next_why = 0.0

    def show(self, mem: SigmaMem, story: Story, step: Step, news: list[Notice]) -> None:
        now = time.monotonic()
        last = step.number == story.tasks
        if now < self._next and not last:
            return
        self._next = now + 1 / _FRAMES
        if now >= self._next_why or last:  # long enough to be read
            self._next_why = now + 2.5
            story.look(mem, step)
        self._live.update(screen(story, self._half_life, self._blocks), refresh=True)


@contextlib.contextmanager
def _live(console: Console) -> Iterator[Display]:
    blocks = (console.encoding or "").lower().startswith("utf")
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield _Screen(live, blocks)


def _display(console: Console | None) -> AbstractContextManager[Display]:
    if console is None:
        return contextlib.nullcontext(_Silent())
    return _live(console) if console.is_terminal else contextlib.nullcontext(_Lines(console))


def run(plan: Plan, console: Console | None = None) -> Story:
    """Run the demo and return its story.

    Parameters
    ----------
    plan : Plan
    console : Console, optional
        Where to show it: live on a terminal, in lines elsewhere; None shows nothing.
    """
    story = Story(plan.tasks, plan.fault_at)
    with SigmaMem(PEERS, plan.memory, settings=SETTINGS) as mem, _display(console) as display:
        begin = time.monotonic()
        for step in play(mem, draw(plan.tasks, plan.seed), plan.fault_at):
            display.show(mem, story, step, story.add(step))
            if plan.speed:
                time.sleep(max(0.0, begin + step.number / plan.speed - time.monotonic()))
        story.relation = mem.state.G
    return story
