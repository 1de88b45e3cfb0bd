"""`served` without a wait for the disk: it counts at once, and is durable after a flush."""

import threading

from sigma_mem import SigmaMem


def test_served_can_leave_the_wait_to_others(tmp_path, monkeypatch):
    path = tmp_path / "memory.db"
    with SigmaMem(["ann", "bob"], path, encoder="hashed") as mem:
        decision = mem.route("which?")
        mem.store.flush()
        disk, commit = threading.Event(), mem.store._writer._write
        monkeypatch.setattr(mem.store._writer, "_write", lambda taken: disk.wait(60) and commit(taken))
        said = mem.served(decision, "bob", cost=2.0, wait=False)  # returns although the disk does not
        assert (said.served, said.cost) == ("bob", 2.0)
        assert mem.spent().total == 2.0
        with SigmaMem(path=path, readonly=True) as other:
            assert other.decision(decision.id).served is None
        disk.set()
        mem.store.flush()
        with SigmaMem(path=path, readonly=True) as other:
            assert other.decision(decision.id).served == "bob"
