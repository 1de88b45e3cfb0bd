"""Handles on one namespace of one store share one live state."""

import gc
import threading
from pathlib import Path

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.errors import StoreBusyError
from sigma_mem.store import InMemoryStore

PEERS = ["a", "b"]
PHI = np.array([1.0, 0.0])


def label(mem: SigmaMem, a: bool) -> str:
    d = mem.route(phi=PHI)
    mem.feedback(d.id, {"a": a, "b": not a})
    return d.id


def test_two_handles_see_each_others_lines_and_a_snapshot_keeps_both(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    root = SigmaMem(PEERS, path, rank=2)
    one, two = root.namespace("t", PEERS, rank=2), root.namespace("t")
    for _ in range(50):
        label(two, False)
    label(one, True)
    assert (one.events, two.events) == (51, 51)
    assert np.array_equal(one.state.read(PHI).prob, two.state.read(PHI).prob)
    one.journal.snapshot()
    root.close()
    with SigmaMem(path=path, namespace="t") as mem:
        assert mem.events == 51
        assert np.array_equal(mem.state.M, mem.journal.replayed().state.M)
        assert mem.state.read(PHI).prob[0] < 0.1


def test_many_handles_in_many_threads_lose_nothing_and_name_nothing_twice(tmp_path: Path) -> None:
    root = SigmaMem(PEERS, tmp_path / "m.db", rank=2)
    start, ids = threading.Barrier(4), set()

    def work() -> None:
        start.wait()
        for _ in range(25):
            ids.add(label(root.namespace("t", PEERS, rank=2), True))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tenant = root.namespace("t")
    assert len(ids) == tenant.events == tenant.journal.replayed().state.clock == 100
    np.testing.assert_allclose(tenant.state.M, tenant.journal.replayed().state.M, rtol=1e-12, atol=1e-15)
    root.close()


def test_a_handle_that_nobody_holds_is_collected_and_the_next_one_continues() -> None:
    store = InMemoryStore()
    label(SigmaMem(PEERS, store=store, rank=2), True)
    gc.collect()
    mem = SigmaMem(store=store)
    assert mem.events == 1
    assert np.array_equal(mem.state.M, mem.journal.replayed().state.M)


def test_a_second_memory_on_the_same_file_is_refused_also_through_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "m.db", tmp_path / "elsewhere" / "n.db"
    with SigmaMem(PEERS, path, rank=2):
        link.parent.mkdir()
        link.symlink_to(path)
        for other in (path, link):
            with pytest.raises(StoreBusyError, match="by this process"):
                SigmaMem(path=other)
    with SigmaMem(path=link) as mem:
        assert mem.peers == ("a", "b")
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["elsewhere", "m.db", "n.db"]


@pytest.mark.parametrize("every", [1, 5])
def test_snapshots_are_saved_after_a_namespaces_own_lines(
    monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    store, saved = InMemoryStore(), []
    save = store.save_snapshot
    monkeypatch.setattr(store, "save_snapshot", lambda *a, **k: (saved.append(a[0]), save(*a, **k)))
    tenants = [
        SigmaMem(PEERS, store=store, rank=2, namespace=f"t{i}", snapshot_every=every) for i in range(10)
    ]
    for _ in range(5):
        for tenant in tenants:
            tenant.route(phi=PHI)
    assert {name: saved.count(name) for name in sorted(set(saved))} == {
        f"t{i}": 5 // every for i in range(10)
    }
