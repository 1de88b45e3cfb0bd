"""Forget: texts, φ and labels are gone, from the file as well; the clock and all ids stay."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from learned import assert_alike
from sigma_mem import Settings, SigmaMem
from sigma_mem.admin import backup, export, merge, refold, restore
from sigma_mem.cli.app import run
from sigma_mem.errors import InputError, StoreBusyError, UnknownDecisionError
from sigma_mem.memory.kernel import matrices

PEERS = ("ann", "bob", "cat")
SECRET = "xylophone-4711"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def play(mem: SigmaMem, n: int, secret: int | None = None, leave_out: int | None = None) -> list[str]:
    """Decide and label events; one of them is secret, or only routed and never labelled."""
    rng = np.random.default_rng(7)
    ids = []
    for i in range(n):
        phi = rng.normal(size=4)
        phi /= np.linalg.norm(phi)
        said = {peer: bool(rng.random() < 0.5) for peer in PEERS}
        text = SECRET if i == secret else f"task {i}"
        answers = {peer: f"{SECRET} {k % 2}" if i == secret else str(k % 2) for k, peer in enumerate(PEERS)}
        if i == leave_out:
            ids.append(mem.route(phi=phi).id)
            continue
        d = mem.decide(text, answers, phi=phi)
        mem.feedback(d.id, said, source="default" if i % 3 else "other")
        ids.append(d.id)
    return ids


def memory(path: Path | None = None, **options: object) -> SigmaMem:
    return SigmaMem(PEERS, path, rank=4, clock=Clock(), **options)


@pytest.fixture(params=["process", "file"])
def where(request, tmp_path: Path) -> Path | None:
    return tmp_path / "memory.db" if request.param == "file" else None


@pytest.mark.parametrize("settings", [Settings(), Settings(gamma=0.9), Settings(decay="labelled")])
def test_a_forgotten_event_is_as_if_never_labelled(where, settings: Settings) -> None:
    mem, never = memory(where, settings=settings), memory(settings=settings)
    ids = play(mem, 20, secret=5)
    play(never, 20, leave_out=5)
    if settings.decay == "labelled":  # the axis moved on for the label that is gone, and stays there
        other = memory(settings=settings)
        play(other, 20, secret=5)
        now = other.state.now
    else:
        now = never.state.now
    assert mem.forget(ids[5]) == 1
    assert mem.events == 20
    assert mem.state.now == now
    if settings.decay == "event":
        for name in ("M", "N", "G"):
            np.testing.assert_allclose(getattr(mem.state, name), getattr(never.state, name), atol=1e-13)
        phi = np.eye(4)[0]
        assert mem.state.alternatives(phi) == pytest.approx(never.state.alternatives(phi), rel=1e-12)
        agreed = [matrices(m.state.sums, "competence", -2, m.state.rank) for m in (mem, never)]
        np.testing.assert_allclose(*agreed, atol=1e-13)
    assert_alike(mem, mem.journal.replayed())
    mem.close()


def test_nothing_is_left_but_the_id(where) -> None:
    mem = memory(where)
    ids = play(mem, 8, secret=3)
    vote = mem.vote(f"{SECRET} again", {"ann": "1"}, after=ids[3])
    assert mem.forget(vote) == 1
    for call in (mem.decision, mem.explain, lambda id: mem.feedback(id, {"ann": True})):
        for id in (ids[3], vote.id):
            with pytest.raises(UnknownDecisionError, match="was forgotten"):
                call(id)
    with pytest.raises(UnknownDecisionError, match="was forgotten"):
        mem.vote("x", {"ann": "1"}, after=ids[3])
    assert mem.forget(ids[3]) == 0
    assert len(mem.decisions()) == 7
    assert len(mem.history("ann")) == 7
    mem.explain(ids[7])
    mem.drift()
    mem.sources()
    with pytest.raises(UnknownDecisionError, match="is not in namespace"):
        mem.forget("nobody")
    mem.feedback(mem.route(phi=np.eye(4)[0]).id, {"ann": True})  # and on
    assert_alike(mem, mem.journal.replayed())
    mem.close()


def test_forget_by_time_and_by_text(where) -> None:
    mem = memory(where)
    ids = play(mem, 10, secret=8)
    middle = mem.decision(ids[4]).time
    assert mem.forget(before=middle) == 4
    assert [d.id for d in mem.decisions()] == ids[:3:-1]
    assert mem.forget(text=SECRET.upper()) == 1
    assert mem.forget(text=SECRET) == 0
    assert mem.forget([ids[9], ids[5], ids[9]]) == 2
    assert [d.id for d in mem.decisions()] == [ids[7], ids[6], ids[4]]
    assert mem.events == 10
    assert_alike(mem, mem.journal.replayed())
    for bad in ({}, {"decision": ids[6], "text": "x"}, {"text": " "}):
        with pytest.raises(InputError, match="expected"):
            mem.forget(**bad)
    mem.close()


def test_revoking_and_amending_around_a_forgotten_event_is_exact(where) -> None:
    mem, never = memory(where), memory()
    ids, others = play(mem, 12, secret=6), play(never, 12, leave_out=6)
    mem.forget(ids[6])
    for one, names in ((mem, ids), (never, others)):
        one.revoke("other")
        one.feedback(names[1], {"ann": 0.5}, amend=True)
        one.rename_peer("bob", keep=0.5)
        one.feedback(names[2], {"bob": 0.5}, amend=True)
    np.testing.assert_allclose(mem.state.M, never.state.M, atol=1e-13)
    assert_alike(mem, mem.journal.replayed())
    mem.close()


def stored_bytes(path: Path, text: str) -> list[bytes]:
    """Pieces of everything that the file holds of events with this text, packed, that nothing else has."""
    with SigmaMem(path=path, readonly=True) as mem, closing(sqlite3.connect(path)) as db:
        events = [d.event for d in mem.decisions(text=text)]
        secret = {x.seq for event in events for x in mem.store.of_event("default", event) if x.kind != "ref"}
        rows = db.execute("SELECT seq, body FROM record").fetchall()
    whole = [text.encode(), *(part for seq, *parts in rows if seq in secret for part in parts)]
    others = b" ".join(part for seq, *parts in rows if seq not in secret for part in parts)
    # Long ones: a short piece of what is compressed may come again by chance in a later line.
    pieces = [part[at : at + 24] for part in whole for at in range(0, len(part) - 23, 4)]
    return [piece for piece in pieces if piece not in others and len(set(piece)) > 6]


def left_in(folder: Path, pieces: list[bytes]) -> set[str]:
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    return {name for name, content in files.items() if any(piece in content for piece in pieces)}


def test_no_byte_is_left_in_any_file(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    mem = memory(path, snapshot_every=8)
    ids = play(mem, 30, secret=11)
    mem.route(f"also {SECRET} " + "and more of it " * 400, phi=[0.6, 0.8, 0.0, 0.0])
    mem.feedback(ids[2], {"ann": 0.25}, amend=True)
    mem.store.flush()
    pieces = stored_bytes(path, SECRET)
    assert len(pieces) > 20
    assert left_in(tmp_path, pieces)  # it was there
    assert mem.forget(text=SECRET) == 2
    assert left_in(tmp_path, pieces) == set()
    mem.vote("and on", {"ann": "1", "bob": "2"}, phi=np.eye(4)[0])
    mem.journal.snapshot()
    assert left_in(tmp_path, pieces) == set()
    mem.close()
    assert left_in(tmp_path, pieces) == set()
    with SigmaMem(path=path) as again:
        assert again.events == 32
        assert_alike(again, again.journal.replayed())
        assert again.store.verify() == 1 + 30 * 2 + 4


def test_a_kill_before_the_bytes_are_gone_is_made_good_by_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with memory(path) as mem:
        ids = play(mem, 20, secret=11)
        pieces = stored_bytes(path, SECRET)
    script = f"""
import os, signal
from sigma_mem import SigmaMem
from sigma_mem.store.sqlite import SqliteTables
end = lambda: os.kill(os.getpid(), signal.SIGKILL)
SqliteTables.finish_erasure = lambda self: end() if self.read("erasures") else None
SigmaMem(path={str(path)!r}).forget({ids[11]!r})
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert left_in(tmp_path, pieces)
    with SigmaMem(path=path) as mem:
        assert left_in(tmp_path, pieces) == set()
        assert len(mem.decisions()) == 19
        assert_alike(mem, mem.journal.replayed())
    assert left_in(tmp_path, pieces) == set()


def test_a_reader_in_the_middle_of_the_file_is_said(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "memory.db"
    monkeypatch.setattr("sigma_mem.store.file.BUSY_SECONDS", 0.1)
    with memory(path) as mem, closing(sqlite3.connect(path)) as reader:
        ids = play(mem, 4, secret=1)
        mem.store.flush()
        pieces = stored_bytes(path, SECRET)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM record").fetchone()
        with pytest.raises(StoreBusyError, match="are forgotten, but another process reads"):
            mem.forget(ids[1])
        assert len(mem.decisions()) == 3
        reader.execute("COMMIT")
    with SigmaMem(path=path):
        pass
    assert left_in(tmp_path, pieces) == set()


def test_a_reader_that_follows_forgets_as_well(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with memory(path) as mem, SigmaMem(path=path, readonly=True) as reader:
        ids = play(mem, 6, secret=2)
        assert len(reader.decisions()) == 6
        mem.forget(ids[2])
        assert len(reader.decisions()) == 5
        assert_alike(reader, mem)
        mem.feedback(ids[1], {"ann": 0.5}, amend=True)
        assert_alike(reader, mem)


def test_forgotten_events_stay_forgotten_when_a_memory_moves(where, tmp_path: Path) -> None:
    mem = memory(where)
    ids = play(mem, 9, secret=4)
    backup(mem, tmp_path / "before.db")
    mem.forget(ids[4])
    export(mem, tmp_path / "memory.jsonl")
    assert SECRET not in (tmp_path / "memory.jsonl").read_text()
    for moved in (restore(tmp_path / "memory.jsonl"), refold(mem).memory):
        assert moved.events == 9
        assert len(moved.decisions()) == 8
    backup(mem, tmp_path / "after.db")
    assert SECRET.encode() not in (tmp_path / "after.db").read_bytes()
    with SigmaMem(path=tmp_path / "before.db", readonly=True) as before:  # a copy that remembers
        for merged in (merge(mem, before), merge(before, mem)):
            assert merged.events == 9
            assert ids[4] not in [d.id for d in merged.decisions()]
            np.testing.assert_allclose(merged.state.M, mem.state.M, atol=1e-13)
    mem.close()


def test_the_command(tmp_path: Path, capsys) -> None:
    path = str(tmp_path / "memory.db")
    with memory(path) as mem:
        ids = play(mem, 6, secret=2)
    assert run(["forget", "-m", path, ids[0]]) == 0
    assert "1 event" in capsys.readouterr().out
    assert run(["forget", "-m", path, "--text", SECRET, "--json"]) == 0
    assert capsys.readouterr().out == '{"forgotten": 1}\n'
    assert run(["forget", "-m", path, "--before", "2026-01-01"]) == 0
    assert "4 events" in capsys.readouterr().out
    assert run(["forget", "-m", path]) == 2


@pytest.mark.parametrize("keep", [True, False])
def test_keep_text_belongs_to_the_memory(tmp_path: Path, keep: bool) -> None:
    path = tmp_path / "memory.db"
    with SigmaMem(PEERS, path, rank=4, keep_text=keep) as mem:
        assert mem.keep_text is keep
        mem.route("one", phi=np.eye(4)[0])
    with SigmaMem(path=path) as mem:
        assert mem.keep_text is keep
        d = mem.route("two", phi=np.eye(4)[0])
        assert (mem.decision(d.id).question == "two") is keep
        assert refold(mem).memory.keep_text is keep
        assert mem.namespace("other", ["x"], rank=2, keep_text=not keep).keep_text is not keep
    with pytest.raises(InputError, match=r"refold\(keep_text="):
        SigmaMem(path=path, keep_text=not keep)
    with SigmaMem(path=path) as mem:
        without = refold(mem, keep_text=False).memory
        assert without.decisions()[0].question is None


def test_what_was_spent_stays(where) -> None:
    mem = memory(where)
    mem.set_price("ann", per_call=0.5)
    mem.set_price("bob", per_call=0.25)
    ids = play(mem, 6, secret=2)
    mem.served(ids[2], "ann", cost=2.0)
    mem.served(ids[3], "bob", cost=1.0)
    spent = mem.spent()
    assert spent.total > 3.0
    mem.forget(ids[2])
    assert mem.spent() == spent
    mem.rename_peer("ann", "anna")
    assert mem.spent().total == spent.total
    assert mem.spent().by_peer["anna"] == spent.by_peer["ann"]
    assert mem.spent().prices["anna"].per_call == 0.5
    mem.served(ids[3], "bob", cost=0.5)
    assert mem.spent().total == pytest.approx(spent.total - 0.5)
    replayed = mem.journal.replayed()
    assert replayed.costs.pack()[0] == mem.journal._fold.costs.pack()[0]
    assert refold(mem).memory.spent().by_peer.keys() == mem.spent().by_peer.keys()
    assert merge(mem, memory()).spent().total == pytest.approx(mem.spent().total)
    mem.close()
