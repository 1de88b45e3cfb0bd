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


def directions_of(thread, events):
    directions = np.random.default_rng(thread).standard_normal((events, RANK))
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


@pytest.mark.parametrize("where", ["memory", "sqlite"])
@pytest.mark.parametrize("events", [150, pytest.param(2000, marks=pytest.mark.endurance)])
def test_none_is_lost_and_none_is_taken_twice(where, events, tmp_path, bits):
    path = tmp_path / "memory.db" if where == "sqlite" else None
    mem = SigmaMem(["ann", "bob", "cyd"], path, rank=RANK, settings=UNDECAYED, snapshot_every=events // 2)
    start = threading.Barrier(THREADS)

    def work(thread):
        directions = directions_of(thread, events)
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
    assert bits(mem) == bits(mem.journal.replayed())
    if path is not None:
        live = bits(mem)
        mem.close()
        mem = SigmaMem(path=path)
        assert bits(mem) == live
        assert mem.store.verify() == 1 + 2 * THREADS * events
    mem.close()


def check_sums(mem, events):
    """The trace of φφᵀ is |φ|², so that of N counts labels and that of M adds them up.

    |φ|² is 1 only up to single precision, in which φ is kept.
    """
    given = [
        (labels(thread, n), norm)
        for thread in range(THREADS)
        for n, norm in enumerate(
            np.square(directions_of(thread, events).astype(np.float32), dtype=np.float64).sum(1)
        )
    ]
    for p, peer in enumerate(mem.peers):
        counted = [norm for label, norm in given if peer in label]
        added = [label[peer] * norm for label, norm in given if peer in label]
        assert np.trace(mem.state.N[p]) == pytest.approx(sum(counted), abs=1e-6)
        assert np.trace(mem.state.M[p]) == pytest.approx(sum(added), abs=1e-6)
