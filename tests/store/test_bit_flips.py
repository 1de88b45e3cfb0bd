"""A bit that flips in a real memory is refused, found by a check, or changes nothing."""

from __future__ import annotations

import random
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
from sigma_mem.store import SqliteStore

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
    mem.journal.snapshot()
    play(mem, 4, seed=2)


def with_tombstones(mem: SigmaMem) -> None:
    """Events that were forgotten, peers that were reset and renamed, a source that was revoked."""
    ids = play(mem, 16)
    for id in ids[2:9:3]:
        mem.forget(id)
    mem.rename_peer("a", keep=0.5)
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
        "replayed": {key: value.tobytes() for key, value in mem.journal.replayed().state.pack().items()},
        "reads": {key: value.tobytes() for key, value in mem.reads.pack().items()},
        "decisions": [repr(d) for d in decisions],
        "events": [[r.id for r in store.of_event(name, d.event)] for d in decisions],
        "found": [store.find(name, "feedback", f"0-{i}") is not None for i in range(21)],
        "sources": {s: [r.id for r in store.of_source(name, s)] for s in store.sources(name)},
    }


def told_by(path: Path, readonly: bool) -> dict[str, Any]:
    with closing(SqliteStore(path, readonly=readonly)) as store:
        return {name: everything(SigmaMem(store=store, namespace=name)) for name in store.namespaces()}


def made_by(make: Callable[[SigmaMem], None], path: Path) -> bytes:
    """A memory's file, closed."""
    mem = SigmaMem(PEERS, path, rank=4)
    make(mem)
    mem.store.close()
    return path.read_bytes()


def flips(database: bytes, path: Path, rounds: int) -> Iterator[str]:
    """Flip a random bit and look at everything: anywhere, of what is written, of what leads to records."""
    rng = random.Random(rounds)
    path.write_bytes(database)
    right = told_by(path, readonly=True)
    written = [at for at, byte in enumerate(database) if byte]
    leading = list(beside_records(database, path.with_name("closed.db")))
    for number in range(rounds):
        at = rng.choice((range(len(database)), written, leading)[number % 3])
        bit = 1 << rng.randrange(8)
        path.write_bytes(database[:at] + bytes([database[at] ^ bit]) + database[at + 1 :])
        try:
            if told_by(path, readonly=rng.random() < 0.7) == right:
                yield "right"
            else:
                yield checked(path) or f"silently wrong: byte {at}, bit {bit}"
        except SigmaMemError as error:
            yield "refused" if "\n" not in str(error) else f"more than one line: {error}"


def checked(path: Path) -> str | None:
    """What `sigma-mem check` says of a file in which something is wrong; None where it finds nothing."""
    with closing(SqliteStore(path, readonly=True)) as store:
        try:
            store.verify()
        except SigmaMemError:
            return "found by a check"
    return None


def beside_records(database: bytes, path: Path) -> Iterator[int]:
    """Where the bytes are of indexes and of small tables, which have no digest of their own."""
    path.write_bytes(database)
    with closing(sqlite3.connect(path)) as db:
        size = db.execute("PRAGMA page_size").fetchone()[0]
        pages = db.execute("SELECT pageno FROM dbstat WHERE name <> 'record'").fetchall()
    for (page,) in pages:
        yield from (at for at in range((page - 1) * size, page * size) if database[at])


@pytest.mark.parametrize("rounds", [12, pytest.param(1000, marks=pytest.mark.endurance)])
@pytest.mark.parametrize("make", [small, with_snapshot, with_tombstones])
def test_a_flipped_bit_is_refused_found_by_a_check_or_changes_nothing(
    make: Callable[[SigmaMem], None], rounds: int, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    database = made_by(make, tmp_path / "made" / "m.db")
    outcomes = Counter(flips(database, tmp_path / "m.db", rounds))
    print(f"{make.__name__}: {dict(outcomes)}")
    assert set(outcomes) <= {"refused", "found by a check", "right"}
    assert outcomes["refused"] > 0
