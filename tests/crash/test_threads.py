"""16 threads on one memory: none lost, none twice, in the ledger and in the state.

Each gives 150 events; in ``make endurance`` 2,000.
"""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.memory import Settings

THREADS, RANK = 16, 4
UNDECAYED = Settings(gamma=1.0, eta=1.0, gamma_g=1.0)  # then M and N are plain sums: they count


def labels(thread, n):
    return (
        {"ann": 1.0, "bob": (-1.0) ** n, "cyd": -1.0}
        if n % 4
        else {"ann": 1.0, "bob": (-1.0) ** (thread + n)}
    )


@pytest.mark.parametrize("where", ["memory", "sqlite"])
@pytest.mark.parametrize("events", [150, pytest.param(2000, marks=pytest.mark.endurance)])
def test_none_is_lost_and_none_is_taken_twice(where, events, tmp_path, bits):
    path = tmp_path / "memory.db" if where == "sqlite" else None
    mem = SigmaMem(["ann", "bob", "cyd"], path, rank=RANK, settings=UNDECAYED, snapshot_every=events // 2)
    start = threading.Barrier(THREADS)

    def work(thread):
        directions = np.random.default_rng(thread).standard_normal((events, RANK))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        start.wait()
        said = []
        for n, phi in enumerate(directions):
            decision = mem.route(phi=phi)
            feedback = mem.feedback(decision.id, labels(thread, n), id=f"{thread}-{n}")
            if n % 100 == 0:  # a sender that retries
                mem.feedback(decision.id, labels(thread, n), id=f"{thread}-{n}")
            said.append((decision.id, feedback.id))
        return said

    with ThreadPoolExecutor(THREADS) as pool:
        said = [pair for pairs in pool.map(work, range(THREADS)) for pair in pairs]

    kinds = Counter(record.kind for record in mem.store.records("default"))
    assert kinds == {"open": 1, "decision": THREADS * events, "feedback": THREADS * events}
    lines = [(r.event, r.id) for r in mem.store.records("default") if r.kind == "feedback"]
    assert sorted(lines) == sorted(said)
    assert mem.events == THREADS * events
    check_sums(mem, events)
    assert bits(mem) == bits(mem.replayed())
    if path is not None:
        live = bits(mem)
        mem.close()
        mem = SigmaMem(path=path)
        assert bits(mem) == live
        assert mem.store.verify() == 1 + 2 * THREADS * events
    mem.close()


def check_sums(mem, events):
    """Every φ has norm 1, so the trace of N counts labels and the trace of M adds them up.

    Up to single precision, in which φ is kept: far from the whole number that a lost label would take away.
    """
    given = [labels(thread, n) for thread in range(THREADS) for n in range(events)]
    for p, peer in enumerate(mem.peers):
        c = [label[peer] for label in given if peer in label]
        assert np.trace(mem.state.N[p]) == pytest.approx(len(c), abs=1e-3)
        assert np.trace(mem.state.M[p]) == pytest.approx(sum(c), abs=1e-3)
