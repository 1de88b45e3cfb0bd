"""The demo through a service of its own: the same story as in the process, and nothing left behind."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time

import httpx2
import pytest

from sigma_mem import Client, Settings, SigmaMem
from sigma_mem.demo.agents import PEERS
from sigma_mem.demo.run import UNGRADED, play_tasks, run, running_service
from sigma_mem.demo.tasks import DOMAINS, draw

TASKS = 60
COMMAND = (sys.executable, "-c", "from sigma_mem.cli import main; main()", "demo", "--serve")


def test_through_the_service_it_is_the_story_of_the_process() -> None:
    """Whom every read chose, what it knew, and G: all as without a service."""
    with running_service() as url:
        story = run(tasks=TASKS, seed=4, service=url)
        page = httpx2.get(f"{url}/dashboard/")
        with Client(url) as client:
            table, unlabelled = client.trust(), httpx2.get(f"{url}/v1/memory/default/unlabelled").json()
            prices = client.spent().prices
    here = SigmaMem(PEERS, settings=Settings(trusted=("grader",)))
    steps = list(play_tasks(here, draw(TASKS, 4), story.fault_at, topics=True))
    assert (story.relation == here.state.G).all()
    for peer in PEERS:
        assert story.mean(peer) == sum(step.right[peer] for step in steps) / TASKS
    for read in ("route", "vote", "decide"):
        right = [step.right.get(step.chosen[read], False) for step in steps]
        assert story.mean(read) == sum(right) / TASKS
    assert page.status_code == 200
    assert set(table.topics) == set(DOMAINS)
    assert len(unlabelled["decisions"]) == UNGRADED
    assert all(prices[peer].per_call > 0.0 for peer in PEERS)


def test_a_service_ends_with_its_block() -> None:
    with running_service() as url:
        assert httpx2.get(f"{url}/healthz").status_code == 200
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/healthz")


def test_on_a_terminal_it_stays_until_ctrl_c_and_says_so() -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "--tasks", "8"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
    )
    os.close(theirs)
    try:
        seen = read_until(ours, "until Ctrl-C")
        address = seen[seen.index("http://") : seen.index("/dashboard/")]
        assert httpx2.get(f"{address}/readyz").status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{address}/readyz")
    os.close(ours)


def read_until(terminal: int, text: str, seconds: float = 120.0) -> str:
    """What a terminal showed up to a text."""
    seen, end = "", time.monotonic() + seconds
    while text not in seen:
        assert time.monotonic() < end, seen
        if select.select([terminal], [], [], 1.0)[0]:
            seen += os.read(terminal, 65536).decode(errors="replace")
    return seen
