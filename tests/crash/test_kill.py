"""Random ``kill -9`` of a writer: nothing acknowledged is lost, and the state is the ledger's."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sigma_mem import SigmaMem
from sigma_mem.errors import StoreError
from sigma_mem.ledger.records import line_of
from sigma_mem.store import SqliteStore

WRITER = Path(__file__).with_name("writer.py")


@pytest.fixture
def servers():
    """Two servers of writers: more would only wait for the disk."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, WRITER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(2)
    ]
    yield started
    for server in started:
        server.communicate(timeout=60)


def acknowledged(log):
    """What the writer had been told is safe.

    A kill may cut the last line of the log where a page of the file ends. Such a line was not told to
    anyone; it is taken off, so that the next writer does not go on in the middle of it.
    """
    if not log.exists():
        return []
    whole = log.read_bytes()
    told, _, cut = whole.rpartition(b"\n")
    if cut:
        os.truncate(log, len(whole) - len(cut))
    return [json.loads(line) for line in told.split(b"\n") if line]


def check(path, log, bits):
    """Compare a file that was just killed with its acknowledgements and its own ledger.

    Reads beside the file only, so that the next writer meets it as the kill left it. Returns
    (acknowledged, records, record of the snapshot).
    """
    told = acknowledged(log)
    try:
        store = SqliteStore(path, readonly=True)
    except StoreError:
        assert told == []
        return 0, 0, 0
    try:
        records = store.verify()
        if records == 0:
            assert told == []
            return 0, 0, 0
        lines = {r.id: r for r in store.records("default") if r.kind == "feedback"}
        for line in told:
            kept = lines[line["id"]]
            assert (kept.event, line_of(kept).body.labels) == (line["event"], line["labels"])
        mem = SigmaMem(store=store)
        replayed = mem.journal.replayed()
        assert bits(mem) == bits(replayed)
        saved = store.load_snapshot("default")
        return len(told), records, 0 if saved is None else saved.seq
    finally:
        store.close()


def survive(server, folder, seed, kills, bits):
    """Kill one memory's writers again and again; check after each; return the outcomes and the last check.

    On a busy machine some writers are killed before they wrote anything: then the next one has longer.
    """
    rng, longer = random.Random(seed), 1.0
    path, log = folder / f"{seed}.db", folder / f"{seed}.log"
    outcomes, told, before, tails = Counter(), 0, 0, 0
    for run in range(4 * kills):
        if run >= kills and told > kills and tails > kills / 10:
            break
        seconds = longer * rng.uniform(0.0, 0.35 if run else 0.06)
        server.stdin.write(f"{path}\t{log}\t{run}\t{seconds}\n")
        server.stdin.flush()
        outcomes[server.stdout.readline().strip()] += 1
        known = told
        told, records, snapshot = check(path, log, bits)
        longer = 1.0 if told > known else 1.5 * longer
        assert records >= before
        before = records
        tails += 0 < snapshot < records
    return outcomes, told, records, tails


@pytest.mark.parametrize(("memories", "kills"), [(2, 12), pytest.param(10, 20, marks=pytest.mark.endurance)])
def test_nothing_acknowledged_is_lost_and_the_state_is_the_ledgers(servers, tmp_path, bits, memories, kills):
    def share(part):
        return [survive(servers[part], tmp_path, seed, kills, bits) for seed in range(part, memories, 2)]

    with ThreadPoolExecutor(2) as pool:
        results = [result for part in pool.map(share, range(2)) for result in part]
    outcomes = sum((outcome for outcome, *_ in results), Counter())
    told, records, tails = (sum(result[k] for result in results) for k in (1, 2, 3))
    print(
        f"{dict(outcomes)}: {told} acknowledged, {records} records, {tails} starts from a snapshot and a tail"
    )
    assert sum(outcomes.values()) >= memories * kills
    assert outcomes["failed"] == 0
    assert outcomes["killed"] >= 0.7 * sum(outcomes.values())
    assert told > memories * kills
    assert tails > memories * kills / 10


def test_a_killed_memory_continues_and_can_be_written_by_the_next(servers, tmp_path, bits):
    path, log = tmp_path / "memory.db", tmp_path / "log"
    servers[0].stdin.write(f"{path}\t{log}\t0\t1.0\n")
    servers[0].stdin.flush()
    assert servers[0].stdout.readline().strip() in ("killed", "done")
    with SigmaMem(path=path) as mem:
        events = mem.events
        assert events > 0
        last = acknowledged(log)[-1]
        again = mem.feedback(last["event"], last["labels"], source=last["source"], id=last["id"])
        assert again.id == last["id"]  # the sender retries: taken once
        decision = mem.route(phi=[1.0] + [0.0] * 7)
        mem.feedback(decision.id, {"ann": True})
        assert mem.events == events + 1
        live = bits(mem)
    with SigmaMem(path=path) as mem:
        assert bits(mem) == live == bits(mem.journal.replayed())
