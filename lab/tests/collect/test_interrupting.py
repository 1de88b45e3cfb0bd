"""Ctrl-C at any moment: what has arrived is recorded and saved, what is under way ends."""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sigma_lab.collect import answering
from sigma_lab.collect.answering import answer_all, pair_up
from sigma_lab.collect.asking import Reply, TransientError
from sigma_lab.collect.cache import AnswerCache
from sigma_lab.collect.interrupting import delayed_interrupt
from sigma_lab.collect.peers import peer_from
from sigma_lab.collect.task_prompts import TaskPrompt


class HalfSilentPeer:
    """Answers the first question, and the second one never."""

    def __init__(self, peer: object) -> None:
        self.closed = threading.Event()

    def ask(self, requests: Sequence[Any]) -> list[Reply]:
        if requests[0]["input"]["prompt"] == "one":
            return [Reply("yes")]
        assert self.closed.wait(30)
        raise TransientError("cut off")

    def close(self) -> None:
        self.closed.set()


@pytest.fixture(autouse=True)
def _python_interrupts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(answering, "open_peer", HalfSilentPeer)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    yield
    signal.signal(signal.SIGINT, before)


def run_to_the_end(folder: Path) -> list[str]:
    """Answer until KeyboardInterrupt; return the texts that were saved."""
    peers = [peer_from(name, "command:true", {}) for name in ("a", "b")]
    pairs = pair_up([TaskPrompt("1", "one"), TaskPrompt("2", "two")], peers)
    saved: list[list[str | None]] = []
    with AnswerCache(folder / "cache.jsonl") as cache, pytest.raises(KeyboardInterrupt):
        answer_all(pairs, cache, save=lambda: saved.append([r.text for _, r in cache.replies.values()]))
    assert len(saved) == 1
    assert (folder / "cache.jsonl").read_text().count("\n") == len(saved[0])
    return [str(text) for text in saved[0]]


def test_an_interrupt_at_any_moment_saves_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, ask_all = random.Random(0), answering._ask_all

    def interrupted(*arguments: Any) -> None:
        threading.Timer(rng.uniform(0.0, 0.02), os.kill, [os.getpid(), signal.SIGINT]).start()
        ask_all(*arguments)

    monkeypatch.setattr(answering, "_ask_all", interrupted)
    for number in range(40):
        (tmp_path / str(number)).mkdir()
        assert set(run_to_the_end(tmp_path / str(number))) <= {"yes"}


def test_an_interrupt_that_wakes_nobody_is_seen(tmp_path: Path) -> None:
    """One that another thread receives, or that comes just before the main thread begins to wait."""

    def send() -> None:
        while not (tmp_path / "cache.jsonl").exists() or b"\n" not in (tmp_path / "cache.jsonl").read_bytes():
            time.sleep(0.01)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    begun = time.monotonic()
    assert set(run_to_the_end(tmp_path)) == {"yes"}
    assert time.monotonic() - begun < 20
    sender.join()


def test_a_second_interrupt_raises_at_once() -> None:
    passed = []

    def interrupt_twice() -> None:
        with delayed_interrupt() as interrupt:
            signal.raise_signal(signal.SIGINT)
            passed.append(interrupt.came)
            signal.raise_signal(signal.SIGINT)
            passed.append("the second one")

    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()
    assert passed == [True]


def test_a_delayed_interrupt_within_another_one_is_left_to_the_outer() -> None:
    passed = []

    def interrupt_within() -> None:
        with delayed_interrupt() as outer:
            with delayed_interrupt():
                signal.raise_signal(signal.SIGINT)
            passed.append(outer.came)

    with pytest.raises(KeyboardInterrupt):
        interrupt_within()
    assert passed == [True]


def test_an_ignored_interrupt_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with delayed_interrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
    assert not interrupt.came
