"""After a power cut, a kill or a disk that failed for a moment, a file opens with every acknowledged line."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from sigma_mem.store import Record, SqliteStore


def line(id: str, size: int = 20) -> Record:
    return Record("decision", id, id, os.urandom(size))


def without_checkpoints(store: SqliteStore) -> SqliteStore:
    """A log that is only moved into the file by `checkpoint`: such a move waits for the disk itself."""
    store._tables._writer.execute("PRAGMA wal_autocheckpoint = 0")
    return store


def checkpoint(store: SqliteStore) -> None:
    with store._tables._write_lock:
        store._tables._writer.execute("PRAGMA wal_checkpoint(PASSIVE)")


def cut(before: bytes, after: bytes, rng: random.Random) -> bytes:
    """The log after a power cut in a commit: its first page is lost, of the later ones some are kept.

    What is lost is what stood there before the commit; no page from before it is lost, nor the header of a
    log that began anew, which SQLite syncs before any page.
    """
    size = 24 + int.from_bytes(after[8:12], "big")
    frames = range(32, len(after), size)
    written = [at for at in frames if after[at : at + size] != before[at : at + size]]
    log = bytearray(after)
    for at in written:
        if at == written[0] or rng.random() < 0.4:
            log[at : at + size] = before[at : at + size].ljust(size, b"\0")
    return bytes(log)


def live(path: Path, acknowledged: list[str], life: int, rng: random.Random) -> None:
    """Open a file, find everything, append more, and lose power in the middle of a commit."""
    log, copy = path.with_name(path.name + "-wal"), path.with_name("copy.db")
    with closing(without_checkpoints(SqliteStore(path))) as store:
        found = {record.id for record in store.records("ns")}
        assert found >= set(acknowledged)
        acknowledged.extend(found - set(acknowledged))  # a commit may have come through
        assert store.verify() == len(found)
        for n in range(rng.randrange(1, 4)):
            store.append("ns", [line(f"{life}-{n}")])[1].wait()
            acknowledged.append(f"{life}-{n}")
            if rng.random() < 0.3:
                checkpoint(store)
        before = log.read_bytes()
        store.append("ns", [line(f"{life}-lost", rng.choice((10, 3000, 60_000, 300_000)))])[1].wait()
        shutil.copy(path, copy)
        after = cut(before, log.read_bytes(), rng)
    copy.replace(path)
    log.write_bytes(after)


@pytest.mark.parametrize("lives", [25, pytest.param(1000, marks=pytest.mark.endurance)])
def test_power_cuts_one_after_the_other_lose_nothing_and_are_never_taken_for_damage(
    tmp_path: Path, lives: int
) -> None:
    """wal_refused_after_two_power_cuts: later pages of a commit are kept, and its first is lost."""
    path, rng, acknowledged = tmp_path / "m.db", random.Random(lives), list[str]()
    for life in range(lives):
        live(path, acknowledged, life, rng)
    with closing(SqliteStore(path, readonly=True)) as store:
        assert {record.id for record in store.records("ns")} >= set(acknowledged)
        assert store.verify() >= len(acknowledged) > lives
    assert not any(id.endswith("lost") for id in acknowledged)  # else no commit was cut


@pytest.mark.parametrize("rounds", [1, 3])
def test_what_failed_commits_leave_in_the_log_is_not_taken_for_damage(tmp_path: Path, rounds: int) -> None:
    """wal_refused_after_fsync_error: pages of commits that failed stand behind the last one that did not."""
    path = tmp_path / "m.db"
    store = without_checkpoints(SqliteStore(path))
    for n in range(4):
        store.append("ns", [line(str(n))])[1].wait()
    for size in range(rounds, 0, -1):
        with store._tables._write_lock:
            db = store._tables._writer
            db.execute("PRAGMA cache_size = 5")  # pages go to the log before the commit
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO erasure VALUES (?, 0)", ((n,) for n in range(20_000 * size)))
            db.execute("ROLLBACK")
    frames = path.with_name("m.db-wal").stat().st_size
    store.append("ns", [line("4")])[1].wait()
    assert path.with_name("m.db-wal").stat().st_size == frames  # it stands in front of what is left
    for name in ("m.db", "m.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / f"killed-{name}")
    store.close()
    with closing(SqliteStore(tmp_path / "killed-m.db")) as again:
        assert [record.id for record in again.records("ns")] == ["0", "1", "2", "3", "4"]
        assert again.verify() == 5
