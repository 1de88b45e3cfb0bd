"""Bad files and full disks, met through a memory: one clear error, and the memory is as before."""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.errors import StoreError, UnknownDecisionError

PEERS = ["ann", "bob"]
LABELS = {"ann": True, "bob": False}
PHI = np.array([0.6, 0.8, 0.0])


@pytest.fixture
def path(tmp_path):
    """A closed memory of ten events."""
    with SigmaMem(PEERS, tmp_path / "memory.db", rank=3) as mem:
        for _ in range(10):
            mem.feedback(mem.route(phi=PHI).id, LABELS)
    return tmp_path / "memory.db"


def limit(mem, pages):
    """Let the database have that many pages: what a full disk looks like to SQLite."""
    with mem.store._tables._write_lock:
        mem.store._tables._writer.execute(f"PRAGMA max_page_count = {pages}")


def change(path, sql):
    db = sqlite3.connect(path)
    with db:
        db.execute(sql)
    db.close()


def test_a_damaged_snapshot_costs_a_replay_and_nothing_else(path, bits):
    with SigmaMem(path=path) as mem:
        before = bits(mem)
    change(path, "UPDATE snapshot SET body = zeroblob(length(body))")
    with SigmaMem(path=path) as mem:
        assert mem.store.load_snapshot("default") is None
        assert bits(mem) == before


def test_feedback_on_a_full_disk_is_an_error_and_the_memory_is_as_before(path, bits):
    with SigmaMem(path=path) as mem:
        decision = mem.route(phi=PHI)
        mem.store.flush()
        before = bits(mem)
        limit(mem, 1)
        for _ in range(3):
            with pytest.raises(StoreError, match="full; the ledger is as before"):
                mem.feedback(decision.id, LABELS, id="f" * 60_000)
            assert bits(mem) == before
        assert bits(mem) == bits(mem.journal.replayed())
        limit(mem, 1_000_000)
        mem.feedback(decision.id, LABELS, id="f" * 60_000)
        assert bits(mem) == bits(mem.journal.replayed()) != before
    with SigmaMem(path=path) as mem:
        assert mem.events == 11
        assert bits(mem) == bits(mem.journal.replayed())


def test_a_decision_that_could_not_be_written_did_not_happen(path, bits):
    with SigmaMem(path=path) as mem:
        before = bits(mem)
        limit(mem, 1)
        decision = mem.route(
            os.urandom(30_000).hex(), phi=PHI
        )  # returns at once: decisions are written behind
        with pytest.raises((StoreError, UnknownDecisionError)):
            mem.feedback(decision.id, LABELS)
        assert mem.events == 10
        assert bits(mem) == before == bits(mem.journal.replayed())
        limit(mem, 1_000_000)
        mem.feedback(mem.route(phi=PHI).id, LABELS)
        assert mem.events == 11


def test_threads_on_a_disk_that_fills_and_empties_agree_with_the_ledger(tmp_path, bits):
    path = tmp_path / "memory.db"
    mem = SigmaMem(PEERS, path, rank=3, snapshot_every=20)

    def work(thread):
        told = []
        for n in range(150):
            if thread == 0 and n % 30 == 10:
                limit(mem, 1)
            if thread == 0 and n % 30 == 20:
                limit(mem, 1_000_000)
            try:
                decision = mem.route("q" * 3000, phi=PHI)
                told.append(mem.feedback(decision.id, LABELS, id=f"{thread}-{n}").id)
            except (StoreError, UnknownDecisionError):
                continue
        return told

    with ThreadPoolExecutor(8) as pool:
        told = {id for ids in pool.map(work, range(8)) for id in ids}
    limit(mem, 1_000_000)
    assert 0 < len(told) < 8 * 150
    assert mem.store.epoch("default") > 0
    mem.store.flush()
    records = list(mem.store.records("default"))
    decided = {r.id for r in records if r.kind == "decision"}
    heard = {r.id: r.event for r in records if r.kind == "feedback"}
    assert told <= set(heard)
    assert set(heard.values()) <= decided  # no feedback without its decision
    assert bits(mem) == bits(mem.journal.replayed())
    live = bits(mem)
    mem.close()
    with SigmaMem(path=path) as mem:
        assert bits(mem) == live == bits(mem.journal.replayed())


@pytest.mark.parametrize("small_disk", ["2m"], indirect=True)
def test_a_really_full_disk(small_disk, bits):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"b" * 300_000)
    told = 0

    def write_for_ever():
        nonlocal told
        while True:
            mem.feedback(mem.route("q" * 2000, phi=PHI).id, LABELS)
            told += 1

    with SigmaMem(PEERS, small_disk / "memory.db", rank=3) as mem:
        with pytest.raises(StoreError, match="as before"):
            write_for_ever()
        assert told > 10
        assert bits(mem) == bits(mem.journal.replayed())
        assert sum(r.kind == "feedback" for r in mem.store.records("default")) == told
        ballast.unlink()
        mem.feedback(mem.route(phi=PHI).id, LABELS)
        assert bits(mem) == bits(mem.journal.replayed())
