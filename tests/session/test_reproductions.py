"""Faults that were found once, and that no other test of the session covers."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sigma_mem import Settings, SigmaMem
from sigma_mem.store import SqliteStore

PHI = np.array([1.0, 0.0])


@pytest.mark.parametrize("silent", [0, 1, 31, 32, 33, 64, 95, 96, 97])
def test_the_state_is_the_ledgers_bit_for_bit_after_events_without_answers(silent: int) -> None:
    """What answers say begins late: its anchor is where a replay puts it as well."""
    mem = SigmaMem(["a", "b"], rank=2, settings=Settings(gamma=0.5))
    for _ in range(silent):
        mem.route(phi=PHI)
    for right in ("a", "b", "a"):
        d = mem.decide("q", {"a": "1", "b": "2"}, phi=PHI)
        mem.feedback(d.id, {peer: peer == right for peer in mem.peers})
    live, ledger = mem.state.pack(), mem.journal.replayed().state.pack()
    assert live.keys() == ledger.keys()
    assert [name for name in live if live[name].tobytes() != ledger[name].tobytes()] == []


def test_a_replay_does_not_read_the_ledger_again_for_every_revocation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.db"
    with SigmaMem(["a", "b"], path, rank=2) as mem:
        for _ in range(300):
            mem.feedback(mem.route(phi=PHI).id, {"a": True})
        for n in range(50):
            assert mem.revoke(f"nobody{n}") == 0
        live = mem.state.M
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM snapshot")
        db.commit()
    read: list[str] = []
    for name in ("records", "of_event", "of_source", "find"):
        whole = getattr(SqliteStore, name)

        def counted(self, *arguments, name=name, whole=whole, **options):
            read.append(name)
            return whole(self, *arguments, **options)

        monkeypatch.setattr(SqliteStore, name, counted)
    with SigmaMem(path=path) as mem:
        np.testing.assert_allclose(mem.state.M, live, atol=1e-12)
    assert read.count("records") <= 2
    assert read.count("of_event") == read.count("find") == 0
    assert read.count("of_source") <= 50
