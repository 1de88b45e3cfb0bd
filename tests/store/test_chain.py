"""The ledger proves that it is whole: a damaged row or chain is refused, a damaged index found by `check`."""

import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.errors import SigmaMemError, StoreCorruptError
from sigma_mem.store import SqliteStore
from sigma_mem.store.base import Erased

PEERS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A memory with two namespaces and a snapshot before its last lines, and everything that it says."""
    path = tmp_path_factory.mktemp("chain") / "m.db"
    mem = SigmaMem(PEERS, path, rank=4)
    tenant = mem.namespace("tenant", PEERS, rank=4)
    rng = np.random.default_rng(3)
    for i in range(20):
        for one in (mem, tenant):
            phi = rng.normal(size=4)
            d = one.decide(f"q{i}", {p: str(rng.integers(3)) for p in PEERS}, phi=phi / np.linalg.norm(phi))
            one.feedback(d.id, {p: bool(rng.integers(2)) for p in PEERS}, source=f"s{i % 3}", id=f"f{i}")
        if i == 12:
            mem.journal.snapshot()
            tenant.revoke("s1")
            tenant.revoke("s1", undo=True)
    told = {name: everything(one) for name, one in (("default", mem), ("tenant", tenant))}
    mem.store.close()
    return path, told


def everything(mem: SigmaMem) -> dict[str, Any]:
    """What a memory says of all that it holds, through every way of looking."""
    store, name = mem.store, mem._namespace
    decisions = mem.decisions(1000)
    return {
        "state": {key: value.tobytes() for key, value in mem.state.pack().items()},
        "replayed": {key: value.tobytes() for key, value in mem.journal.replayed().state.pack().items()},
        "decisions": [d.id for d in decisions],
        "events": [[r.id for r in store.of_event(name, d.event)] for d in decisions],
        "found": [store.find(name, "feedback", f"f{i}") is not None for i in range(21)],
        "sources": {s: [r.id for r in store.of_source(name, s)] for s in store.sources(name)},
    }


def flips(path: Path, told: dict[str, Any], rounds: int, seed: int) -> Iterator[str]:
    """Flip a random bit, look at everything, check what is wrong; yield what came of it."""
    good, rng = path.read_bytes(), random.Random(seed)
    for _ in range(rounds):
        at, bit = rng.randrange(len(good)), 1 << rng.randrange(8)
        path.write_bytes(good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :])
        try:
            with closing(SqliteStore(path, readonly=True)) as store:
                said = {name: everything(SigmaMem(store=store, namespace=name)) for name in told}
                if said == told:
                    yield "right"
                else:
                    store.verify()
                    yield f"byte {at}, bit {bit}: silently wrong"
        except SigmaMemError as error:
            yield "refused" if "\n" not in str(error) else "more than one line"
    path.write_bytes(good)


@pytest.mark.parametrize("rounds", [25, pytest.param(1000, marks=pytest.mark.endurance)])
def test_a_flipped_bit_is_refused_or_changes_nothing(
    memory: tuple[Path, dict[str, Any]], tmp_path: Path, rounds: int
) -> None:
    path = Path(shutil.copy(memory[0], tmp_path / "m.db"))
    outcomes = list(flips(path, memory[1], rounds, seed=rounds))
    assert set(outcomes) <= {"refused", "right"}


INDEXES = ["record_by_seq", "record_by_id", "record_by_event", "record_by_source"]


def lose_entries(path: Path, index: str, leaf: int) -> None:
    """Half of a page of an index, as after damage: SQLite keeps no checksum of it."""
    with closing(sqlite3.connect(path)) as db:
        pages = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'"
        page = db.execute(pages, (index,)).fetchall()[leaf][0]
        size = db.execute("PRAGMA page_size").fetchone()[0]
    raw = bytearray(path.read_bytes())
    cells = (page - 1) * size + 3  # the number of entries of a leaf
    count = int.from_bytes(raw[cells : cells + 2], "big")
    raw[cells : cells + 2] = (count // 2).to_bytes(2, "big")
    path.write_bytes(raw)


@pytest.mark.parametrize("index", INDEXES)
def test_entries_that_an_index_lost_are_found_by_a_check(
    memory: tuple[Path, dict[str, Any]], tmp_path: Path, index: str
) -> None:
    path = Path(shutil.copy(memory[0], tmp_path / "m.db"))
    lose_entries(path, index, -1)
    with closing(SqliteStore(path, readonly=True)) as store, pytest.raises(StoreCorruptError):
        store.verify()


def test_a_line_taken_out_of_the_middle_or_off_the_end_is_missed(
    memory: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    for where in ("= 30", "= (SELECT max(seq) FROM record)", "> 20"):
        path = Path(shutil.copy(memory[0], tmp_path / "m.db"))
        with closing(sqlite3.connect(path)) as db:
            db.execute("DROP TRIGGER record_is_never_removed")
            db.execute(f"DELETE FROM record WHERE seq {where}")
            db.commit()
        with closing(SqliteStore(path, readonly=True)) as store:
            with pytest.raises(StoreCorruptError):
                print([len(list(store.records(name))) for name in memory[1]])
            with pytest.raises(StoreCorruptError):
                store.verify()


def test_a_forgotten_line_keeps_its_place_in_the_chain(path: Path, record: Any) -> None:
    with closing(SqliteStore(path)) as store:
        for n in range(1, 6):
            store.append("ns", [record(n, body=f"a secret {n}".encode())])
        store.erase("ns", {2: Erased("2", b"its tick"), 4: Erased("4", b"")}, record("gone", kind="forget"))
        assert store.verify() == 6
        bodies = [(r.seq, r.kind, r.id, r.body) for r in store.records("ns")]
        assert bodies[1] == (2, "decision", "2", b"its tick")
        assert bodies[3] == (4, "decision", "4", b"")
        assert bodies[2][3] == b"a secret 3"
        assert store.find("ns", "decision", "2").body == b"its tick"
    with closing(SqliteStore(path, readonly=True)) as store:
        assert store.verify() == 6
        assert len(list(store.records("ns"))) == 6


def test_a_forgotten_line_cannot_be_changed_by_sql(path: Path, record: Any, raw: Any) -> None:
    with closing(SqliteStore(path)) as store:
        for n in range(1, 4):
            store.append("ns", [record(n)])
        store.erase("ns", {2: Erased("2", b"")}, record("gone", kind="forget"))
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw(path, "UPDATE record SET digest = zeroblob(32) WHERE seq = 2")
    raw(path, "DROP TRIGGER record_is_never_changed", "UPDATE record SET body = x'00' WHERE seq = 2")
    with closing(SqliteStore(path, readonly=True)) as store, pytest.raises(StoreCorruptError):
        list(store.records("ns"))
