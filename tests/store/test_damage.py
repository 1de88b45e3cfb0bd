"""A damaged row or chain is refused by name, a damaged index found by `check`; nothing is silently wrong."""

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

from learned import all_learned
from sigma_mem import SigmaMem
from sigma_mem.errors import SigmaMemError, StoreCorruptError
from sigma_mem.store import Snapshot, SqliteStore
from sigma_mem.store.base import Erased

PEERS = ["a", "b", "c"]


# --- what is damaged on purpose ----------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "body = x'0011223344556677007b7d'",
        "kind = 'feedback'",
        "event = 'e'",
        "source = 'ann'",
        "digest = zeroblob(16)",
        "digest = substr(digest, 1, 16) || zeroblob(16)",
        "body = x'ff'",
        "body = 5",
    ],
)
def test_a_damaged_record_is_named_where_it_is_read(filled, change, raw):
    raw(filled, "DROP TRIGGER record_is_never_changed", f"UPDATE record SET {change} WHERE seq = 17")
    store = SqliteStore(filled)
    for read in (lambda: list(store.records("ns")), store.verify):
        with pytest.raises(StoreCorruptError, match="record 17 is damaged"):
            read()
    assert [r.seq for r in store.records("ns", after=18)] == list(range(19, 41))
    store.close()


@pytest.mark.parametrize("which", ["seq = 9", "seq = 40", "seq > 30"])
def test_a_line_taken_out_of_the_middle_or_off_the_end_is_missed(filled, which, raw):
    raw(filled, "DROP TRIGGER record_is_never_removed", f"DELETE FROM record WHERE {which}")
    first = {"seq = 9": 9, "seq = 40": 40, "seq > 30": 31}[which]
    with closing(SqliteStore(filled, readonly=True)) as store:
        for read in (lambda: list(store.records("ns")), store.verify):
            with pytest.raises(StoreCorruptError, match=f"line {first} of 'ns' is missing"):
                read()


def test_a_line_in_the_place_of_another_is_refused(filled, raw):
    """Whole by itself, and with the right number; its digest is not of the line before it."""
    other = "SELECT 'x', body, digest FROM record WHERE seq = 8"
    change = f"UPDATE record SET (id, body, digest) = ({other}) WHERE seq = 9"
    raw(filled, "DROP TRIGGER record_is_never_changed", change)
    with closing(SqliteStore(filled, readonly=True)) as store, pytest.raises(StoreCorruptError):
        list(store.records("ns"))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("UPDATE namespace SET lines = 39", "namespace 1 is damaged"),
        ("UPDATE namespace SET erased = 39", "namespace 1 is damaged"),
        ("DELETE FROM namespace", "no namespace counts"),
    ],
)
def test_a_damaged_namespace_is_found(filled, raw, change, what):
    raw(filled, change)
    with closing(SqliteStore(filled, readonly=True)) as store, pytest.raises(StoreCorruptError, match=what):
        store.verify()


@pytest.mark.parametrize("change", ["body = x'00'", "seq = 39", "crc = 0", "body = 5", "namespace = 2"])
def test_a_damaged_snapshot_is_ignored_and_replaced(filled, change, raw):
    raw(filled, f"UPDATE snapshot SET {change}")
    with closing(SqliteStore(filled)) as store:
        assert store.load_snapshot("ns") is None
        store.save_snapshot("ns", Snapshot(40, b"again"))
        assert store.load_snapshot("ns") == Snapshot(40, b"again")


def test_damage_in_the_schema_is_one_line(filled):
    """SQLite quotes the statement that it cannot read, with all its lines."""
    raw = filled.read_bytes()
    at = raw.index(b"seq       INTEGER")
    filled.write_bytes(raw[:at] + b"\x01" + raw[at + 1 :])
    with pytest.raises(StoreCorruptError, match="malformed database schema") as caught:
        SqliteStore(filled)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_the_ledger_cannot_be_changed_or_removed_by_sql(path, record, raw):
    with closing(SqliteStore(path)) as store:
        store.append("ns", [record(n, body=f"a secret {n}".encode()) for n in range(1, 6)])
        store.erase("ns", {2: Erased("2", b"its tick"), 4: Erased("gone", b"")}, record("x", kind="forget"))
        left = [(r.id, r.body) for r in store.records("ns")][1:4]
        assert left == [("2", b"its tick"), ("3", b"a secret 3"), ("gone", b"")]
        assert store.verify() == 6
    for sql in (
        "UPDATE record SET body = '{}' WHERE seq = 1",
        "DELETE FROM record WHERE seq = 3",
        "UPDATE record SET digest = zeroblob(32) WHERE seq = 2",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw(path, sql)
    raw(path, "DROP TRIGGER record_is_never_changed", "UPDATE record SET body = x'00' WHERE seq = 2")
    with (
        closing(SqliteStore(path, readonly=True)) as store,
        pytest.raises(StoreCorruptError, match="record 2"),
    ):
        list(store.records("ns"))


# --- what is damaged at random -----------------------------------------------------------


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
    """Events that were forgotten, a peer that was renamed, a source that was revoked."""
    ids = play(mem, 16)
    for id in ids[2:9:3]:
        mem.forget(id)
    mem.rename_peer("c", "d")
    play(mem, 3, seed=2)
    mem.revoke("s1")
    mem.forget(ids[-1])


def everything(mem: SigmaMem) -> dict[str, Any]:
    """What a memory says of all that it holds, through every way of looking."""
    store, name = mem.store, mem._namespace
    decisions = mem.decisions(1000)
    return {
        "learned": all_learned(mem),
        "replayed": all_learned(mem.journal.replayed()),
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


@pytest.mark.parametrize("index", ["record_by_seq", "record_by_id", "record_by_event", "record_by_source"])
def test_entries_that_an_index_lost_are_found_by_a_check(tmp_path: Path, index: str) -> None:
    """Half of a page of an index, as after damage: SQLite keeps no checksum of it."""
    path = tmp_path / "m.db"
    raw = bytearray(made_by(with_snapshot, path))
    with closing(sqlite3.connect(path)) as db:
        pages = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'"
        page = db.execute(pages, (index,)).fetchall()[-1][0]
        size = db.execute("PRAGMA page_size").fetchone()[0]
    cells = (page - 1) * size + 3  # the number of entries of a leaf
    raw[cells : cells + 2] = (int.from_bytes(raw[cells : cells + 2], "big") // 2).to_bytes(2, "big")
    path.write_bytes(raw)
    with closing(SqliteStore(path, readonly=True)) as store, pytest.raises(StoreCorruptError):
        store.verify()


def test_a_source_that_an_index_spells_otherwise_is_found_by_a_check(path, record):
    with closing(SqliteStore(path)) as store:
        store.append("ns", [record(n, kind="feedback", source="SOURCENAME") for n in range(3)])
    raw = path.read_bytes()
    places = [at for at in range(len(raw)) if raw.startswith(b"SOURCENAME", at)]
    assert len(places) == 6  # three of them in the index, whichever page is first
    for at in (places[0], places[-1]):
        path.write_bytes(raw[:at] + b"\xff" + raw[at + 1 :])
        with closing(SqliteStore(path, readonly=True)) as store:
            store.sources("ns")  # from the index alone: no error that is not ours
            with pytest.raises(StoreCorruptError):
                store.verify()
