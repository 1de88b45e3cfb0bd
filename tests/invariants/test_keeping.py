"""Forget, reset, replace, refold and merge against a naive memory, in the process, in a file, and killed."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from invariants.keeping import FIRST, KINDS, RANK, SETTINGS, START, NaiveMemory, arrays_of, assert_equal, step
from sigma_mem import SigmaMem

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


@given(todo=operations)
def test_a_refolded_memory_has_learned_the_same(todo) -> None:
    mem, naive, _ = played(todo)
    assert_equal(mem.refold().memory, naive)


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
    merged = parts[0][0].merge(parts[1][0])
    assert merged.events == len(both.events)
    peers = {name: peer for _, naive in parts for name, peer in zip(FIRST, naive.peers, strict=True)}
    for event in both.events:  # a peer of one memory is the peer of that name in the other
        event.answers = {peers[peer.name]: x for peer, x in event.answers.items()}
        event.said = {s: {peers[peer.name]: c for peer, c in said.items()} for s, said in event.said.items()}
    both.peers = [peers[name] for name in FIRST]
    for name, array in both.arrays().items():
        np.testing.assert_allclose(arrays_of(merged)[name], array, atol=1e-9, err_msg=name)


def killed_round(folder: Path, seed: int) -> tuple[int, int]:
    """Run operations in a process that is killed at some moment; return how many it did, and of how many."""
    rng = np.random.default_rng(seed)
    todo = [(KINDS[rng.integers(len(KINDS) - 1)], *rng.integers(0, 32, 3).tolist()) for _ in range(40)]
    path, log = folder / f"{seed}.db", folder / f"{seed}.log"
    child = subprocess.Popen(
        [sys.executable, WRITER, path, log], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    child.stdin.write(pickle.dumps(todo))
    child.stdin.close()
    stop_after = int(rng.integers(1, 40))
    for _ in range(stop_after):
        if not child.stdout.readline():
            break
    child.send_signal(signal.SIGKILL)
    child.stdout.close()
    child.wait()
    acknowledged = len(log.read_text().splitlines())
    for extra in (0, 1):  # what was in flight when the kill came was done, or was not
        naive, clock = NaiveMemory(), [START]
        done = acknowledged + extra
        with memory(path, clock) as mem:
            known = iter([d.id for d in mem.decisions()][::-1])
            lines = {
                r.id: r for r in mem.store.records("default") if r.kind == "decision" and r.id == r.event
            }
            every = iter(lines)
            del known
            for operation in todo[:done]:
                made = next(every, "none") if operation[0] in ("decide", "route") else None
                step(None, naive, operation, clock, made)
            try:
                assert_equal(mem, naive)
                return done, len(todo)
            except AssertionError:
                if extra:
                    raise
    raise AssertionError("not reached")


@pytest.mark.parametrize("rounds", [3, pytest.param(500, marks=pytest.mark.endurance)])
def test_a_killed_memory_is_what_was_acknowledged(tmp_path: Path, rounds: int) -> None:
    counts = [killed_round(tmp_path, seed) for seed in range(rounds)]
    print(
        f"{rounds} kills after {sum(done for done, _ in counts)} of {sum(of for _, of in counts)} operations"
    )
    assert sum(done for done, _ in counts) > rounds


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
