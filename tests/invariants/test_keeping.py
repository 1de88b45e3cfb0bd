"""Forget, reset, replace, refold and merge against a naive memory, in the process, in a file, and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from invariants.keeping import (
    FIRST,
    KINDS,
    RANK,
    SETTINGS,
    START,
    NaiveMemory,
    arrays_of,
    assert_equal,
    drawn,
    interrupted_step,
    step,
)
from sigma_mem import SigmaMem
from sigma_mem.admin import merge, refold
from sigma_mem.store import SqliteStore

small = st.integers(0, 31)
operations = st.lists(st.tuples(st.sampled_from(KINDS), small, small, small), max_size=25)
ROUNDS = settings.get_current_profile_name() == "endurance"
WRITER = Path(__file__).with_name("keeping_writer.py")
BUILDER = Path(__file__).with_name("keeping_builder.py")


def memory(path: Path | None, clock: list[float]) -> SigmaMem:
    known = path is not None and path.exists()
    how = {} if known else {"peers": FIRST, "rank": RANK, "settings": SETTINGS}
    return SigmaMem(path=path, clock=lambda: clock[0], snapshot_every=7, durable="all", **how)


def played(todo, path: Path | None = None) -> tuple[SigmaMem, NaiveMemory, list[float]]:
    clock, naive = [START], NaiveMemory()
    mem = memory(path, clock)
    for operation in todo:
        if operation[0] == "reopen":
            if path is not None:
                mem.close()
                mem = memory(path, clock)
        else:
            step(mem, naive, operation, clock)
    return mem, naive, clock


@given(todo=operations)
def test_a_memory_in_the_process_is_what_the_definition_says(todo) -> None:
    mem, naive, _ = played(todo)
    assert_equal(mem, naive)


@settings(max_examples=500 if ROUNDS else 6, suppress_health_check=list(HealthCheck))
@given(todo=operations)
def test_a_memory_in_a_file_is_what_the_definition_says(todo) -> None:
    with tempfile.TemporaryDirectory() as folder:
        mem, naive, _ = played(todo, Path(folder) / "memory.db")
        assert_equal(mem, naive)
        mem.close()


handled = st.lists(
    st.tuples(
        st.tuples(st.sampled_from([kind for kind in KINDS if kind != "reopen"]), small, small, small),
        st.booleans(),
        st.none() | st.integers(0, 200) | st.integers(0, 3000),
    ),
    max_size=20,
)


def played_by_two(todo, path: Path | None = None) -> None:
    """Two handles take turns, any call may be interrupted anywhere, and a reader follows them."""
    clock, naive = [START], NaiveMemory()
    mem = memory(path, clock)
    handles = [mem, mem.namespace("default", durable="all")]
    reader = None if path is None else SigmaMem(path=path, readonly=True, clock=lambda: clock[0])
    for operation, second, after in todo:
        interrupted_step(handles[second], naive, operation, clock, after)
    for each in handles if reader is None else [*handles, reader]:
        assert_equal(each, naive)
    if path is not None:
        reader.close()
        mem.close()
        with memory(path, clock) as again:
            assert_equal(again, naive)


@given(todo=handled)
def test_two_handles_and_interrupts_in_the_process(todo) -> None:
    played_by_two(todo)


@settings(max_examples=500 if ROUNDS else 6, suppress_health_check=list(HealthCheck))
@given(todo=handled)
def test_two_handles_and_interrupts_in_a_file(todo) -> None:
    with tempfile.TemporaryDirectory() as folder:
        played_by_two(todo, Path(folder) / "memory.db")


@given(todo=operations)
def test_a_refolded_memory_has_learned_the_same(todo) -> None:
    mem, naive, _ = played(todo)
    assert_equal(refold(mem).memory, naive)


MERGED = ("decide", "route", "label", "amend", "forget", "revoke")
to_merge = st.lists(st.tuples(st.sampled_from(MERGED), small, small, small), max_size=30)


@settings(max_examples=200 if ROUNDS else 15)
@given(todo=to_merge, split=st.lists(st.booleans(), min_size=30, max_size=30))
def test_merged_memories_have_learned_what_one_would_have(todo, split) -> None:
    """Every operation goes to one of two memories and, as its own event, to a third that sees all."""
    clock = [START]
    both = NaiveMemory()
    parts = [(memory(None, clock), NaiveMemory()) for _ in range(2)]
    for operation, first in zip(todo, split, strict=False):
        mem, naive = parts[first]
        before = len(naive.events)
        step(mem, naive, operation, clock)
        both.events += naive.events[before:]  # the same objects: their labels are the same
    both.revoked = parts[0][1].revoked | parts[1][1].revoked
    merged = merge(parts[0][0], parts[1][0])
    assert merged.events == len(both.events)
    peers = {name: peer for _, naive in parts for name, peer in zip(FIRST, naive.peers, strict=True)}
    for event in both.events:  # a peer of one memory is the peer of that name in the other
        event.answers = {peers[peer.name]: x for peer, x in event.answers.items()}
        event.said = {s: {peers[peer.name]: c for peer, c in said.items()} for s, said in event.said.items()}
    both.peers = [peers[name] for name in FIRST]
    for name, array in both.arrays().items():
        np.testing.assert_allclose(arrays_of(merged)[name], array, atol=1e-9, err_msg=name)


@pytest.fixture
def writer():
    """A server of writers that are killed."""
    started = subprocess.Popen(
        [sys.executable, WRITER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )
    yield started
    started.communicate(timeout=60)


def has_memory(path: Path) -> bool:
    """Whether a writer lived long enough to make a memory."""
    if not path.exists():
        return False
    with closing(SqliteStore(path)) as store:
        return bool(store.namespaces())


def killed_round(writer, folder: Path, seed: int) -> tuple[int, str]:
    """Let operations be done to a memory until a kill; return how many were, and how it ended."""
    path, log, todo = folder / f"{seed}.db", folder / f"{seed}.log", drawn(seed)
    seconds = np.random.default_rng(seed).uniform(0.02, 0.8)
    writer.stdin.write(f"{path}\t{log}\t{seed}\t{seconds}\n")
    writer.stdin.flush()
    outcome = writer.stdout.readline().strip()
    noted = [line == "done" for line in log.read_text().splitlines()] if log.exists() else []
    if not has_memory(path):
        assert noted == []
        return 0, outcome
    for last in ([], [True]):  # what was in flight when the kill came was not done, or it was
        naive, clock = NaiveMemory(), [START]
        with memory(path, clock) as mem:
            every = iter([r.id for r in mem.store.records("default") if r.kind == "decision"])
            for operation, done in zip(todo, noted + last, strict=False):
                if not done:
                    clock[0] += 1.0
                    continue
                made = next(every, "none") if operation[0] in ("decide", "route") else None
                step(None, naive, operation, clock, made)
            try:
                assert_equal(mem, naive)
                return sum(noted + last), outcome
            except AssertionError:
                if last:
                    raise
    raise AssertionError("not reached")


@pytest.mark.parametrize("rounds", [4, pytest.param(500, marks=pytest.mark.endurance)])
def test_a_killed_memory_is_what_was_acknowledged(writer, tmp_path: Path, rounds: int) -> None:
    found = [killed_round(writer, tmp_path, seed) for seed in range(rounds)]
    outcomes = Counter(outcome for _, outcome in found)
    print(f"{dict(outcomes)}: {sum(done for done, _ in found)} operations")
    assert outcomes["failed"] == 0
    assert sum(done for done, _ in found) > 0


def killed_build(folder: Path, what: str, seed: int) -> bool:
    """Kill a refold or merge at some moment; return whether it was complete by then."""
    target = folder / f"{what}-{seed}.db"
    child = subprocess.Popen(
        [sys.executable, BUILDER, what, folder / "one.db", folder / "two.db", target], stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert child.stdout.readline() == b"ready\n"
    time.sleep(float(np.random.default_rng(seed).uniform(0.0, 1.0)))
    child.send_signal(signal.SIGKILL)
    child.stdout.close()
    child.wait()
    if not target.exists():
        return False
    with SigmaMem(path=target, readonly=True) as mem:
        assert mem.events == (30 if what == "refold" else 60)
    return True


@pytest.mark.parametrize("rounds", [2, pytest.param(250, marks=pytest.mark.endurance)])
def test_a_killed_refold_or_merge_leaves_a_whole_memory_or_none(tmp_path: Path, rounds: int) -> None:
    todo = [(kind, i, i, i) for i in range(30) for kind in ("decide", "label")]
    for name in ("one.db", "two.db"):
        played(todo, tmp_path / name)[0].close()
    before = (tmp_path / "one.db").read_bytes()
    done = [killed_build(tmp_path, what, seed) for seed in range(rounds) for what in ("refold", "merge")]
    print(f"{sum(done)} of {len(done)} were complete")
    assert (tmp_path / "one.db").read_bytes() == before
