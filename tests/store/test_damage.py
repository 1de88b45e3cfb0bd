"""Damage is found where it is read, and never read as a record."""

import pytest

from sigma_mem.errors import StoreCorruptError, StoreError
from sigma_mem.store import Snapshot, SqliteStore


@pytest.mark.parametrize(
    "change",
    [
        "body = x'0011223344556677007b7d'",
        "kind = 'feedback'",
        "event = 'e'",
        "digest = zeroblob(16)",
        "body = x'ff'",
    ],
)
def test_a_damaged_record_is_named_where_it_is_read(filled, change, raw):
    raw(filled, "DROP TRIGGER record_is_never_changed", f"UPDATE record SET {change} WHERE seq = 17")
    store = SqliteStore(filled)
    with pytest.raises(StoreCorruptError, match="record 17 is damaged"):
        list(store.records("ns"))
    with pytest.raises(StoreCorruptError, match="record 17 is damaged"):
        store.verify()
    assert [r.seq for r in store.records("ns", after=18)] == list(range(19, 41))
    store.close()


def test_a_flipped_bit_on_the_disk_is_never_read_as_a_record(filled):
    """Whatever bit of the file flips, what is read is what was written, or it is an error."""
    good = filled.read_bytes()
    expected = dict.fromkeys(range(1, 41), b"x" * 300)
    caught = 0
    for at in range(100, len(good), 1499):
        filled.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        try:
            store = SqliteStore(filled, readonly=True)
            try:
                back = {r.seq: r.body for r in store.records("ns")}
                assert all(expected[seq] == text for seq, text in back.items())
                assert store.load_snapshot("ns") in (None, Snapshot(40, b"state" * 1000))
                store.verify()
            finally:
                store.close()
        except StoreError:
            caught += 1
    assert caught >= 3


def test_a_missing_record_is_found_by_verify(filled, raw):
    raw(filled, "DROP TRIGGER record_is_never_removed")
    raw(filled, "DELETE FROM record WHERE seq = 9")
    store = SqliteStore(filled, readonly=True)
    with pytest.raises(StoreCorruptError, match="line 9 of 'ns' is missing"):
        store.verify()
    store.close()


@pytest.mark.parametrize("change", ["body = x'00'", "seq = 39", "crc = 0", "body = 5", "namespace = 2"])
def test_a_damaged_snapshot_is_ignored_and_replaced(filled, change, raw):
    raw(filled, f"UPDATE snapshot SET {change}")
    store = SqliteStore(filled)
    assert store.load_snapshot("ns") is None
    assert store.load_snapshot("other") is None
    store.save_snapshot("ns", Snapshot(40, b"again"))
    assert store.load_snapshot("ns") == Snapshot(40, b"again")
    store.close()


def test_damage_in_the_schema_is_one_line(filled):
    """SQLite quotes the statement that it cannot read, with all its lines."""
    raw = filled.read_bytes()
    at = raw.index(b"seq       INTEGER")
    filled.write_bytes(raw[:at] + b"\x01" + raw[at + 1 :])
    with pytest.raises(StoreCorruptError, match="malformed database schema") as caught:
        SqliteStore(filled)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
