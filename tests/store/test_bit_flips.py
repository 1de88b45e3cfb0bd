"""A bit that flips in a real memory, or in the log beside it, is refused or changes nothing."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.errors import SigmaMemError
from sigma_mem.store import SqliteStore, wal
from sigma_mem.store.wal import refuse_damaged_log

PEERS = ["a", "b", "c"]


def play(mem: SigmaMem, events: int, seed: int = 0) -> list[str]:
    rng, made = np.random.default_rng(seed), []
    for i in range(events):
        phi = rng.normal(size=4)
        answers = {peer: str(rng.integers(3)) for peer in PEERS if peer in mem.peers}
        d = mem.decide(f"question {i}", answers, phi=phi / np.linalg.norm(phi))
        labels = {peer: bool(rng.integers(2)) for peer in answers}
        mem.feedback(d.id, labels, source=f"s{i % 3}", id=f"{seed}-{i}")
        made.append(d.id)
    return made


def small(mem: SigmaMem) -> None:
    """Two events, no snapshot."""
    play(mem, 2)


def with_snapshot(mem: SigmaMem) -> None:
    """Lines before and after a snapshot, and a second namespace."""
    play(mem.namespace("tenant", PEERS, rank=4), 5, seed=1)
    play(mem, 15)
    mem.snapshot()
    play(mem, 4, seed=2)


def with_tombstones(mem: SigmaMem) -> None:
    """Events that were forgotten, peers that were reset and renamed, a source that was revoked."""
    ids = play(mem, 16)
    for id in ids[2:9:3]:
        mem.forget(id)
    mem.reset_peer("a", keep=0.5)
    mem.rename_peer("c", "d")
    play(mem, 3, seed=2)
    mem.revoke("s1")
    mem.forget(ids[-1])


def everything(mem: SigmaMem) -> dict[str, Any]:
    """What a memory says of all that it holds, through every way of looking."""
    store, name = mem.store, mem._namespace
    decisions = mem.decisions(1000)
    return {
        "state": {key: value.tobytes() for key, value in mem.state.pack().items()},
        "replayed": {key: value.tobytes() for key, value in mem.replayed().state.pack().items()},
        "reads": {key: value.tobytes() for key, value in mem.reads.pack().items()},
        "decisions": [repr(d) for d in decisions],
        "events": [[r.id for r in store.of_event(name, d.event)] for d in decisions],
        "found": [store.find(name, "feedback", f"0-{i}") is not None for i in range(21)],
        "sources": {s: [r.id for r in store.of_source(name, s)] for s in store.sources(name)},
    }


def told_by(path: Path, readonly: bool) -> dict[str, Any]:
    with closing(SqliteStore(path, readonly=readonly)) as store:
        return {name: everything(SigmaMem(store=store, namespace=name)) for name in store.namespaces()}


def files_of(make: Callable[[SigmaMem], None], folder: Path, log: bool) -> dict[str, bytes]:
    """The files of a memory: closed, or as a killed writer leaves them."""
    mem = SigmaMem(PEERS, folder / "m.db", rank=4)
    make(mem)
    mem.store.flush()
    if not log:
        mem.store.close()
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix != ".lock"}
    mem.store.close()
    return files


def flips(files: dict[str, bytes], where: list[str], folder: Path, rounds: int) -> Iterator[str]:
    """Flip a random bit and look at everything: anywhere, of what is written, of what leads to records."""
    rng = random.Random(rounds)
    right = told_after(files, folder)
    written = [(name, at) for name in where for at, byte in enumerate(files[name]) if byte]
    leading = [("m.db", at) for at in beside_records(files["m.db"], folder)] if len(where) == 1 else written
    for number in range(rounds):
        name = rng.choice(where)
        anywhere = [(name, rng.randrange(len(files[name])))]
        name, at = rng.choice((anywhere, written, leading)[number % 3])
        bit = 1 << rng.randrange(8)
        flipped = files[name][:at] + bytes([files[name][at] ^ bit]) + files[name][at + 1 :]
        try:
            said = told_after({**files, name: flipped}, folder, readonly=rng.random() < 0.3)
        except SigmaMemError as error:
            yield "refused" if "\n" not in str(error) else f"more than one line: {error}"
        else:
            yield "right" if said == right else f"silently wrong: byte {at} of {name}, bit {bit}"


def beside_records(database: bytes, folder: Path) -> Iterator[int]:
    """Where the bytes are of indexes and of small tables, which have no digest of their own."""
    (folder / "closed.db").write_bytes(database)
    with closing(sqlite3.connect(folder / "closed.db")) as db:
        size = db.execute("PRAGMA page_size").fetchone()[0]
        pages = db.execute("SELECT pageno FROM dbstat WHERE name <> 'record'").fetchall()
    for (page,) in pages:
        yield from (at for at in range((page - 1) * size, page * size) if database[at])


def told_after(files: dict[str, bytes], folder: Path, readonly: bool = True) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return told_by(folder / "m.db", readonly)


KINDS = [(small, False), (with_snapshot, False), (with_tombstones, False), (with_snapshot, True)]


@pytest.mark.parametrize("rounds", [12, pytest.param(1000, marks=pytest.mark.endurance)])
@pytest.mark.parametrize(
    ("make", "log"), KINDS, ids=["small", "with-snapshot", "with-tombstones", "with-a-log"]
)
def test_a_flipped_bit_is_refused_or_changes_nothing(
    make: Callable[[SigmaMem], None], log: bool, rounds: int, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    files = files_of(make, tmp_path / "made", log)
    where = ["m.db-wal", "m.db-wal", "m.db", "m.db-shm"] if log else ["m.db"]
    assert set(where) == set(files)
    outcomes = Counter(flips(files, where, tmp_path / "flipped", rounds))
    print(f"{make.__name__}, log {log}: {dict(outcomes)}")
    assert set(outcomes) <= {"refused", "right"}
    assert outcomes["refused"] > 0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A log that was used more than once: frames of an earlier use stand behind those of the last."""
    folder = tmp_path_factory.mktemp("log")
    with SigmaMem(PEERS, folder / "m.db", rank=4, durable="all") as mem:
        play(mem, 4)
        mem.store._tables._writer.execute("PRAGMA wal_checkpoint(RESTART)")
        play(mem, 1, seed=1)
        return (folder / "m.db-wal").read_bytes()


def refused(log: bytes, folder: Path) -> bool:
    (folder / "m.db-wal").write_bytes(log)
    try:
        refuse_damaged_log(folder / "m.db")
    except SigmaMemError as error:
        return "m.db-wal is damaged" in str(error)
    return False


def last_frame(log: bytes) -> tuple[int, int]:
    """Where the last frame of the log's last use begins, and where it ends."""
    size = 24 + int.from_bytes(log[8:12], "big")
    starts = range(32, len(log), size)
    ours = [at for at in starts if log[at + 8 : at + 16] == log[16:24]]
    assert len(ours) < len(starts)
    return ours[-1], ours[-1] + size


def test_a_flipped_bit_of_the_last_frame_or_of_the_header_is_found(
    log: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal, "_AGAIN", 0.0)
    start, end = last_frame(log)
    rng = random.Random(0)
    for at in [*range(32), *range(start, start + 24), *(rng.randrange(start, end) for _ in range(20))]:
        bit = 1 << rng.randrange(8)
        assert refused(log[:at] + bytes([log[at] ^ bit]) + log[at + 1 :], tmp_path), (at - start, bit)


def test_what_a_kill_leaves_of_the_last_frame_is_no_damage(log: bytes, tmp_path: Path) -> None:
    start, end = last_frame(log)
    rng = random.Random(0)
    assert not refused(log, tmp_path)
    for at in (start, start + 10, start + 24, start + 5000, end):
        assert not refused(log[:at], tmp_path)  # cut
        assert not refused(log[:at] + rng.randbytes(end - at) + log[end:], tmp_path)  # its head is new only
    for size in (0, 1, 31, 32, 40):
        assert not refused(log[:size], tmp_path)
