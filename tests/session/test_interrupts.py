"""After any exception the live state is the ledger's, and the same call again does what was asked."""

import asyncio
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from learned import all_learned
from sigma_mem import AsyncSigmaMem, SigmaMem
from sigma_mem.ledger.fold import Fold
from sigma_mem.store import InMemoryStore

PHI = np.array([1.0, 0.0])


# The tests use the timer that would end them after a time; a thread ends the process instead.
pytestmark = pytest.mark.timeout(method="thread")


class Interrupted(Exception):
    pass


def raise_interrupted(*_: object) -> None:
    raise Interrupted


def same(mem: SigmaMem) -> bool:
    return all_learned(mem) == all_learned(mem.journal.replayed())


def interrupt_for(seconds: float, mem: SigmaMem, seed: int) -> int:
    """Decide and label while a timer raises at random, every id again after that; return how often."""
    rng, hits, n, decided = random.Random(seed), 0, 0, ""
    before = signal.signal(signal.SIGALRM, raise_interrupted)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            try:
                # Again after 0.1 s: Python drops what is raised in a finalizer.
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, 4e-3), 0.1)
                while True:
                    if decided:  # as a sender does that was not told
                        mem.feedback(decided, {"a": True, "b": False}, id=f"{seed}-{n}")
                    decided = ""
                    n += 1
                    decided = mem.route(phi=PHI).id
                    mem.feedback(decided, {"a": True, "b": False}, id=f"{seed}-{n}")
                    decided = ""
            except Interrupted:
                hits += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if decided:
        mem.feedback(decided, {"a": True, "b": False}, id=f"{seed}-{n}")
    return hits


def interrupts_leave_the_state_of_the_ledger(path: Path | None, seconds: float, rounds: int) -> None:
    mem = SigmaMem(["a", "b"], path, rank=2, snapshot_every=64)
    for seed in range(rounds):
        assert interrupt_for(seconds, mem, seed) > 0
        assert same(mem)
        ledger = mem.journal.replayed()
        labelled = [r for r in mem.store.records("default") if r.kind == "feedback"]
        assert len({r.event for r in labelled}) == len(labelled)
        assert ledger.state.clock == mem.events >= len(labelled)
    mem.close()
    if path is not None:
        with SigmaMem(path=path) as mem:
            assert same(mem)


# A signal may come in a finalizer or in a hook of the garbage collector, where Python drops what is raised.
DROPPED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@DROPPED
@pytest.mark.parametrize("kept", ["file", "process"])
def test_a_signal_handler_that_raises_anywhere_leaves_the_state_of_the_ledger(
    tmp_path: Path, kept: str
) -> None:
    interrupts_leave_the_state_of_the_ledger(tmp_path / "m.db" if kept == "file" else None, 0.5, 2)


@DROPPED
@pytest.mark.endurance
def test_signals_for_minutes(tmp_path: Path) -> None:
    interrupts_leave_the_state_of_the_ledger(tmp_path / "m.db", 10.0, 6)


@pytest.mark.parametrize("where", ["apply", "_apply_feedback", "_write", "_add"])
def test_a_retry_with_the_same_id_after_an_interrupt_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = tmp_path / "m.db"
    mem = SigmaMem(["a", "b"], path, rank=2)
    d = mem.route(phi=PHI)
    with monkeypatch.context() as patched:
        patched.setattr(Fold, where, raise_interrupted)
        with pytest.raises(Interrupted):
            mem.feedback(d.id, {"a": True}, id="k")
    mem.feedback(d.id, {"a": True}, id="k")
    assert mem.state.read(PHI).effective == pytest.approx([1.0, 0.0])
    assert same(mem)
    mem.close()
    with SigmaMem(path=path) as mem:
        assert mem.state.read(PHI).effective == pytest.approx([1.0, 0.0])
        assert same(mem)


def test_an_interrupt_while_the_state_is_rebuilt_is_no_end_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    mem = SigmaMem(["a", "b"], store=InMemoryStore(), rank=2)
    for _ in range(5):
        mem.feedback(mem.route(phi=PHI).id, {"a": True})
    d = mem.route(phi=PHI)
    with monkeypatch.context() as patched:
        patched.setattr(Fold, "_write", raise_interrupted)
        for _ in range(2):  # in the middle of a line, then in the middle of rebuilding
            with pytest.raises(Interrupted):
                mem.feedback(d.id, {"a": True}, id="k")
    assert same(mem)
    assert mem.state.label_sums()[1, 0] == pytest.approx(6.0, rel=1e-2)


def test_a_cancelled_call_leaves_the_state_of_the_ledger(tmp_path: Path) -> None:
    async def main() -> SigmaMem:
        mem = AsyncSigmaMem(SigmaMem(["a", "b"], tmp_path / "m.db", rank=2))
        rng = random.Random(0)
        for n in range(60):
            d = await mem.route(phi=PHI)
            call = asyncio.create_task(mem.feedback(d.id, {"a": True}, id=f"f{n}"))
            await asyncio.sleep(rng.uniform(0, 1e-3))
            call.cancel()
            try:
                await call
            except asyncio.CancelledError:
                await mem.feedback(d.id, {"a": True}, id=f"f{n}")
        return mem.mem

    mem = asyncio.run(main())
    assert sum(r.kind == "feedback" for r in mem.store.records("default")) == 60
    assert same(mem)
    mem.close()
