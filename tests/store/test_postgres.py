"""PostgreSQL's own: versions, damage, credentials, turns. What every store does is in tests/contract."""

import itertools
import os
import threading
import traceback
from contextlib import closing

import pytest

from invariants.keeping import Interrupted, interrupt_after
from sigma_mem.errors import (
    InputError,
    MissingExtraError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
    StoreVersionError,
)
from sigma_mem.store import PostgresStore, Snapshot, open_store
from sigma_mem.store.base import Erased
from sigma_mem.store.open import shown_path
from sigma_mem.store.postgres import tables as migration
from sigma_mem.store.postgres.tables import PostgresAddress, upgrade_postgres

SECRET = "secret-of-tests"


@pytest.fixture
def raw(postgres_server, postgres):
    """Run SQL behind the store's back."""

    def run(*statements):
        with postgres_server.connect() as db:
            db.execute(f"SET search_path = {PostgresAddress.parse(postgres).schema}")
            for sql in statements:
                cursor = db.execute(sql)
            return cursor.fetchall() if cursor.description else None

    return run


@pytest.fixture
def store(postgres):
    with closing(PostgresStore(postgres)) as store:
        yield store


@pytest.fixture
def two_stores(postgres, store):
    """Two that share nothing but the database, as two processes would."""
    with closing(PostgresStore(postgres)) as other:
        yield store, other


@pytest.fixture
def filled(postgres, record):
    """A closed memory with 40 records, five of them feedback, and a snapshot of all of them."""
    with closing(PostgresStore(postgres)) as store:
        for n in range(1, 41):
            kind, event, source = ("feedback", "1", "ann") if n % 8 == 0 else ("decision", None, None)
            store.append("ns", [record(n, kind, event, source, b"x" * 300)])
        store.save_snapshot("ns", Snapshot(40, b"state" * 1000))
    return postgres


@pytest.mark.parametrize("change", ["UPDATE record SET body = ''", "DELETE FROM record", "TRUNCATE record"])
def test_the_database_refuses_to_change_the_ledger(filled, raw, change):
    with pytest.raises(Exception, match="append-only"):
        raw(change)


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("UPDATE record SET body = body || 'x' WHERE seq = 7", "record 7 is damaged"),
        ("DELETE FROM record WHERE seq = 7", "line 7 of 'ns' is missing"),
        ("DELETE FROM record WHERE seq = 40", "line 40 of 'ns' is missing"),
        ("UPDATE namespace SET lines = 39", "namespace 1 is damaged"),
        ("DELETE FROM namespace", "no namespace counts"),
    ],
)
def test_damage_is_found_and_named(filled, raw, damage, what):
    raw("ALTER TABLE record DISABLE TRIGGER ALL", damage, "ALTER TABLE record ENABLE TRIGGER ALL")
    with closing(PostgresStore(filled, readonly=True)) as store, pytest.raises(StoreCorruptError, match=what):
        store.verify()


def test_no_snapshot_from_before_a_later_one_or_a_forgetting_is_used(filled, two_stores, record):
    one, two = two_stores
    one.save_snapshot("ns", Snapshot(20, b"older"))
    assert one.load_snapshot("ns").seq == 40
    one.erase("ns", {2: Erased("2", b"gone")}, record("forget", kind="forget", event=""))
    assert one.load_snapshot("ns") is None
    two.save_snapshot("ns", Snapshot(40, b"holds what was forgotten"))  # by a process that does not know yet
    assert one.load_snapshot("ns") is None
    two.save_snapshot("ns", Snapshot(41, b"later"))
    assert one.load_snapshot("ns") == Snapshot(41, b"later")


def test_many_lines_at_once_are_one_unit(store, record, monkeypatch):
    monkeypatch.setattr("sigma_mem.store.postgres.store._ROWS", 100)
    assert store.append("ns", [record(n) for n in range(250)])[0] == 250
    assert store.verify() == 250


# --- versions ----------------------------------------------------------------------------


def test_an_older_version_says_what_to_run_and_is_then_upgraded(filled, raw, monkeypatch, record):
    scripts = (*migration.postgres_scripts(), "CREATE TABLE later (number integer)")
    monkeypatch.setattr(migration, "postgres_scripts", lambda: scripts)
    with pytest.raises(StoreVersionError, match="run: sigma-mem db upgrade"):
        PostgresStore(filled)
    assert upgrade_postgres(filled) == (1, 2)
    assert upgrade_postgres(filled) == (2, 2)
    assert raw("SELECT count(*) FROM later") == [(0,)]
    with closing(PostgresStore(filled)) as store:
        assert store.append("ns", [record(41)])[0] == 41


def test_an_upgrade_is_done_as_a_whole_or_not_at_all(filled, raw, monkeypatch):
    scripts = (*migration.postgres_scripts(), "CREATE TABLE later (number integer)", "SELECT 1 / 0")
    monkeypatch.setattr(migration, "postgres_scripts", lambda: scripts)
    with pytest.raises(StoreError, match="division by zero"):
        upgrade_postgres(filled)
    assert raw("SELECT version FROM ledger_version") == [(1,)]
    assert raw("SELECT to_regclass('later')") == [(None,)]


def test_a_newer_version_is_refused(filled, raw):
    raw("UPDATE ledger_version SET version = 99")
    for use in (PostgresStore, upgrade_postgres):
        with pytest.raises(StoreVersionError, match="upgrade sigma-mem"):
            use(filled)


def test_reading_makes_no_tables(postgres, raw):
    with pytest.raises(StoreError, match="holds no memory yet"):
        PostgresStore(postgres, readonly=True)
    assert raw("SELECT to_regclass('record')") == [(None,)]


def test_processes_that_open_an_empty_database_at_once_make_one(postgres, record):
    opened, start = [], threading.Barrier(4)

    def open_it():
        start.wait()
        opened.append(PostgresStore(postgres))

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, store in enumerate(opened):
        assert store.append("ns", [record(n)])[0] == n + 1
        store.close()


# --- what is refused ---------------------------------------------------------------------


def test_a_name_that_no_index_takes_is_refused(store, record):
    long = "x" * 2001
    for bad in (record(long), record("1", event=long), record("1", kind="feedback", source="é" * 1001)):
        with pytest.raises(InputError, match="indexes up to 2000"):
            store.append("ns", [bad])
    assert store.append("ns", [record("x" * 2000)])[0] == 1


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@127.0.0.1:1/db",
        f"postgresql://ann:{SECRET}@127.0.0.1:port/db",
        f"postgresql://ann:{SECRET}@[::1/db",
        f"postgresql://ann:{SECRET}@localhost:1/db?nonsense=1",
        f"postgresql://ann:{SECRET}@localhost:1/db?schema=Bad-Name",
        f"postgresql://ann:{SECRET}@localhost:1/db?password={SECRET}&x",
        f"mysql://ann:{SECRET}@localhost/db",
    ],
)
def test_no_error_shows_credentials(url):
    with pytest.raises((StoreError, InputError)) as caught:
        open_store(url)
    assert SECRET not in "".join(traceback.format_exception(caught.value))  # with all that led to it
    assert "\n" not in str(caught.value)


def test_a_shown_address_has_no_user_and_no_password():
    url = f"postgresql://ann:{SECRET}@db.example:5432/work?sslmode=require&schema=other"
    address = PostgresAddress.parse(url)
    assert shown_path(url) == str(address) == "postgresql://db.example:5432/work?schema=other"
    assert SECRET not in repr(address)
    assert shown_path("memory.db") == "memory.db"


def test_without_the_driver_the_error_names_the_extra(postgres, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'sigma-mem\[postgres\]'"):
        PostgresStore(postgres)


# --- turns -------------------------------------------------------------------------------


def test_who_waits_too_long_for_a_turn_is_told_so(monkeypatch, request, record):
    monkeypatch.setattr("sigma_mem.store.postgres.tables.LOCK_SECONDS", 0.1)
    one, two = request.getfixturevalue("two_stores")
    with one.turn("ns"):
        with pytest.raises(StoreBusyError, match="held the lock"):
            two.append("ns", [record(1)])
        assert two.append("other", [record(1)])[0] == 1  # namespaces do not wait for each other
    assert two.append("ns", [record(1)])[0] == 1


def test_a_thread_that_was_interrupted_in_its_turn_holds_up_nobody(two_stores, record):
    one, two = two_stores
    seat = one._tail("ns")._enter(False)
    del seat  # as when a signal's exception ends the frame that held it
    assert two.append("ns", [record(1)])[0] == 1


def test_an_interrupt_before_the_writing_thread_starts_holds_up_nobody(store, record, monkeypatch):
    start = threading.Thread.start

    def interrupted(thread):
        monkeypatch.setattr(threading.Thread, "start", start)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.append("ns", [record(1)])
    sequence, ticket = store.append("ns", [record(2)])
    ticket.wait()
    assert sequence == 1


@pytest.mark.filterwarnings("ignore:.*was deleted while still open:ResourceWarning")  # an interrupt lost it
def test_an_interrupt_at_any_line_of_an_append_leaves_no_gap_and_holds_up_nobody(store, record):
    interrupted = 0
    for lines in itertools.count():
        with store.turn("ns"):  # one turn: the next one would ask the ledger again
            try:
                with interrupt_after(lines):
                    store.append("ns", [record(f"interrupted {lines}")])
            except Interrupted:
                interrupted += 1
            last, ticket = store.append("ns", [record(lines)])
        ticket.wait()
        assert [r.seq for r in store.records("ns")] == list(range(1, last + 1))
        if interrupted == lines:
            break
    assert interrupted > 50


def test_what_was_made_from_an_older_state_is_refused(two_stores, record):
    one, two = two_stores
    one.append("ns", [record(1)])[1].wait()
    two.append("ns", [record(2)])[1].wait()
    with pytest.raises(StoreError, match="others appended to 'ns' meanwhile; nothing was changed"):
        one.append("ns", [record(3)], one.epoch("ns"), 1)
    assert one.append("ns", [record(3)], one.epoch("ns"), 2)[0] == 3


def test_a_commit_is_on_the_disk_when_it_is_acknowledged(postgres_server, postgres, record):
    with postgres_server.connect() as db:
        db.execute("ALTER ROLE postgres SET synchronous_commit = off")
    try:
        with closing(PostgresStore(postgres)) as store, store._tables.connections.borrow("look at") as db:
            assert db.execute("SHOW synchronous_commit").fetchone() == ("on",)
    finally:
        with postgres_server.connect() as db:
            db.execute("ALTER ROLE postgres RESET synchronous_commit")


def test_a_forked_child_leaves_the_connections_to_its_parent(store, record):
    store.append("ns", [record(1)])[1].wait()
    child = os.fork()
    if child == 0:
        try:
            store.append("ns", [record(2)])
        except StoreError:
            os._exit(0)  # closed here
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.append("ns", [record(2)])[0] == 2
    assert store.verify() == 2


# --- a server that goes away -------------------------------------------------------------


def test_a_call_waits_for_a_server_that_comes_back(postgres_server, store, record):
    store.append("ns", [record(1)])[1].wait()
    postgres_server.stop()
    back = threading.Timer(0.5, postgres_server.start)
    back.start()
    assert store.append("ns", [record(2)])[0] == 2
    back.join()
    assert [r.id for r in store.records("ns")] == ["1", "2"]
    assert store.epoch("ns") == 0  # nothing was dropped


def test_a_server_that_stays_away_is_one_clear_error_and_all_goes_on_after_it(
    postgres_server, postgres, store, record, monkeypatch
):
    monkeypatch.setattr("sigma_mem.store.postgres.tables.PATIENCE", 0.2)
    store.append("ns", [record(1)])[1].wait()
    postgres_server.stop()
    try:
        for use in (
            lambda: store.append("ns", [record(2)]),
            lambda: list(store.records("ns")),
            lambda: store.find("ns", "decision", "1"),
            lambda: PostgresStore(postgres),
        ):
            with pytest.raises(StoreUnavailableError, match="cannot be reached") as caught:
                use()
            assert SECRET not in str(caught.value)
    finally:
        postgres_server.start()
    assert store.append("ns", [record(2)])[0] == 2
    store.flush()
    assert store.verify() == 2


@pytest.mark.parametrize("done", [False, True])
def test_a_connection_that_breaks_at_the_commit_loses_and_doubles_nothing(
    postgres_server, store, record, done, monkeypatch
):
    """The connection ends just before or just after the server commits; the ledger is asked which it was."""
    from sigma_mem.store.postgres.store import SharedTail

    store.append("ns", [record(1)])[1].wait()
    write, broken = SharedTail._write, []

    def break_once(turn, *values):
        if broken:
            return write(turn, *values)
        broken.append(True)
        if done:
            write(turn, *values)
        with postgres_server.connect() as db:
            db.execute("SELECT pg_terminate_backend(%s)", [turn._db.info.backend_pid])
        turn._drop()
        raise StoreUnavailableError("the connection is gone")

    monkeypatch.setattr(SharedTail, "_write", break_once)
    seq, ticket = store.append("ns", [record(2)])
    ticket.wait()
    assert broken
    assert seq == 2
    assert [r.id for r in store.records("ns")] == ["1", "2"]
    assert store.verify() == 2
    assert store.epoch("ns") == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_writer_that_ended(postgres, record, monkeypatch):
    store = PostgresStore(postgres)
    store.append("ns", [record(1)])[1].wait()

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of this package")

    monkeypatch.setattr("sigma_mem.store.postgres.store.SharedTail._commit", fail)
    with pytest.raises(StoreError, match="has ended"):
        store.append("ns", [record(2)])[1].wait()
    with pytest.raises(StoreError, match="open it again"):
        store.append("ns", [record(3)])
    store.close()
    with closing(PostgresStore(postgres)) as again:
        assert [r.id for r in again.records("ns")] == [record(1).id]


@pytest.mark.timeout(60)
def test_who_waits_for_room_in_the_queue_lets_the_writer_write(store, record):
    store.append("ns", [record("first")])[1].wait()
    store._tails["ns"].capacity = 2
    with store.turn("ns"):
        for n in range(30):
            store.append("ns", [record(f"{n}-{k}") for k in range(3)])
    assert len(list(store.records("ns"))) == 91
