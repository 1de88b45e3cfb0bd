"""A whole memory in PostgreSQL: forget, back up, export, restore, and a snapshot's tail."""

import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin import backup, export, merge, restore
from sigma_mem.errors import InputError, StoreError, UnknownDecisionError
from sigma_mem.store import open_store
from sigma_mem.store.postgres.tables import PostgresAddress

PEERS = ["ann", "bob", "cyd"]
ANSWERS = {"ann": "391", "bob": "391", "cyd": "381"}


@pytest.fixture
def memory(postgres):
    with SigmaMem(PEERS, postgres, encoder="hashed", snapshot_every=8) as mem:
        for n in range(12):
            decision = mem.decide(f"What is 17 * {n}?", ANSWERS, ref=f"task-{n}")
            mem.feedback(decision.id, {"ann": True, "cyd": n % 2 == 0}, source=("tests", "judge")[n % 2])
        yield mem


def test_it_continues_from_a_snapshot_and_equals_a_replay(memory, postgres, bits):
    live = bits(memory)
    assert memory.store.load_snapshot("default").seq > 8
    with SigmaMem(path=postgres) as again:
        assert bits(again) == live == bits(again.journal.replayed())
        assert again.events == 12
        assert again.explain("task-3").decision == memory.explain("task-3").decision


def test_a_backup_is_a_file_with_every_namespace(memory, tmp_path, bits):
    memory.namespace("tenant", ["ann", "dan"], encoder="hashed").route("Who?")
    memory.forget("task-2")
    backup(memory, tmp_path / "copy.db")
    with SigmaMem(path=tmp_path / "copy.db") as copy:
        assert bits(copy) == bits(memory)
        assert copy.namespace("tenant").events == 1
        with pytest.raises(UnknownDecisionError, match="is not in namespace"):
            copy.explain("task-2")


def test_export_and_restore_lose_nothing(memory, postgres, tmp_path, bits):
    memory.revoke("judge")
    lines = export(memory, tmp_path / "memory.jsonl.gz")
    with restore(tmp_path / "memory.jsonl.gz", postgres, namespace="copy") as copy:
        assert bits(copy) == bits(memory) == bits(copy.journal.replayed())
        assert copy.store.verify() == 2 * lines
        assert export(copy, tmp_path / "again.jsonl.gz") == lines
    with pytest.raises(InputError, match="holds a memory already"):
        restore(tmp_path / "memory.jsonl.gz", postgres, namespace="copy")
    with restore(tmp_path / "memory.jsonl.gz", tmp_path / "file.db") as file:
        assert bits(file) == bits(memory)


def test_merge_and_refold_make_a_file(memory, postgres, tmp_path):
    with (
        SigmaMem(path=postgres, readonly=True) as mem,
        SigmaMem(PEERS, tmp_path / "other.db", encoder="hashed") as other,
    ):
        other.route("Another one?")
        with merge(mem, other, tmp_path / "both.db") as both:
            assert both.events == 13
        with pytest.raises(InputError, match="expected a new file"):
            merge(mem, other, postgres)


def test_nothing_is_learned_from_what_could_not_be_written(memory, monkeypatch, bits):
    from sigma_mem.store.postgres.store import SharedTail

    before = bits(memory)

    def full(turn, *_):
        turn._drop()
        raise StoreError("could not extend file: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(SharedTail, "_write", full)
        with pytest.raises(StoreError, match="No space left"):
            memory.feedback("task-1", {"bob": True})
    assert bits(memory) == before
    assert memory.store.epoch("default") == 1
    memory.feedback("task-1", {"bob": True})
    assert bits(memory) != before
    assert bits(memory) == bits(memory.journal.replayed())


def test_opening_without_peers_where_there_is_nothing_is_refused(postgres):
    with pytest.raises(InputError, match="holds no memory yet"):
        SigmaMem(path=postgres)
    store = open_store(postgres)
    assert store.namespaces() == []
    store.close()


TABLES = ("namespace", "record", "snapshot")


@pytest.fixture
def standby(postgres_server, postgres):
    """Copy the tables as a standby has them, then fail over to that copy, with all that came since lost."""
    schema = PostgresAddress.parse(postgres).schema

    def run(*statements):
        with postgres_server.connect() as db:
            db.execute(f"SET search_path = {schema}")
            for statement in statements:
                db.execute(statement)

    def copy():
        run(*(f"CREATE TABLE old_{table} AS TABLE {table}" for table in TABLES))

    def fail_over():
        run(
            "ALTER TABLE record DISABLE TRIGGER USER",
            *(f"DELETE FROM {table}" for table in TABLES),
            *(f"INSERT INTO {table} SELECT * FROM old_{table}" for table in TABLES),
        )

    return copy, fail_over


@pytest.mark.parametrize("others", [0, 2, 4, 9])
def test_lines_that_the_database_lost_leave_the_state_of_its_ledger(memory, postgres, standby, bits, others):
    """A standby that lags takes over; another replica may append fewer or more lines than were lost."""
    copy, fail_over = standby
    copy()
    for n in range(2):
        memory.feedback(memory.decide(f"lost {n}", ANSWERS).id, {"ann": True})
    fail_over()
    with SigmaMem(path=postgres) as other:
        for n in range(others):
            other.route(f"new {n}")
    d = memory.decide("What now?", ANSWERS)
    memory.feedback(d.id, {"cyd": True})
    assert memory.events == 13 + others
    assert bits(memory) == bits(memory.journal.replayed())
    memory.journal.snapshot()
    with SigmaMem(path=postgres) as again:
        assert bits(again) == bits(memory)
        assert again.store.verify() > 24
